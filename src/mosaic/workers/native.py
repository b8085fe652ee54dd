"""The worker that trains networks with Mosaic's own learners: PPO and A2C for any number of agents, and DQN."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from mosaic.config.section import Section
from mosaic.config.training import DEFAULT_TIMESTEPS
from mosaic.core.compile_time import working_time
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.learners.dqn_options import DqnOptions
from mosaic.learners.ppo_options import A2cOptions, PpoOptions
from mosaic.policies.controller import PolicyController, PolicyRequest, default_sampling
from mosaic.store.checkpoints import Checkpoint, PolicyEntry
from mosaic.store.run_policy import parse_init
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.camera import Camera
from mosaic.workers.completing import with_limit
from mosaic.workers.context import WorkerContext
from mosaic.workers.evaluating import evaluate_learners, is_due
from mosaic.workers.native_init import TRAINING, check_training, load_training, start_from, weights_file

if TYPE_CHECKING:  # what brings numba along is imported when a run begins
    from mosaic.config.run import RunConfig
    from mosaic.envs.env import EnvSpec
    from mosaic.learners.learner import Assembled, Learner
    from mosaic.models.weights_file import SavedNetwork

FACTS = "facts.json"
COUNTERS = "counters.json"
_REPORTS = 200


class Reporting(Section):
    """What concerns the worker alone."""

    report_every_steps: int | None = Field(
        None, ge=1, description="Env steps between two metric events; None: about two hundred events in all."
    )


class NativePpoOptions(PpoOptions, Reporting):
    pass


class NativeA2cOptions(A2cOptions, Reporting):
    pass


class NativeDqnOptions(DqnOptions, Reporting):
    pass


_OPTIONS: Mapping[str, type[Reporting]] = {"ppo": NativePpoOptions, "a2c": NativeA2cOptions, "dqn": NativeDqnOptions}


class NativeWorker:
    info = WorkerCapabilities(
        name="native",
        version=version("mosaic-rl"),
        algorithms=tuple(_OPTIONS),
        paradigms=("parameter_sharing", "independent", "self_play", "shared_value_function"),
        action_kinds=("discrete", "multi_discrete", "multi_binary", "box"),
        observation_kinds=("discrete", "multi_discrete", "multi_binary", "box", "pictures", "dict", "tuple"),
        self_play=True,
        pause=True,
        resume=True,
        checkpoints=True,
        seeds=True,
        samples=True,
        gpu=True,
        agent_mapping=True,
        evaluates=True,
        init=True,
        resources=("num_workers", "num_gpus", "runtime", "num_envs"),
        patience_s=60.0,  # the first update may have to be compiled
    )
    loads_pickles = False  # safetensors and JSON

    def options(self, algorithm: str) -> type[BaseModel]:
        return _OPTIONS[algorithm]

    def check(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> None:
        """Raises InputError where agents and policies do not fit, before anything is started."""
        from mosaic.learners.casting import read_casting
        from mosaic.learners.dqn_check import ENVS, check_dqn
        from mosaic.learners.equipment import check_ppo, check_processes, has_twin
        from mosaic.learners.opponents import check_players
        from mosaic.learners.resources import meet_resources

        casting = read_casting(config, spec)
        others = [*casting.played.values()]
        if isinstance(options, PpoOptions | DqnOptions):
            options = meet_resources(options, config, casting, spec)
        if isinstance(options, PpoOptions):
            others += check_ppo(config, options, casting, spec).foreign
        if isinstance(options, DqnOptions):
            check_dqn(config, casting, spec, options)
            if options.env_processes:
                envs, twin = config.environment.num_envs or ENVS, not casting.played and has_twin(config.environment)
                check_processes(options.env_processes, envs, config.environment, compiled=twin)
        check_players(others, spec)
        if config.training.init is not None:
            parse_init(config.training.init)

    def complete(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> tuple[RunConfig, BaseModel]:
        """Decide limits, envs, engine and all that follows from them."""
        from mosaic.learners.casting import read_casting
        from mosaic.learners.dqn_check import settle_dqn
        from mosaic.learners.equipment import settle_ppo
        from mosaic.learners.opponents import opponents_of
        from mosaic.learners.resources import meet_resources

        config, casting = with_limit(config), read_casting(config, spec)
        if isinstance(options, PpoOptions):
            options = meet_resources(options, config, casting, spec)
            return settle_ppo(config, options, casting, spec, opponents_of(options, casting, spec))
        assert isinstance(options, DqnOptions)
        return settle_dqn(config, meet_resources(options, config, casting, spec), casting, spec)

    def run(self, context: WorkerContext) -> None:
        from mosaic.workers.native_scene import NativeScene

        options = context.options
        assert isinstance(options, Reporting)
        config = context.config = with_limit(context.config)  # one that an older version stored may have none
        assembled = _assemble(config, options)
        said = f"{config.training.algorithm}: {assembled.said}"
        print(said, flush=True)
        context.report(kind="equipped", message=said)
        with closing(assembled.learner) as learner, Camera(context, NativeScene(learner)) as camera:

            def glance() -> bool:
                camera.glance()
                return context.inbox.stop_asked() is not None

            learner.watch(glance)
            self._train(context, options, assembled, camera)

    def _train(self, context: WorkerContext, options: Reporting, assembled: Assembled, camera: Camera) -> None:
        learner = assembled.learner
        iteration = 0
        if context.resume_from is not None:
            iteration = _load(context.resume_from, assembled)
        elif context.config.training.init is not None:
            start_from(context.config.training.init, assembled)
        total = context.config.training.total_timesteps
        pace = options.report_every_steps or max(1, (total or DEFAULT_TIMESTEPS) // _REPORTS)
        reported, since = learner.env_steps, working_time()
        reward: float | None = None
        evaluated_at: int | None = None
        context.measure_with(lambda: _measures(learner))

        def save() -> None:
            _save(context, assembled, iteration, reward)

        context.training_began_at = since
        while not context.done(learner.env_steps, learner.progress().episodes, reward):
            context.inbox.wait_while_paused(save)
            if context.inbox.stop_asked():
                break
            before = learner.env_steps
            with context.iteration():
                learner.iterate()
            camera.glance()
            iteration += 1
            progress = learner.progress()
            reward, over = (
                progress.return_mean,
                context.done(learner.env_steps, progress.episodes, progress.return_mean),
            )
            due = over or is_due(before, learner.env_steps, pace)
            if due or context.report_due():
                now = working_time()
                trigger = {} if due else {"trigger": "clock"}
                speed = (learner.env_steps - reported) / (now - since)
                _report(context, assembled, iteration, speed, trigger)
                reported, since = learner.env_steps, now
            if context.checkpoint_due(learner.env_steps):
                save()
            if is_due(before, learner.env_steps, context.config.evaluation.every_steps):
                _evaluate(context, assembled, camera)
                evaluated_at = learner.env_steps
        if context.config.checkpoint.at_end:
            save()  # first: whatever happens to an evaluation, what was learned is kept
        context.training_ended_at = working_time()
        if not context.inbox.stop_asked() and evaluated_at != learner.env_steps:
            _evaluate(context, assembled, camera)

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        return _controller(checkpoint.path, weights_file(checkpoint, policy), request)


def _assemble(config: RunConfig, options: BaseModel) -> Assembled:
    if isinstance(options, DqnOptions):
        from mosaic.learners.dqn_assembly import assemble_dqn

        return assemble_dqn(config, options)
    from mosaic.learners.assembly import assemble

    assert isinstance(options, PpoOptions)
    return assemble(config, options)


def _controller(folder: Path, file: str, request: PolicyRequest) -> PolicyController:
    from mosaic.envs.rows import action_code, row_code
    from mosaic.models.weights_file import load_weights
    from mosaic.policies.engine import EnginePolicyController
    from mosaic.policies.exploring import EpsilonGreedyController
    from mosaic.policies.network import NetworkPolicyController

    spec, sampling = request.spec, request.sampling
    saved = load_weights(folder / file)
    codes = {agent: row_code(spec.observation_spaces[agent]) for agent in spec.possible_agents}
    rows = {agent: code for agent, code in codes.items() if code.width == saved.architecture.observation}
    if not rows:
        raise InputError(f"'{request.reference}' sees {saved.architecture.observation} numbers; no agent here does.")
    if not saved.architecture.parts and any(part.picture for code in rows.values() for part in code.parts):
        raise InputError(
            f"'{request.reference}' was trained by an older version that laid pictures of this form flat, and cannot "
            "see them as they are shown now. Train it again."
        )
    actions = {agent: action_code(spec.action_spaces[agent]) for agent in rows}
    scaler = _scaler(saved)
    facts = json.loads((folder / FACTS).read_text())
    network, epsilon = facts["network"], facts.get("epsilon")  # of DQN: how it explores
    explores = epsilon is not None and sampling is not None and sampling.temperature is None
    temperature = None if sampling is None or explores else sampling.temperature or 1.0
    made: PolicyController
    if saved.architecture.plain and not network:
        drawn = temperature is not None
        made = NetworkPolicyController(
            saved.architecture, saved.flat, rows, actions, scaler, request.seed, drawn, temperature or 1.0
        )
    else:
        from mosaic.learners.torch_engine import TorchEngine, TorchOptions

        engine = TorchEngine(saved.architecture, 0, TorchOptions(module=network))
        engine.load(saved.flat)
        made = EnginePolicyController(engine, rows, actions, scaler, temperature)
    return EpsilonGreedyController(made, spec, epsilon) if explores else made


def _evaluate(context: WorkerContext, assembled: Assembled, camera: Camera) -> None:
    """Play the policies as they are now on fixed seeds, by the default that `run:` has in this env."""
    with TemporaryDirectory(prefix="mosaic-evaluation-") as name:
        folder = Path(name)
        _save_policies(folder, context, assembled)

        def make(spec: EnvSpec, agent: AgentID) -> PolicyController:
            number = assembled.learner.plan.policy_of[assembled.casting.learners.index(agent)]
            sampling = default_sampling(spec, stochastic=_is_stochastic(context))
            request = PolicyRequest("the policy that learns", spec, (agent,), sampling=sampling)
            return _controller(folder, _file(number), request)

        played, stopped = assembled.casting.played, context.inbox.stop_asked
        for record in evaluate_learners(context.config, make, played, camera, stopped):
            context.report(kind="evaluation", env_steps=assembled.learner.env_steps, **record)


def _scaler(saved: SavedNetwork) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    if "shift" not in saved.extra:
        return None
    return saved.extra["shift"].astype(np.float32), saved.extra["scale"].astype(np.float32)


def _report(
    context: WorkerContext, assembled: Assembled, iteration: int, per_second: float, trigger: Mapping[str, str]
) -> None:
    from mosaic.models.weights_file import check_finite

    learner = assembled.learner
    progress = learner.progress()
    for policy, name in enumerate(learner.plan.names):
        check_finite(learner.weights(policy), f"After {progress.env_steps:,} env steps the weights of '{name}'")
    env_s, inference_s, learning_s = learner.split()
    policies: dict[str, Any] = {}
    for name, returns, losses in zip(learner.plan.names, progress.returns, progress.losses, strict=True):
        policies[name] = {"reward_mean": float(returns.mean()) if returns.size else None, "learner": losses}
    custom: dict[str, Any] = {}
    if learner.league is not None:
        policies[learner.plan.names[0]]["rating"] = learner.league.rating
        custom = learner.league.metrics()
    context.report(
        kind="iteration",
        training_iteration=iteration,
        **_measures(learner),
        **trigger,
        env_steps_per_s=per_second,
        time_env_s=env_s,
        time_inference_s=inference_s,
        time_learning_s=learning_s,
        policies=policies,
        custom_metrics=custom,
    )


def _is_stochastic(context: WorkerContext) -> bool:
    """Whether the policies give probabilities of actions; those of DQN give values."""
    return not isinstance(context.options, DqnOptions)


def _measures(learner: Learner) -> dict[str, Any]:
    """What may be read in the middle of an iteration, too."""
    progress = learner.progress()
    seen = np.concatenate(progress.returns)
    return {
        "env_steps": progress.env_steps,
        "agent_steps": progress.agent_steps,
        "episodes_total": progress.episodes,
        "episode_reward_mean": float(seen.mean()) if seen.size else None,
        "episode_reward_min": float(seen.min()) if seen.size else None,
        "episode_reward_max": float(seen.max()) if seen.size else None,
        "episode_len_mean": float(progress.lengths.mean()) if progress.lengths.size else None,
    }


def _file(policy: int) -> str:
    return f"policy_{policy}.safetensors"


def _save_policies(folder: Path, context: WorkerContext, assembled: Assembled) -> None:
    """All that is needed to play them."""
    from mosaic.models.weights_file import save_weights

    learner = assembled.learner
    network: str | None = getattr(context.options, "network", None)
    for policy, architecture in enumerate(assembled.architectures):
        moments = learner.scaler(policy)
        width = architecture.observation
        extra = {} if moments is None else {"shift": moments.shift[:width], "scale": moments.scale[:width]}
        own = network is not None
        save_weights(folder / _file(policy), architecture, learner.weights(policy), extra, own_network=own)
    # of a policy of action values: the share of random actions that it explores with now
    epsilon: float | None = None if _is_stochastic(context) else getattr(learner, "epsilon", None)
    facts = {"engine": assembled.engine, "network": network, "epsilon": epsilon}
    (folder / FACTS).write_text(json.dumps(facts))


def _save(context: WorkerContext, assembled: Assembled, iteration: int, reward: float | None) -> None:
    from safetensors.numpy import save_file

    learner = assembled.learner
    progress = learner.progress()
    counters = {
        "iteration": iteration,
        "env_steps": progress.env_steps,
        "agent_steps": progress.agent_steps,
        "episodes": progress.episodes,
    }

    def save(folder: Path) -> None:
        _save_policies(folder, context, assembled)
        state = {key: np.ascontiguousarray(value) for key, value in learner.training_state().items()}
        check_training(state, f"After {progress.env_steps:,} env steps")
        save_file(state, folder / TRAINING)
        (folder / COUNTERS).write_text(json.dumps(counters))

    agents = assembled.casting.learners
    context.checkpoint(
        save,
        env_steps=progress.env_steps,
        policies={
            name: PolicyEntry(
                files=(_file(policy), FACTS),
                agents=learner.plan.agents_of(policy, agents),
                stochastic=_is_stochastic(context),
            )
            for policy, name in enumerate(learner.plan.names)
        },
        reward=reward,
        rating=None if learner.league is None else learner.league.rating,
        pickles=False,
    )


def _load(checkpoint: Checkpoint, assembled: Assembled) -> int:
    """Goes on where the checkpoint was written; the envs begin new episodes. Answers the iterations before."""
    from mosaic.models.weights_file import load_weights

    learner = assembled.learner
    counters = json.loads((checkpoint.path / COUNTERS).read_text())
    weights = [load_weights(checkpoint.path / weights_file(checkpoint, name)).flat for name in learner.plan.names]
    learner.env_steps_before = int(counters["env_steps"])
    learner.agent_steps_before = int(counters["agent_steps"])
    learner.episodes_before = int(counters["episodes"])
    learner.load_training_state(weights, load_training(checkpoint.path / TRAINING))
    return int(counters["iteration"])


worker = NativeWorker()
