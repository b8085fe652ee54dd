"""From a run configuration to a DQN learner that can iterate."""

from __future__ import annotations

from mosaic.config.run import RunConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.vector import VectorEnv, VectorShape
from mosaic.learners.casting import Casting, read_casting
from mosaic.learners.dqn import DqnLearner
from mosaic.learners.dqn_check import ENVS, check_dqn
from mosaic.learners.dqn_options import DqnOptions
from mosaic.learners.learner import Assembled
from mosaic.learners.resources import meet_resources
from mosaic.learners.vectors import make_python_vector
from mosaic.models.architecture import Architecture
from mosaic.models.threads import set_product_threads


def assemble_dqn(config: RunConfig, options: DqnOptions) -> Assembled:
    """Makes envs and the policy. Whoever calls this closes the learner."""
    set_product_threads(1)  # batches are small: more threads would spin
    env = make_env(config.environment)
    spec = env.spec
    env.close()
    casting = read_casting(config, spec)
    options = meet_resources(options, config, casting, spec)
    check_dqn(casting, spec, options)
    envs = config.environment.num_envs or ENVS
    vector, world = _vector(config, casting, options, envs)
    try:
        architecture = q_architecture(vector.shape, options)
        learner = DqnLearner(vector, casting.plan, architecture, options, config.seed, config.training.total_timesteps)
    except BaseException:
        vector.close()
        raise
    said = f"fused engine, {envs} × {config.environment.id} ({world}), room for {options.buffer_size} decisions"
    return Assembled(learner, casting, spec, (architecture,), "fused", said)


def q_architecture(shape: VectorShape, options: DqnOptions) -> Architecture:
    return Architecture(shape.width, shape.heads[0], options.hidden, options.activation, shared=True)


def _vector(config: RunConfig, casting: Casting, options: DqnOptions, envs: int) -> tuple[VectorEnv, str]:
    if not casting.played:
        compiled = make_compiled_vector(config.environment, envs)
        if compiled is not None:
            return compiled, "compiled twin"
    where = f"Python envs in {options.env_processes} processes" if options.env_processes else "Python envs"
    return make_python_vector(config, casting, envs, options.env_processes), where
