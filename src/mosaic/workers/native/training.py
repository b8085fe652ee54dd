"""Adapters of native learners to the shared training loop and to the camera."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.env import EnvSpec
from mosaic.learners.base import WORKER_PREFIX, Assembled, Counters, Viewable
from mosaic.learners.bc.algorithm import BcLearner
from mosaic.learners.dqn.options import QOptions
from mosaic.learners.league import Snapshot
from mosaic.models.weights_file import check_finite, load_weights
from mosaic.policies.controller import PolicyController, PolicyRequest, default_sampling
from mosaic.runners.screen import Shot
from mosaic.store.checkpoint_record import Checkpoint, PolicyEntry, weights_file
from mosaic.telemetry.events.event import TimeSplit
from mosaic.telemetry.events.info_numbers import PolicyNumbers
from mosaic.workers.camera import Camera
from mosaic.workers.context import WorkerContext
from mosaic.workers.evaluation import evaluate_learners, league_players, policies_by_episode
from mosaic.workers.loop import Progress
from mosaic.workers.native.checkpoint import (
    FACTS,
    TRAINING,
    check_training,
    load_training,
    make_controller,
    policy_file,
    save_policies,
    save_snapshot,
    start_from,
)

COUNTERS = "counters.json"


class NativeTraining:
    """`Trainable` over a native learner; it starts from the context's checkpoint or `training.init`, if any."""

    def __init__(
        self, context: WorkerContext, assembled: Assembled, camera: Camera, assemble: Callable[[int], Assembled]
    ) -> None:
        """`assemble` makes the learner again, for the next stage of a curriculum; it is given the episodes so far.

        The learner is closed with this.
        """
        self._context, self._assembled, self._camera, self._assemble = context, assembled, camera, assemble
        self._learner = assembled.learner
        self._learner.watch(self._between_steps)
        self._stochastic = not isinstance(context.options, QOptions)  # their policies give values, not probabilities
        self._iteration = 0
        self._numbers = PolicyNumbers()
        if context.resume_from is not None:
            self._iteration = _load(context.resume_from, assembled)
        elif context.config.training.init is not None:
            start_from(context.config.training.init, assembled)

    def _between_steps(self) -> bool:
        self._camera.glance()
        return self._context.inbox.stop_asked() is not None

    def change_env(self, environment: EnvironmentConfig) -> None:
        """Continue in another env: everything learned goes to a new learner, episodes and their rewards do not."""
        old = self._learner
        progress, state = old.progress(), old.training_state()
        weights = [old.weights(policy).copy() for policy in range(len(old.plan.names))]
        self._camera.close()  # it may be drawing the envs that are closed next
        old.close()
        assembled = self._assemble(progress.episodes)
        learner = assembled.learner
        learner.before = Counters(progress.env_steps, progress.agent_steps, progress.episodes)
        learner.load_training_state(weights, {k: v for k, v in state.items() if not k.startswith(WORKER_PREFIX)})
        learner.watch(self._between_steps)
        with self._context.inbox.reporting:
            self._assembled, self._learner = assembled, learner
        self._camera.turn_to(NativeScene(learner))

    def close(self) -> None:
        self._learner.close()

    def iterate(self) -> None:
        self._learner.iterate()
        self._camera.glance()
        self._iteration += 1
        for policy, numbers in self._learner.take_infos():
            self._numbers.add(self._learner.plan.names[policy], numbers)

    def finished(self) -> str | None:
        return self._learner.finished() if isinstance(self._learner, BcLearner) else None

    def progress(self) -> Progress:
        progress = self._learner.progress()
        return Progress(progress.env_steps, progress.episodes, progress.return_mean)

    def measure(self) -> dict[str, Any]:
        """Return counters and means, which may also be read during an iteration."""
        progress = self._learner.progress()
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

    def metrics(self) -> dict[str, Any]:
        learner = self._learner
        progress = learner.progress()
        for policy, name in enumerate(learner.plan.names):
            check_finite(learner.weights(policy), f"After {progress.env_steps:,} env steps the weights of '{name}'")
        env_s, inference_s, learning_s = learner.split()
        policies: dict[str, Any] = {}
        numbers, alert = self._numbers.take()
        if alert:
            self._context.report(kind="alert", env_steps=progress.env_steps, message=alert)
        for name, returns, losses in zip(learner.plan.names, progress.returns, progress.losses, strict=True):
            policies[name] = {"reward_mean": float(returns.mean()) if returns.size else None, "learner": losses}
            policies[name] |= numbers.get(name, {})
        custom: dict[str, Any] = {}
        if learner.league is not None:
            policies[learner.plan.names[0]]["rating"] = learner.league.rating
            custom = learner.league.metrics()
        return {
            "training_iteration": self._iteration,
            **self.measure(),
            "time_split": TimeSplit(env=env_s, inference=inference_s, learning=learning_s),
            "policies": policies,
            "custom_metrics": custom,
        }

    def save(self) -> None:
        from safetensors.numpy import save_file

        learner = self._learner
        progress = learner.progress()
        counters = {
            "iteration": self._iteration,
            "env_steps": progress.env_steps,
            "agent_steps": progress.agent_steps,
            "episodes": progress.episodes,
        }

        def write(folder: Path) -> None:
            self._save_policies(folder)
            state = {key: np.ascontiguousarray(value) for key, value in learner.training_state().items()}
            check_training(state, f"After {progress.env_steps:,} env steps")
            save_file(state, folder / TRAINING)
            (folder / COUNTERS).write_text(json.dumps(counters))

        agents = self._assembled.roles.learners
        self._context.checkpoint(
            write,
            env_steps=progress.env_steps,
            policies={
                name: PolicyEntry(
                    files=(policy_file(policy), FACTS),
                    agents=learner.plan.agents_of(policy, agents),
                    stochastic=self._stochastic,
                    normalized=learner.scaler(policy) is not None,
                )
                for policy, name in enumerate(learner.plan.names)
            },
            reward=progress.return_mean,
            rating=None if learner.league is None else learner.league.rating,
            pickles=False,
        )

    def evaluate(self) -> Iterator[dict[str, Any]]:
        """Play the current policies on fixed seeds, with the default that `run:` has in this env."""
        context, learner, roles = self._context, self._learner, self._assembled.roles
        if context.config.environment.family == "external":
            return  # there is no env to play in; settings of evaluation are refused
        policy_of = {
            agent: learner.plan.names[k] for agent, k in zip(roles.learners, learner.plan.policy_of, strict=True)
        }
        with TemporaryDirectory(prefix="mosaic-evaluation-") as name:
            folder = Path(name)
            self._save_policies(folder)

            def load(spec: EnvSpec, agent: AgentID, folder: Path, number: int = 0) -> PolicyController:
                sampling = default_sampling(spec, stochastic=self._stochastic)
                request = PolicyRequest("the policy that learns", spec, (agent,), sampling=sampling)
                return make_controller(folder, policy_file(number), request)

            def make_policy(spec: EnvSpec, agent: AgentID, policy: PolicyID) -> PolicyController:
                return load(spec, agent, folder, learner.plan.names.index(policy))

            def make(spec: EnvSpec, agent: AgentID) -> PolicyController:
                return make_policy(spec, agent, policy_of[agent])

            def make_snapshot(spec: EnvSpec, agent: AgentID, snapshot: Snapshot) -> PolicyController:
                own = folder / str(snapshot.env_steps)
                if not own.exists():
                    save_snapshot(own, self._assembled, snapshot)
                return load(spec, agent, own)

            yield from evaluate_learners(
                context.config,
                make,
                roles.played,
                self._camera,
                context.inbox.stop_asked,
                policy_of=policy_of,
                league=league_players(learner.league, roles, learner.env_steps, make_snapshot),
                by_episode=policies_by_episode(roles, make_policy),
            )

    def _save_policies(self, folder: Path) -> None:
        epsilon: float | None = None if self._stochastic else getattr(self._learner, "epsilon", None)
        save_policies(folder, self._assembled, epsilon)


def _load(checkpoint: Checkpoint, assembled: Assembled) -> int:
    """Load a checkpoint into a new learner, whose envs begin new episodes. Return the iterations before it."""
    learner = assembled.learner
    weights = [load_weights(checkpoint.path / weights_file(checkpoint, name)).flat for name in learner.plan.names]
    learner.before = load_counters(checkpoint)
    learner.load_training_state(weights, load_training(checkpoint.path / TRAINING))
    return int(json.loads((checkpoint.path / COUNTERS).read_text())["iteration"])


def load_counters(checkpoint: Checkpoint) -> Counters:
    stored = json.loads((checkpoint.path / COUNTERS).read_text())
    return Counters(*(int(stored[name]) for name in ("env_steps", "agent_steps", "episodes")))


class NativeScene:
    """Camera scene: the envs of the first rollout worker."""

    def __init__(self, learner: Viewable) -> None:
        self._learner, self._vector = learner, learner.vector
        self.envs = self._vector.shape.envs
        self.freezes = isinstance(self._vector, CompiledVector)

    def shoot(self, index: int) -> Shot:
        vector, tally = self._vector, self._learner.tally
        agents = vector.shape.agents
        first = index * len(agents)
        returns = tally.returns[first : first + len(agents)].tolist()
        return Shot(
            draw=self._draw(index),
            env=index,
            env_steps=self._learner.env_steps,
            episode=int(tally.finished[-1]),
            reward=float(vector.rew[first]),
            returns=dict(zip(agents, returns, strict=True)),
        )

    def _draw(self, index: int) -> Callable[[], NDArray[np.uint8] | None]:
        if isinstance(self._vector, CompiledVector):
            return self._vector.freeze(index)
        return lambda: self._vector.render(index)
