"""Training with an SB3 model on the shared loop: the calls of `learn`, one round at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from mosaic.config.sections import DEFAULT_TIMESTEPS, EnvironmentConfig
from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.envs.env import EnvSpec
from mosaic.models.weights_file import NotFiniteError, check_finite
from mosaic.policies.controller import PolicyController, PolicyRequest, default_sampling
from mosaic.store.checkpoints import PolicyEntry
from mosaic.store.policies.init_source import find_init
from mosaic.telemetry.events.event import TimeSplit
from mosaic.telemetry.events.info_numbers import CUSTOM
from mosaic.workers.camera import Camera
from mosaic.workers.context import WorkerContext
from mosaic.workers.evaluation import evaluate_learners
from mosaic.workers.loop import Progress
from mosaic.workers.sb3.assembly import Assembly, env_state, reset_envs, resume_envs
from mosaic.workers.sb3.checkpoint.facts import Array
from mosaic.workers.sb3.checkpoint.writer import policy_files, write_policy
from mosaic.workers.sb3.start import start_model, start_note
from mosaic.workers.sb3.state import kept_generators, load_state, save_state

LOOK_EVERY_S = 0.005  # no viewer asks for pictures more often


class _BetweenSteps(BaseCallback):
    """Callback of every step: pictures for viewers, and the end of a rollout when a stop is requested."""

    def __init__(self, glance: Callable[[], None], stop_asked: Callable[[], object]) -> None:
        super().__init__()
        self._glance, self._stop_asked = glance, stop_asked
        self._look_s = 0.0

    def _on_step(self) -> bool:
        now = perf_counter()
        if now >= self._look_s:
            self._look_s = now + LOOK_EVERY_S
            self._glance()
        return not self._stop_asked()


class Sb3Training:
    """`Trainable` over an SB3 model; it starts from the context's checkpoint, if there is one."""

    def __init__(
        self, context: WorkerContext, assembly: Assembly, camera: Camera, assemble: Callable[[Assembly], Assembly]
    ) -> None:
        """`assemble` makes the envs again, for the next stage of a curriculum, around the same model."""
        self._context, self._assembly, self._camera, self._assemble = context, assembly, camera, assemble
        self._iteration, self._learning_s, self._inference_s, self._split = 0, 0.0, 0.0, (0.0, 0.0, 0.0)
        model = self._model = assembly.model
        model.set_logger(Logger(folder=None, output_formats=[]))
        slots = assembly.tally.num_envs // assembly.tally.envs
        self._env_steps = context.config.training.total_timesteps or DEFAULT_TIMESTEPS
        steps = self._env_steps * slots  # SB3 counts slots
        callback = _BetweenSteps(camera.glance, context.inbox.stop_asked)
        self._total, self._callback = model._setup_learn(steps, callback)
        self._callback.on_training_start({}, {})
        if context.resume_from is not None:
            arrays = load_state(context.resume_from.path, model)
            resume_envs(assembly, arrays, context.seed)
            self._iteration = int(arrays["iteration"][0])
            self._total = max(steps, model.num_timesteps)
            model._total_timesteps = self._total
        elif context.config.training.init is not None:
            source = find_init(context.config.training.init)
            start_model(source, model, assembly.normalizer, normalizes=assembly.scaler() is not None)
            if note := start_note(source):
                print(note, flush=True)

    def iterate(self) -> None:
        """Collect experience and learn from it, exactly as `learn` does between two of its rounds."""
        tally, began_s = self._assembly.tally, perf_counter()
        env_s = tally.env_s
        self._expect_decisions()
        with finite_numbers(self._model):
            learn = self._collect()
            collected_s = perf_counter()
            if learn is not None:
                learn()
        self._learning_s += perf_counter() - collected_s
        self._inference_s += collected_s - began_s - (tally.env_s - env_s)
        self._iteration += 1

    def _expect_decisions(self) -> None:
        """Let schedules end with the last env step: SB3 counts decisions of slots, and where other policies act too, an
        env step is only sometimes one; as many of the rest are expected to be as of those so far.
        """
        tally, model = self._assembly.tally, self._model
        if tally.source.steps is not None and tally.env_steps and model.num_timesteps:
            expected = self._env_steps * model.num_timesteps // tally.env_steps
            self._total = model._total_timesteps = max(expected, model.num_timesteps)

    def _collect(self) -> Callable[[], None] | None:
        """Collect one rollout; return what learns from it, None if there is nothing to learn from now."""
        model: Any = self._model
        if isinstance(model, OffPolicyAlgorithm):
            rollout = model.collect_rollouts(
                model.env,  # type: ignore[arg-type]
                train_freq=model.train_freq,  # type: ignore[arg-type]
                action_noise=model.action_noise,
                callback=self._callback,
                learning_starts=model.learning_starts,
                replay_buffer=model.replay_buffer,  # type: ignore[arg-type]
                log_interval=None,
            )
            steps = model.gradient_steps if model.gradient_steps >= 0 else rollout.episode_timesteps
            ready = rollout.continue_training and model.num_timesteps > model.learning_starts
            if not ready or steps < 1 or not model.replay_buffer.size():  # type: ignore[union-attr]
                return None
            return partial(model.train, gradient_steps=steps, batch_size=model.batch_size)
        masked = {"use_masking": self._assembly.masked} if self._assembly.masks else {}
        whole = model.collect_rollouts(
            model.env, self._callback, model.rollout_buffer, n_rollout_steps=model.n_steps, **masked
        )
        if not whole:
            return None  # stopped: the rest of the rollout is missing
        model._update_current_progress_remaining(model.num_timesteps, self._total)
        learn: Callable[[], None] = model.train
        return learn

    def progress(self) -> Progress:
        tally = self._assembly.tally
        return Progress(tally.env_steps, tally.episodes, tally.return_mean())

    def measure(self) -> dict[str, Any]:
        """Return counters and means, which may also be read during an iteration."""
        tally = self._assembly.tally
        returns = [each for recent in tuple(tally.recent_returns.values()) for each in tuple(recent)]
        lengths = tuple(tally.recent_lengths)
        return {
            "env_steps": tally.env_steps,
            "agent_steps": tally.agent_steps,
            "episodes_total": tally.episodes,
            "episode_reward_mean": tally.return_mean(),
            "episode_reward_min": min(returns, default=None),
            "episode_reward_max": max(returns, default=None),
            "episode_len_mean": float(np.mean(lengths)) if lengths else None,
        }

    def metrics(self) -> dict[str, Any]:
        measured, tally = self.measure(), self._assembly.tally
        now = (tally.env_s, self._inference_s, self._learning_s)
        env_s, inference_s, learning_s = (after - before for after, before in zip(now, self._split, strict=True))
        self._split = now
        numbers, alert = tally.numbers.take()
        if alert:
            self._context.report(kind="alert", env_steps=tally.env_steps, message=alert)
        facts: dict[str, Any] = {
            "reward_mean": measured["episode_reward_mean"],
            "learner": _learner_values(self._model),
        }
        if numbers:
            facts[CUSTOM] = numbers
        return {
            "training_iteration": self._iteration,
            **measured,
            "time_split": TimeSplit(env=env_s, inference=inference_s, learning=learning_s),
            "policies": {self._assembly.policy: facts},
            "custom_metrics": {},
        }

    def save(self) -> None:
        assembly, tally = self._assembly, self._assembly.tally

        def write(folder: Path) -> None:
            self._write_policies(folder)
            save_state(folder, self._model, {"iteration": np.array([self._iteration]), **env_state(assembly)})

        stochastic = not hasattr(self._model, "exploration_rate")  # DQN and QR-DQN give values, not probabilities
        self._context.checkpoint(
            write,
            env_steps=tally.env_steps,
            policies={
                name: PolicyEntry(
                    files=policy_files(name),
                    agents=assembly.agents_of[name],
                    stochastic=stochastic,
                    normalized=self._scaler(name) is not None,
                )
                for name in assembly.models
            },
            reward=tally.return_mean(),
            pickles=False,
        )

    def evaluate(self) -> Iterator[Mapping[str, Any]]:
        """Play the current policies on fixed seeds, with the default that `run:` has in this env."""
        from mosaic.workers.sb3.checkpoint.controllers import load_controller

        context, assembly = self._context, self._assembly
        policy_of = {agent: name for name, agents in assembly.agents_of.items() for agent in agents}
        stochastic = not hasattr(self._model, "exploration_rate")
        with TemporaryDirectory(prefix="mosaic-evaluation-") as name, kept_generators():
            folder = Path(name)
            self._write_policies(folder)

            def make(spec: EnvSpec, agent: AgentID) -> PolicyController:
                sampling = default_sampling(spec, stochastic=stochastic)
                request = PolicyRequest("the policy that learns", spec, (agent,), sampling=sampling)
                return load_controller(folder / policy_files(policy_of[agent])[0], request)

            yield from evaluate_learners(
                context.config,
                make,
                assembly.roles.played,
                self._camera,
                context.inbox.stop_asked,
                policy_of=policy_of,
            )

    def _write_policies(self, folder: Path) -> None:
        for name, model in self._assembly.models.items():
            write_policy(model, folder, name, scaler=self._scaler(name))

    def _scaler(self, policy: str) -> tuple[Array, Array] | None:
        """Return shift and scale of what a policy sees; those that are not trained see the env's own numbers."""
        return self._assembly.scaler() if policy == self._assembly.policy else None

    def change_env(self, environment: EnvironmentConfig) -> None:
        """Continue in another env: the model and everything it learned stay, episodes and their rewards do not."""
        before, context = self._assembly, self._context
        self._camera.close()  # it may be drawing the envs that are closed next
        before.tally.close()
        assembly = self._assemble(before)
        assembly.tally.count_on(before.tally)
        assert context.curriculum is not None
        reset_envs(assembly, child_seed(context.seed, "stage", context.curriculum.stage))
        self._split = (0.0, self._inference_s, self._learning_s)
        with context.inbox.reporting:
            self._assembly = assembly
        self._camera.turn_to(assembly.tally)

    def close(self) -> None:
        self._assembly.tally.close()


# SB3's names of what the others report too; other names stay as they are.
_NAMES: Mapping[str, str] = {"policy_gradient_loss": "policy_loss"}


@contextmanager
def finite_numbers(model: Any) -> Iterator[None]:
    """Raise NotFiniteError for numbers that torch refuses as parameters of a distribution: its message prints them."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Expected parameter "):
            raise
        try:
            _check_weights(model)
        except NotFiniteError as found:
            raise found from error
        raise NotFiniteError(
            f"After {model.num_timesteps:,} steps the outputs of the network are not finite, though its weights are: "
            "an observation of the env was NaN or infinite, which mosaic check ENV finds."
        ) from error


def _check_weights(model: Any) -> None:
    for name, tensor in model.policy.state_dict().items():
        check_finite(tensor.detach().cpu().numpy(), f"After {model.num_timesteps:,} steps the weights '{name}'")


def _learner_values(model: Any) -> dict[str, float]:
    """Return what the last updates logged, and forget it; raise if the network is not finite any more."""
    _check_weights(model)
    values: dict[str, float] = {}
    for key, value in model.logger.name_to_value.items():
        section, _, name = key.partition("/")
        number = float(value)
        if section not in ("train", "rollout") or not math.isfinite(number):
            continue
        if name == "entropy_loss":
            values["entropy"] = -number
        else:
            values[_NAMES.get(name, name)] = number
    model.logger.dump(model.num_timesteps)
    return values
