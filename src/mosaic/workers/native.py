"""The worker that trains networks with Mosaic's own learner: PPO and A2C for any number of agents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from mosaic.config.environment import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.family import split_version
from mosaic.learners.ppo_options import A2cOptions, PpoOptions
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.store.checkpoints import Checkpoint, PolicyEntry
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.context import WorkerContext

if TYPE_CHECKING:  # what brings numba along is imported when a run begins
    from mosaic.config.run import RunConfig
    from mosaic.envs.env import EnvSpec
    from mosaic.learners.assembly import Assembled
    from mosaic.models.weights_file import SavedNetwork

FACTS = "facts.json"
TRAINING = "training.safetensors"
DEFAULT_TIMESTEPS = 1_000_000
_REPORTS = 200


class NativePpoOptions(PpoOptions):
    report_every_steps: int | None = Field(
        None, ge=1, description="Env steps between two metric events; None: about two hundred events in all."
    )


class NativeA2cOptions(A2cOptions):
    report_every_steps: int | None = Field(
        None, ge=1, description="Env steps between two metric events; None: about two hundred events in all."
    )


_OPTIONS: Mapping[str, type[PpoOptions]] = {"ppo": NativePpoOptions, "a2c": NativeA2cOptions}


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
        gpu=True,
    )
    loads_pickles = False  # safetensors and JSON

    def options(self, algorithm: str) -> type[BaseModel]:
        return _OPTIONS[algorithm]

    def check(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> None:
        """Raises InputError where agents and policies do not fit, before anything is started."""
        from mosaic.learners.casting import read_casting

        read_casting(config, spec)

    def run(self, context: WorkerContext) -> None:
        from mosaic.learners.assembly import assemble

        options = context.options
        assert isinstance(options, NativePpoOptions | NativeA2cOptions)
        config = context.config
        if not (config.training.total_timesteps or config.training.episodes or config.training.stop_reward):
            training = config.training.model_copy(update={"total_timesteps": DEFAULT_TIMESTEPS})
            config = config.model_copy(update={"training": training})
            context.config = config
        assembled = assemble(config, options)
        try:
            print(f"{config.training.algorithm}: {assembled.said}", flush=True)
            self._train(context, options, assembled)
        finally:
            assembled.learner.close()

    def _train(
        self, context: WorkerContext, options: NativePpoOptions | NativeA2cOptions, assembled: Assembled
    ) -> None:
        learner = assembled.learner
        iteration = 0
        if context.resume_from is not None:
            iteration = _load(context.resume_from, assembled)
        elif context.config.training.init is not None:
            _start_from(context.config.training.init, assembled)
        total = context.config.training.total_timesteps
        pace = options.report_every_steps or max(1, (total or DEFAULT_TIMESTEPS) // _REPORTS)
        reported, since = learner.env_steps, perf_counter()
        reward: float | None = None

        def save() -> None:
            _save(context, assembled, iteration, reward)

        while not context.done(learner.env_steps, learner.progress().episodes, reward):
            context.inbox.wait_while_paused(save)
            if context.inbox.stop_asked():
                break
            learner.iterate()
            iteration += 1
            reward = learner.progress().return_mean
            if learner.env_steps - reported >= pace or context.done(learner.env_steps, 0, reward):
                now = perf_counter()
                _report(context, assembled, iteration, (learner.env_steps - reported) / (now - since))
                reported, since = learner.env_steps, now
            if context.checkpoint_due(learner.env_steps):
                save()
        if context.config.checkpoint.at_end:
            save()

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        from mosaic.envs.rows import action_code, row_code
        from mosaic.models.weights_file import load_weights
        from mosaic.policies.engine import EnginePolicyController
        from mosaic.policies.network import NetworkPolicyController

        spec = request.spec
        trained_in = EnvironmentConfig.model_validate(checkpoint.manifest.environment).id
        if split_version(trained_in)[0] != split_version(spec.env_id)[0]:
            raise InputError(f"'{request.reference}' was trained in {trained_in} and cannot play {spec.env_id}.")
        saved = load_weights(checkpoint.path / _file_of(checkpoint, policy))
        agents = [
            agent
            for agent in spec.possible_agents
            if row_code(spec.observation_spaces[agent]).width == saved.architecture.observation
        ]
        if not agents:
            raise InputError(f"'{request.reference}' sees {saved.architecture.observation} numbers; no agent here does.")
        rows = {agent: row_code(spec.observation_spaces[agent]) for agent in agents}
        actions = {agent: action_code(spec.action_spaces[agent]) for agent in agents}
        scaler = _scaler(saved)
        facts = json.loads((checkpoint.path / FACTS).read_text())
        if saved.architecture.plain and not facts.get("network"):
            return NetworkPolicyController(saved.architecture, saved.flat, rows, actions, scaler, seed=request.seed)
        from mosaic.learners.torch_engine import TorchEngine, TorchOptions

        engine = TorchEngine(saved.architecture, 0, TorchOptions(module=facts.get("network")))
        engine.load(saved.flat)
        return EnginePolicyController(engine, rows, actions, scaler)


def _scaler(saved: SavedNetwork) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    if "shift" not in saved.extra:
        return None
    return saved.extra["shift"].astype(np.float32), saved.extra["scale"].astype(np.float32)


def _report(context: WorkerContext, assembled: Assembled, iteration: int, per_second: float) -> None:
    learner = assembled.learner
    progress = learner.progress()
    seen = np.concatenate(progress.returns)
    split = np.sum([lane.split() for lane in learner.lanes], axis=0)
    policies: dict[str, Any] = {}
    for name, returns, losses in zip(learner.plan.names, progress.returns, progress.losses, strict=True):
        policies[name] = {"reward_mean": float(returns.mean()) if returns.size else None, "learner": losses}
    custom: dict[str, Any] = {}
    if learner.league is not None:
        policies[learner.plan.names[0]]["rating"] = learner.league.rating
        custom = {"league_size": len(learner.league.snapshots)}
    context.report(
        kind="iteration",
        training_iteration=iteration,
        env_steps=progress.env_steps,
        agent_steps=progress.agent_steps,
        episodes_total=progress.episodes,
        episode_reward_mean=float(seen.mean()) if seen.size else None,
        episode_reward_min=float(seen.min()) if seen.size else None,
        episode_reward_max=float(seen.max()) if seen.size else None,
        episode_len_mean=float(progress.lengths.mean()) if progress.lengths.size else None,
        env_steps_per_s=per_second,
        time_env_s=float(split[0]),
        time_inference_s=float(split[1]),
        time_learning_s=float(split[2]),
        policies=policies,
        custom_metrics=custom,
    )


def _file_of(checkpoint: Checkpoint, policy: str) -> str:
    return next(name for name in checkpoint.manifest.policies[policy].files if name.endswith(".safetensors"))


def _save(context: WorkerContext, assembled: Assembled, iteration: int, reward: float | None) -> None:
    from safetensors.numpy import save_file

    from mosaic.models.weights_file import save_weights

    learner = assembled.learner
    progress = learner.progress()
    options = context.options
    assert isinstance(options, PpoOptions)
    files = {name: f"policy_{number}.safetensors" for number, name in enumerate(learner.plan.names)}
    facts = {
        "iteration": iteration,
        "env_steps": progress.env_steps,
        "agent_steps": progress.agent_steps,
        "episodes": progress.episodes,
        "engine": assembled.engine,
        "network": options.network,
    }

    def save(folder: Path) -> None:
        for policy, name in enumerate(learner.plan.names):
            architecture = assembled.architectures[policy]
            moments = learner.scaler(policy)
            width = architecture.observation
            extra = {} if moments is None else {"shift": moments.shift[:width], "scale": moments.scale[:width]}
            save_weights(folder / files[name], architecture, learner.weights(policy), extra)
        state = {key: np.ascontiguousarray(value) for key, value in learner.training_state().items()}
        save_file(state, folder / TRAINING)
        (folder / FACTS).write_text(json.dumps(facts))

    agents = assembled.casting.learners
    context.checkpoint(
        save,
        env_steps=progress.env_steps,
        policies={
            name: PolicyEntry(files=(files[name], FACTS), agents=learner.plan.agents_of(policy, agents))
            for policy, name in enumerate(learner.plan.names)
        },
        reward=reward,
        pickles=False,
    )


def _load(checkpoint: Checkpoint, assembled: Assembled) -> int:
    """Goes on where the checkpoint was written; the envs begin new episodes. Answers the iterations before."""
    from safetensors.numpy import load_file

    from mosaic.models.weights_file import load_weights

    learner = assembled.learner
    facts = json.loads((checkpoint.path / FACTS).read_text())
    weights = [load_weights(checkpoint.path / _file_of(checkpoint, name)).flat for name in learner.plan.names]
    learner.env_steps_before = int(facts["env_steps"])
    learner.agent_steps_before = int(facts["agent_steps"])
    learner.episodes_before = int(facts["episodes"])
    learner.load_training_state(weights, load_file(checkpoint.path / TRAINING))
    return int(facts["iteration"])


def _start_from(reference: str, assembled: Assembled) -> None:
    """Weights of a policy that another run trained; its network must have the same shape."""
    from mosaic.models.weights_file import load_weights
    from mosaic.store.checkpoints import find_checkpoint
    from mosaic.store.home import Store
    from mosaic.store.run_policy import parse_run_reference

    prefix, _, text = reference.partition(":")
    if prefix != "run":
        raise InputError(f"training.init '{reference}': the native worker starts from run:RUN[@best][/POLICY].")
    run, which, policy = parse_run_reference(text)
    checkpoint = find_checkpoint(Store().resolve(run), which)
    for number, name in enumerate(assembled.learner.plan.names):
        source = policy or (name if name in checkpoint.manifest.policies else next(iter(checkpoint.manifest.policies)))
        saved = load_weights(checkpoint.path / _file_of(checkpoint, source))
        if saved.architecture != assembled.architectures[number]:
            raise InputError(
                f"'{reference}' has another network than this run: {saved.architecture} instead of "
                f"{assembled.architectures[number]}. Set hidden, activation and share_layers alike."
            )
        for lane in assembled.learner.lanes:
            lane.load(number, saved.flat)


worker = NativeWorker()
