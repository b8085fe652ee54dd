"""Construction of a PPO learner from a run configuration, and its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.config.run import RunConfig
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.seeding import child_seed
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.vector import CompiledVector, make_compiled_vector
from mosaic.envs.shared_env import close_shared_envs, env_spec, sharing_envs, take_env
from mosaic.envs.vector.encoding import RowCode, row_code
from mosaic.envs.vector.in_process import PythonVector
from mosaic.envs.vector.layout import VectorEnv, VectorShape
from mosaic.learners.agent_roles import AgentRoles, TrainingPlan, read_agent_roles
from mosaic.learners.base import Assembled
from mosaic.learners.engines.fused import FusedEngine
from mosaic.learners.engines.fused_memory import FusedMemoryEngine
from mosaic.learners.episode_mapping import EpisodeAssignment
from mosaic.learners.external.rollouts import ExternalRollouts
from mosaic.learners.external.world import ExternalWorld, Listen, open_world
from mosaic.learners.network_options import NetworkOptions
from mosaic.learners.opponents import opponents_of, played_by_env
from mosaic.learners.ppo.algorithm import PpoLearner
from mosaic.learners.ppo.hardware import EngineName, check_rollout_memory, cuda_is_available, equip, usual_torch_threads
from mosaic.learners.ppo.options import PpoOptions
from mosaic.learners.resources import meet_resources
from mosaic.learners.rollout.base import RolloutSettings, RolloutWorker
from mosaic.learners.rollout.compiled import CompiledPolicies, CompiledRollouts
from mosaic.learners.rollout.compiled_memory import CompiledMemoryRollouts
from mosaic.learners.rollout.engine_policies import EnginePolicies, Trains
from mosaic.learners.rollout.python import PythonRollouts, is_simple
from mosaic.models.architecture import Architecture
from mosaic.models.dense import set_product_threads
from mosaic.models.engine import LearnSettings
from mosaic.models.layout import initial_weights
from mosaic.models.packed_rows import RowPacking, row_packing
from mosaic.runners.fixed_policies import ChangingPolicies, ControllerOthers, EnvEpisodes, make_others

OwnOptions: TypeAlias = Callable[[PpoOptions, TrainingPlan], Mapping[PolicyID, PpoOptions]]


def make_python_vector(
    config: RunConfig,
    roles: AgentRoles,
    envs: int,
    processes: int,
    number: int = 0,
    by_env: Mapping[int, Mapping[AgentID, PolicyID]] | None = None,
    numbers: EnvEpisodes | None = None,
) -> VectorEnv:
    """Make a vector env; `number` distinguishes several in one run, `by_env` gives guest policies in single envs.

    `numbers` are those of its episodes, which fixed policies that change depend on.
    """
    others_here: Callable[[], ControllerOthers] | None = None
    if roles.played or by_env:
        seed = child_seed(config.seed, "others", number)
        changing: ChangingPolicies | None = None
        if roles.played_episodes is not None:
            changing = ChangingPolicies(roles.played_episodes.policy, numbers or EnvEpisodes(envs))
        others_here = partial(make_others, config.environment, dict(roles.played), seed, by_env, changing)
    if processes:
        from mosaic.envs.vector.multi_process import ProcessVector

        close_shared_envs()
        return ProcessVector(partial(make_env, config.environment), envs, processes, others_here)
    others = others_here() if others_here else None
    return PythonVector([take_env(config.environment) for _ in range(envs)], others)


@sharing_envs()
def assemble(
    config: RunConfig,
    options: PpoOptions,
    read_own: OwnOptions | None = None,
    episodes_before: int = 0,
    listen: Listen | None = None,
) -> Assembled:
    """Make envs and policies; the caller closes the learner.

    `read_own` returns the options of policies that have others than the run. `episodes_before` is of earlier attempts.
    With `listen` the envs are those of programs that connect.
    """
    set_product_threads(1)  # minibatches are small: more threads would spin
    spec = env_spec(config.environment)
    roles = read_agent_roles(config, spec)
    options = meet_resources(options, config, roles, spec)
    plan = roles.plan
    rows = {agent: row_code(spec.observation_spaces[agent]) for agent in roles.learners}
    opponents = opponents_of(options, roles, spec)
    check_rollout_memory(config, options, roles, spec, opponents)  # it was free at submission, perhaps elsewhere
    own = read_own(options, plan) if read_own else {}
    each = [own.get(name, options) for name in plan.names]
    engine, why, compiled, envs, steps, threads, guests, on_device = equip(
        config, options, roles, spec, opponents, each
    )
    played = played_by_env(opponents, guests, envs, roles.learners)
    if threads > 1:  # a minibatch is divided, so that as many steps are made as with one thread
        each = [one.model_copy(update={"batch_size": max(2, one.batch_size // threads)}) for one in each]
    workers: list[RolloutWorker] = []
    architectures: tuple[Architecture, ...] = ()
    external: ExternalWorld | None = None
    if listen is not None:
        external = open_world(config, spec, roles, listen, envs, off_policy=False, episodes_before=episodes_before)
    for number in range(threads):
        share = envs * (number + 1) // threads - envs * number // threads
        numbers = partial(EnvEpisodes, envs, episodes_before + envs * number // threads)
        vector: VectorEnv
        if external is not None:
            vector = external.vector
        elif on_device:
            vector = _device_vector(config, options, share, max(code.width for code in rows.values()))
        else:
            vector = _vector(config, roles, options, share, compiled, number, played, numbers())
        architectures = make_architectures(roles, each, vector.shape, rows)
        settings = RolloutSettings(
            steps,
            child_seed(config.seed, "lane", number),
            places=opponents.places(options.league_places) if plan.self_play else 0,
            selfplay_envs=round(share * options.selfplay_share),
            guests=guests,
            bound=opponents.bound,
            normalize_observations=options.normalize_observations,
            episodes=_episodes(roles, numbers()),
        )
        if on_device:
            workers.append(_device_rollouts(vector, plan, architectures, each, settings, config.seed))
            continue
        plain = engine == "fused" and architectures[0].plain and len(set(architectures)) == 1 and roles.episodes is None
        if plain and isinstance(vector, CompiledVector):
            workers.append(_compiled_rollouts(vector, plan, architectures, each, settings, config.seed))
        else:
            make = partial(make_engine, engine, architectures, each, config.seed)
            packing = row_packing([*rows.values()])
            policies = EnginePolicies(architectures, make, vector.shape, settings)
            learning = _learn_settings(each, vector.shape, settings)
            workers.append(
                _engine_rollouts(vector, plan, policies, learning, settings, packing)
                if external is None
                else ExternalRollouts(external, plan, policies, learning, settings, packing)
            )
    learner = PpoLearner(workers, plan, options, config.seed, config.training.total_timesteps, opponents, each)
    world = "compiled twin" if compiled else "Python envs" if external is None else "envs of programs that connect"
    if on_device:
        world = "tensors on the learner's device"
    if roles.episodes is not None or roles.played_episodes is not None:
        world += ", stepped from Python: policies change from episode to episode"
    if opponents.foreign:
        world += f", {len(guests)} of them against {', '.join(opponents.foreign)}"
    learners = f"{threads} threads" if threads > 1 else "one thread"
    said = f"{engine} engine ({why}), {envs} × {config.environment.id} ({world}), {steps} steps a rollout, {learners}"
    if external is not None:
        said = f"{engine} engine ({why}), {config.environment.id} ({world}), {envs * steps} env steps a rollout"
    networks = tuple(one.network for one in each)
    return Assembled(learner, roles, spec, architectures, engine, said, networks)


def _episodes(roles: AgentRoles, numbers: EnvEpisodes) -> EpisodeAssignment | None:
    if roles.episodes is None:
        return None
    return EpisodeAssignment(roles.episodes, roles.learners, roles.plan.names, numbers)


def _vector(
    config: RunConfig,
    roles: AgentRoles,
    options: PpoOptions,
    envs: int,
    compiled: bool,
    number: int,
    by_env: Mapping[int, Mapping[AgentID, PolicyID]],
    numbers: EnvEpisodes,
) -> VectorEnv:
    if compiled:
        vector = make_compiled_vector(config.environment, envs)
        assert vector is not None
        return vector
    return make_python_vector(config, roles, envs, options.env_processes, number, by_env, numbers)


def make_architectures(
    roles: AgentRoles, each: Sequence[NetworkOptions], shape: VectorShape, rows: Mapping[AgentID, RowCode]
) -> tuple[Architecture, ...]:
    """Return the architecture of each policy; `each` are their options."""
    plan = roles.plan
    critic = shape.width * len(shape.agents) if plan.central else 0
    made = []
    for policy, options in enumerate(each):
        agent = plan.agents_of(policy, shape.agents)[0]
        parts = rows[agent].parts if agent in rows else ()
        pictures = any(part.picture for part in parts)
        made.append(
            Architecture(
                observation=plan.width_of(policy, shape),
                head=plan.head_of(policy, shape),
                hidden=options.hidden,
                activation=options.activation,
                shared=options.share_layers and not critic,
                critic_observation=critic,
                critic_hidden=options.critic_hidden,
                parts=parts if pictures else (),
                memory=options.memory,
                memory_size=options.memory_size,
            )
        )
    return tuple(made)


def _compiled_rollouts(
    vector: CompiledVector,
    plan: TrainingPlan,
    architectures: Sequence[Architecture],
    each: Sequence[PpoOptions],
    settings: RolloutSettings,
    run_seed: int,
) -> CompiledRollouts:
    initial = [_initial(architectures, policy, each, run_seed) for policy in range(len(architectures))]
    policies = CompiledPolicies(architectures[0], initial, vector.shape, settings)
    return CompiledRollouts(vector, plan, policies, _learn_settings(each, vector.shape, settings), settings)


def _engine_rollouts(
    vector: VectorEnv,
    plan: TrainingPlan,
    policies: EnginePolicies,
    learning: Sequence[LearnSettings],
    settings: RolloutSettings,
    packing: RowPacking | None,
) -> RolloutWorker:
    compiled = isinstance(vector, CompiledVector) and isinstance(policies.engines[0], FusedMemoryEngine)
    ready = compiled and settings.episodes is None and is_simple(vector.shape, policies, settings)
    kind = CompiledMemoryRollouts if ready else PythonRollouts
    return kind(vector, plan, policies, learning, settings, packing)


def _device_vector(config: RunConfig, options: PpoOptions, envs: int, width: int) -> VectorEnv:
    from mosaic.envs.tensors.vector import make_tensor_vector
    from mosaic.learners.engines.torch import checked_device

    vector = make_tensor_vector(config.environment, envs, checked_device(_torch_device(options, width)))
    assert vector is not None
    return vector


def _device_rollouts(
    vector: VectorEnv,
    plan: TrainingPlan,
    architectures: Sequence[Architecture],
    each: Sequence[PpoOptions],
    settings: RolloutSettings,
    run_seed: int,
) -> RolloutWorker:
    import torch

    from mosaic.envs.tensors.vector import TensorVector
    from mosaic.learners.rollout.tensor_policies import TensorPolicies
    from mosaic.learners.rollout.tensors import TensorRollouts
    from mosaic.models.torch_net import make_network

    assert isinstance(vector, TensorVector)
    torch.set_float32_matmul_precision("high")  # TF32 on a GPU: products are several times faster
    learning = _learn_settings(each, vector.shape, settings)
    networks = [
        make_network(architecture, child_seed(run_seed, "weights", policy), one.log_std_init, one.network)
        for policy, (architecture, one) in enumerate(zip(architectures, each, strict=True))
    ]
    policies = TensorPolicies(
        architectures, networks, learning, settings.places, vector.device, compiled=each[0].compile
    )
    return TensorRollouts(vector, plan, policies, learning, settings)


def _learn_settings(
    each: Sequence[PpoOptions], shape: VectorShape, settings: RolloutSettings
) -> tuple[LearnSettings, ...]:
    return tuple(
        LearnSettings(
            n_epochs=options.n_epochs,
            batch_size=min(options.batch_size, settings.n_steps * shape.slots),
            gamma=options.gamma,
            gae_lambda=options.gae_lambda,
            clip_range=options.clip_range,
            clip_range_vf=options.clip_range_vf,
            ent_coef=options.ent_coef,
            vf_coef=options.vf_coef,
            max_grad_norm=options.max_grad_norm,
            target_kl=options.target_kl,
            normalize_advantage=options.normalize_advantage,
        )
        for options in each
    )


def make_engine(
    engine: EngineName,
    architectures: Sequence[Architecture],
    each: Sequence[NetworkOptions],
    run_seed: int,
    policy: int,
    seed: int,
) -> Trains:
    """Make one policy's engine; `seed` is of its random numbers, the weights depend on the run's seed alone."""
    if engine == "fused":
        kind = FusedEngine if architectures[policy].plain else FusedMemoryEngine
        fused = kind(architectures[policy], seed, each[policy].log_std_init)
        fused.load(_initial(architectures, policy, each, run_seed))
        return fused
    return _torch_engine(architectures[policy], child_seed(run_seed, "weights", policy), seed, each[policy])


def _torch_engine(architecture: Architecture, seed: int, draws: int, options: NetworkOptions) -> Trains:
    from mosaic.learners.engines.torch import TorchEngine, TorchOptions

    device = _torch_device(options, architecture.observation)
    extra = options.extra_loss if isinstance(options, PpoOptions) else None
    return TorchEngine(
        architecture, seed, TorchOptions(device, options.compile, options.network, extra, options.log_std_init), draws
    )


def _torch_device(options: NetworkOptions, width: int) -> str:
    """Return the device's name; on a CPU, set the number of threads for observations of this width."""
    import torch

    device = options.device
    if device == "auto":
        device = "cuda" if cuda_is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(options.torch_threads or usual_torch_threads(width))
    return device


def _initial(
    architectures: Sequence[Architecture], policy: int, each: Sequence[NetworkOptions], run_seed: int
) -> NDArray[np.float32]:
    return initial_weights(architectures[policy], child_seed(run_seed, "weights", policy), each[policy].log_std_init)
