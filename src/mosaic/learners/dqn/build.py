"""Construction of a DQN learner from a run configuration."""

from __future__ import annotations

from mosaic.config.run import RunConfig
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.shared_env import env_spec, sharing_envs
from mosaic.envs.vector.encoding import RowPart, row_code
from mosaic.envs.vector.layout import VectorEnv, VectorShape
from mosaic.learners.agent_roles import AgentRoles, read_agent_roles
from mosaic.learners.base import Assembled
from mosaic.learners.dqn.algorithm import DqnLearner
from mosaic.learners.dqn.checks import ENVS, check_dqn
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.ppo.build import make_python_vector
from mosaic.learners.ppo.hardware import EngineName, usual_torch_threads
from mosaic.learners.resources import meet_resources
from mosaic.models.architecture import Architecture
from mosaic.models.dense import set_product_threads
from mosaic.models.packed_rows import row_packing
from mosaic.runners.fixed_policies import EnvEpisodes


@sharing_envs()
def assemble_dqn(config: RunConfig, options: DqnOptions, episodes_before: int = 0) -> Assembled:
    """Make the envs and the policy; the caller closes the learner. `episodes_before` is of earlier attempts."""
    set_product_threads(1)  # batches are small: more threads would spin
    spec = env_spec(config.environment)
    roles = read_agent_roles(config, spec)
    options = meet_resources(options, config, roles, spec)
    check_dqn(config, roles, spec, options)  # memory was free at submission, perhaps on another machine
    code = row_code(spec.observation_spaces[roles.learners[0]])
    packing = row_packing([code])
    envs = config.environment.num_envs or ENVS
    vector, world = _vector(config, roles, options, envs, EnvEpisodes(envs, episodes_before))
    try:
        architecture = q_architecture(vector.shape, options, code.parts if packing else ())
        if not architecture.plain:
            _set_torch_threads(options.torch_threads or usual_torch_threads(code.width))
        total = config.training.total_timesteps
        learner = DqnLearner(vector, roles.plan, architecture, options, config.seed, total, packing)
    except BaseException:
        vector.close()
        raise
    engine: EngineName = "fused" if architecture.plain else "torch"
    said = f"{engine} engine, {envs} × {config.environment.id} ({world}), room for {options.buffer_size} decisions"
    return Assembled(learner, roles, spec, (architecture,), engine, said)


def q_architecture(shape: VectorShape, options: DqnOptions, parts: tuple[RowPart, ...] = ()) -> Architecture:
    return Architecture(shape.width, shape.heads[0], options.hidden, options.activation, shared=True, parts=parts)


def _set_torch_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def _vector(
    config: RunConfig, roles: AgentRoles, options: DqnOptions, envs: int, numbers: EnvEpisodes
) -> tuple[VectorEnv, str]:
    if not roles.played:
        compiled = make_compiled_vector(config.environment, envs)
        if compiled is not None:
            return compiled, "compiled twin"
    where = f"Python envs in {options.env_processes} processes" if options.env_processes else "Python envs"
    return make_python_vector(config, roles, envs, options.env_processes, numbers=numbers), where
