"""Adapter of tabular trainings to the shared training loop.

Training advances in chunks, the steps between two reports, and these in pieces between which it can be stopped. The
configuration alone decides where a chunk ends, so that the same seed gives the same curve on every machine. Pieces
follow the clock; every training can be interrupted after a multiple of its grain with a bit-identical result.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from mosaic.core.ids import AgentID
from mosaic.envs.env import EnvSpec
from mosaic.learners.tabular.optimal import Tabled, ValueGauge
from mosaic.learners.tabular.training.twin import Statistics
from mosaic.policies.controller import PolicyController
from mosaic.store.checkpoints import PolicyEntry
from mosaic.telemetry.events.info_numbers import PolicyNumbers
from mosaic.workers.context import WorkerContext
from mosaic.workers.evaluation import evaluate_learners
from mosaic.workers.loop import Progress
from mosaic.workers.tabular.mapping import POLICY, Roles, knows_one_of_two, policy_metrics, policy_returns
from mosaic.workers.tabular.options import TabularWorkerOptions
from mosaic.workers.tabular.policies import FACTS, make_controller

if TYPE_CHECKING:
    from mosaic.workers.tabular.frames import WatchedTraining

PIECE_S = 0.25
_FIRST_STEPS = 16
_FASTEST_GROWTH = 8


class TableTraining(Protocol):
    """Training of a table: compiled, stepped in Python, or distributed."""

    @property
    def env_steps(self) -> int: ...

    @property
    def agent_steps(self) -> int: ...

    @property
    def episodes(self) -> int: ...

    @property
    def coverage(self) -> float: ...

    def advance(self, steps: int, episodes: int = 0) -> None: ...

    def read_statistics(self) -> Statistics: ...

    def save(self, folder: Path) -> None: ...

    def restore(self, folder: Path, env_steps: int) -> None: ...


class Chunks:
    """Driver of a training from report to report; `live` holds the counters after the last piece."""

    def __init__(
        self, context: WorkerContext, training: TableTraining, seen: WatchedTraining, report_every: int | None
    ) -> None:
        from mosaic.workers.tabular.frames import grain_of

        self._context, self._training, self._seen = context, training, seen
        settings, options = context.config, context.options
        assert isinstance(options, TabularWorkerOptions)
        self._opponent = options.opponent
        self._evaluates = settings.evaluation.every_steps is not None
        chunk = report_every or _chunk(settings.training.total_timesteps)
        self._chunk = min(chunk, settings.evaluation.every_steps or chunk)
        self._grain = grain_of(training)
        self._piece = _FIRST_STEPS
        self.live: dict[str, float] = self._counters()

    def advance(self) -> None:
        """Train until the next report: a chunk of agent steps, or the remainder if that is less than two chunks.

        In a short last chunk perhaps no episode would end, and there would be no reward. Evaluations keep their own
        interval.
        """
        training, settings = self._training, self._context.config.training
        most = self._chunk if self._evaluates else 2 * self._chunk - 1
        goal = training.agent_steps + self._chunk
        if settings.total_timesteps is not None and _steps_left(settings.total_timesteps, training) <= most:
            goal = training.agent_steps + most
        episodes = settings.episodes or 0
        while training.agent_steps < goal and not self._context.inbox.stop_asked():
            steps = goal - training.agent_steps
            if settings.total_timesteps is not None:
                if training.env_steps >= settings.total_timesteps:
                    return
                steps = min(steps, _steps_left(settings.total_timesteps, training))
            self._take(steps, episodes)
            if episodes and training.episodes >= episodes:
                return

    def _take(self, most: int, episodes: int) -> None:
        """Train one piece. A training that cannot be interrupted takes all steps at once."""
        steps = most if self._grain is None else min(most, -(-self._piece // self._grain) * self._grain)
        began_s = perf_counter()
        with self._context.iteration():
            self._seen.advance(steps, episodes)
        factor = PIECE_S / max(perf_counter() - began_s, 1e-6)
        self._piece = max(1, int(steps * min(factor, _FASTEST_GROWTH)))
        self.live = self._counters()

    def _counters(self) -> dict[str, float]:
        from mosaic.workers.tabular.frames import mean_return

        training = self._training
        counted: dict[str, float] = {
            "env_steps": training.env_steps,
            "agent_steps": training.agent_steps,
            "episodes_total": training.episodes,
        }
        reward = mean_return(training)
        if reward is not None and knows_one_of_two(training, self._opponent):
            reward = 0.0
        return counted if reward is None else {**counted, "episode_reward_mean": reward}


def _chunk(total_timesteps: int | None) -> int:
    """Return the agent steps between two reports: the same for the same configuration, whatever the machine."""
    return 1_000_000 if total_timesteps is None else min(5_000_000, max(10_000, total_timesteps // 50))


def _steps_left(total_timesteps: int, training: TableTraining) -> int:
    """Return the agent steps until the total is reached, at least 1; a random opponent's replies are env steps too."""
    per_step = training.env_steps / training.agent_steps if training.agent_steps else 1.0
    return max(1, int((total_timesteps - training.env_steps) / max(1.0, per_step)))


class TabularTraining:
    """`Trainable` over a table; it starts from the context's checkpoint, if any."""

    def __init__(self, context: WorkerContext, training: TableTraining, seen: WatchedTraining, roles: Roles) -> None:
        options = context.options
        assert isinstance(options, TabularWorkerOptions)
        self._context, self._training, self._seen, self._roles = context, training, seen, roles
        self._options = options
        self._gauge = _gauge(training, options)
        if self._gauge is not None:
            self._gauge.error()  # computes the true values of all states, which takes a while
        self._iteration = 0
        self._reward: float | None = None  # if no episode ended lately: from the last report in which one did
        self._epsilon: float | None = None  # of exploration, after the last iteration
        self._numbers = PolicyNumbers()
        if context.resume_from is not None:
            training.restore(context.resume_from.path, context.resume_from.env_steps)
            facts = json.loads((context.resume_from.path / FACTS).read_text())
            self._iteration, self._reward = int(facts["iteration"]), facts["reward"]
            self._epsilon = facts.get("epsilon")
        self._chunks = Chunks(context, training, seen, options.report_every_steps)
        training.advance(0)  # loads the compiled code
        context.prepare_checkpoints()  # compiled loops need no env; creating one would cost a fifth of a short training
        self._statistics: Statistics  # of the last iteration, as the training counts them

    def iterate(self) -> None:
        self._chunks.advance()
        self._statistics = self._training.read_statistics()
        self._iteration += 1
        self._epsilon = self._statistics.epsilon
        if (reward := self._of_learners().return_mean) is not None:
            self._reward = reward

    def _of_learners(self) -> Statistics:
        """Return the statistics of all agents that learn."""
        one_of_two = knows_one_of_two(self._training, self._options.opponent)
        return self._statistics.of_both() if one_of_two else self._statistics

    def progress(self) -> Progress:
        return Progress(self._training.env_steps, self._training.episodes, self._reward)

    def measure(self) -> Mapping[str, float]:
        """Return the counters after the last piece of an iteration."""
        return self._chunks.live

    def metrics(self) -> dict[str, Any]:
        training, statistics = self._training, self._of_learners()
        returns = policy_returns(training, statistics, self._statistics.return_mean, self._roles)
        for policy, means in policy_metrics(training, statistics, self._roles).items():
            self._numbers.add(policy, means)
        numbers, alert = self._numbers.take()
        if alert:
            self._context.report(kind="alert", env_steps=training.env_steps, message=alert)
        return {
            "training_iteration": self._iteration,
            "env_steps": training.env_steps,
            "agent_steps": training.agent_steps,
            "episodes_total": training.episodes,
            "episode_reward_mean": self._reward,
            "episode_reward_min": statistics.return_min,
            "episode_reward_max": statistics.return_max,
            "episode_len_mean": statistics.length_mean,
            "policies": {name: {"reward_mean": mean, **numbers.get(name, {})} for name, mean in returns.items()},
            "custom_metrics": {
                "epsilon": statistics.epsilon,
                "coverage": training.coverage,
                "td_error": statistics.td_error_mean,
                "value_error": self._gauge.error() if self._gauge else None,
            },
        }

    def save(self) -> None:
        config, roles = self._context.config, self._roles
        both_learn = config.policy_configuration == "self_play" and not roles.played
        self._context.checkpoint(
            self._write,
            env_steps=self._training.env_steps,
            policies={
                name: PolicyEntry(files=(FACTS,), agents=agents, normalized=False)
                for name, agents in roles.policies.items()
            },
            reward=self._reward,
            best_by="env_steps" if both_learn else "reward",
            pickles=False,
        )

    def evaluate(self) -> Iterator[dict[str, Any]]:
        """Play from files like a checkpoint's, so that the evaluated policies are those that `run:` would play."""
        owners = {agent: policy for policy, agents in self._roles.policies.items() for agent in agents}
        with TemporaryDirectory(prefix="mosaic-evaluation-") as name:
            folder = Path(name)
            self._write(folder)

            def make(spec: EnvSpec, agent: AgentID) -> PolicyController:
                return make_controller(folder, owners.get(agent, POLICY), spec, agent, spec.env_id)

            stopped = self._context.inbox.stop_asked
            yield from evaluate_learners(
                self._context.config,
                make,
                self._roles.played,
                self._seen.camera,
                stopped,
                policy_of=defaultdict(lambda: POLICY, owners),
            )

    def _write(self, folder: Path) -> None:
        self._training.save(folder)
        facts = {
            "iteration": self._iteration,
            "reward": self._reward,
            "bins": self._options.bins,
            "exploration": self._options.exploration,
            "epsilon": self._epsilon,
            "temperature": self._options.temperature,
        }
        (folder / FACTS).write_text(json.dumps(facts))


def _gauge(training: TableTraining, options: TabularWorkerOptions) -> ValueGauge | None:
    """Return a gauge, or None if the true values cannot be known.

    Only a table with a row for each state of a twin reveals the rules.
    """
    if not isinstance(training, Tabled) or training.values.shape != training.twin.legal.shape:
        return None
    return ValueGauge(training, options.discount_factor, options.opponent)
