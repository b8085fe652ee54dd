"""Construction of a DQN learner from a run configuration."""

from __future__ import annotations

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import env_spec, sharing_envs
from mosaic.envs.vector.encoding import RowPart, row_code
from mosaic.envs.vector.layout import VectorEnv, VectorShape
from mosaic.learners.agent_roles import AgentRoles, read_agent_roles
from mosaic.learners.base import Assembled
from mosaic.learners.dqn.algorithm import DqnLearner
from mosaic.learners.dqn.best_policy import BestPolicy
from mosaic.learners.dqn.checks import ENVS, check_dqn
from mosaic.learners.dqn.conservative import CqlLearner
from mosaic.learners.dqn.options import CqlOptions, DqnOptions, QOptions
from mosaic.learners.external.dqn import ExternalDqnLearner
from mosaic.learners.external.world import ExternalWorld, Listen, open_world
from mosaic.learners.ppo.build import make_python_vector
from mosaic.learners.ppo.hardware import EngineName, usual_torch_threads
from mosaic.learners.recorded import Recorded, RecordedSteps, read_recorded
from mosaic.learners.resources import meet_resources
from mosaic.models.architecture import Architecture
from mosaic.models.dense import set_product_threads
from mosaic.models.packed_rows import row_packing
from mosaic.runners.fixed_policies import EnvEpisodes


@sharing_envs()
def assemble_dqn(
    config: RunConfig,
    options: DqnOptions,
    episodes_before: int = 0,
    recorded: Recorded = (),
    listen: Listen | None = None,
) -> Assembled:
    """Make the envs and the policy; the caller closes the learner.

    `episodes_before` is of earlier attempts, `recorded` is the dataset that the options name. With `listen` the envs
    are those of programs that connect.
    """
    set_product_threads(1)  # batches are small: more threads would spin
    spec = env_spec(config.environment)
    roles = read_agent_roles(config, spec)
    options = meet_resources(options, config, roles, spec)
    check_dqn(config, roles, spec, options)  # memory was free at submission, perhaps on another machine
    code = row_code(spec.observation_spaces[roles.learners[0]])
    packing = row_packing([code])
    envs = config.environment.num_envs or ENVS
    external: ExternalWorld | None = None
    vector: VectorEnv
    if listen is None:
        vector, world = _vector(config, roles, options, envs, EnvEpisodes(envs, episodes_before))
    else:
        external = open_world(config, spec, roles, listen, envs, off_policy=True, episodes_before=episodes_before)
        vector, world = external.vector, "envs of programs that connect"
    try:
        architecture = q_architecture(vector.shape, options, code.parts if packing else ())
        if not architecture.plain:
            _set_torch_threads(options.torch_threads or usual_torch_threads(code.width))
        total = config.training.total_timesteps
        steps = _recorded(recorded, roles, spec, options)
        rest = roles.plan, architecture, options, config.seed, total, packing, steps
        if external is None:
            learner = DqnLearner(vector, *rest)
            if (best := _best_policy(config, roles, options)) is not None:
                learner.keep_best(best)
        else:
            learner = ExternalDqnLearner(external, *rest)
    except BaseException:
        vector.close()
        raise
    engine: EngineName = "fused" if architecture.plain else "torch"
    copies = f"{envs} × " if external is None else ""
    said = f"{engine} engine, {copies}{config.environment.id} ({world}), room for {options.buffer_size} decisions"
    if steps is not None:
        said += f" beside {len(steps):,} of {options.dataset}"
    return Assembled(learner, roles, spec, (architecture,), engine, said)


def _best_policy(config: RunConfig, roles: AgentRoles, options: DqnOptions) -> BestPolicy | None:
    if not options.test_every_steps:
        return None
    envs = max(1, min(options.test_episodes, options.batch_size // len(roles.learners)))  # a net reads a batch of rows
    vector, _ = _vector(config, roles, options.model_copy(update={"env_processes": 0}), envs, EnvEpisodes(envs))
    return BestPolicy(vector, options.test_every_steps, options.test_episodes, config.seed)


def _recorded(recorded: Recorded, roles: AgentRoles, spec: EnvSpec, options: DqnOptions) -> RecordedSteps | None:
    """Return the decisions of the dataset, if there is one; the weights of its examples are the rules'."""
    if options.dataset is None:
        return None
    labels = list(dict.fromkeys(label for _, each in recorded for label in each.controllers))
    if len(labels) > 1 and options.demo_coef and not options.controller_weights:
        raise InputError(
            f"dataset={options.dataset} holds decisions of {', '.join(labels)}. Say whose are examples: "
            f"--set training.params.controller_weights='{{{labels[0]}: 1, \"*\": 0}}'"
        )
    (steps,) = read_recorded(recorded, roles, spec, options.controller_weights, options.dataset)
    return steps


@sharing_envs()
def assemble_cql(config: RunConfig, options: CqlOptions, recorded: Recorded) -> Assembled:
    """Make the policy and encode what it learns from; the caller closes the learner."""
    set_product_threads(1)
    spec = env_spec(config.environment)
    roles = read_agent_roles(config, spec)
    (steps,) = read_recorded(recorded, roles, spec, {}, str(options.dataset))
    code = row_code(spec.observation_spaces[roles.learners[0]])
    packing = row_packing([code])
    vector = make_python_vector(config, roles, envs=1, processes=0)
    try:
        architecture = q_architecture(vector.shape, options, code.parts if packing else ())
        if not architecture.plain:
            _set_torch_threads(options.torch_threads or usual_torch_threads(code.width))
        learner = CqlLearner(vector, roles.plan, architecture, options, config.seed, steps, packing)
    except BaseException:
        vector.close()
        raise
    engine: EngineName = "fused" if architecture.plain else "torch"
    said = f"{engine} engine, {len(steps):,} decisions of {options.dataset}"
    return Assembled(learner, roles, spec, (architecture,), engine, said)


def q_architecture(shape: VectorShape, options: QOptions, parts: tuple[RowPart, ...] = ()) -> Architecture:
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
