"""Behaviour cloning: passes over recorded steps in a random order, and a look at held-out episodes after each.

The loss is -log-probability of the recorded actions; the engines compute it where `LearnSettings.imitate` is set. An
env step is a recorded step that was learned from. The order of a pass depends on the seed and its number alone, so that
a run continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.base import LearnerProgress
from mosaic.learners.bc.clones import Clone, CloneLearner
from mosaic.learners.bc.options import BcOptions
from mosaic.learners.normalization import RunningMoments
from mosaic.learners.ppo.algorithm import schedule_factor
from mosaic.models.engine import Ints, StateArrays

_MINIBATCHES = 16  # of an iteration at most; a run ends after a whole one, so that it can be extended exactly
_NOTHING: NDArray[np.float32] = np.zeros(0, np.float32)


class BcLearner(CloneLearner):
    """Learner whose iterations are parts of passes over recorded steps; envs are shown, and never stepped."""

    def __init__(
        self,
        vector: VectorEnv,
        plan: TrainingPlan,
        clones: Sequence[Clone],
        options: BcOptions,
        seed: int,
        total_env_steps: int | None = None,
        scalers: Sequence[RunningMoments | None] = (),
    ) -> None:
        """`clones` and `scalers` have one entry per policy."""
        super().__init__(vector, plan, clones, seed, scalers)
        self._options, self._total = options, total_env_steps
        self._rows = sum(len(clone.data.learned) for clone in clones)
        self._learned = 0  # in this attempt
        self._order: tuple[int, list[Ints]] | None = None  # number of a pass, rows of each policy
        self._best = _BestWeights(len(clones))
        vector.reset(child_seed(seed, "envs"))

    @property
    def env_steps(self) -> int:
        return self.before.env_steps + self._learned

    def iterate(self) -> None:
        """Learn from the next rows of the current pass; at its end, measure the held-out loss."""
        started = perf_counter()
        epoch, start = divmod(self.env_steps, self._rows)
        count = min(_MINIBATCHES * self._options.batch_size * len(self.clones), self._rows - start)
        rate = self._options.learning_rate * schedule_factor(self._options.learning_rate_schedule, self._left())
        for policy, (clone, idx) in enumerate(zip(self.clones, self._part(epoch, start, count), strict=True)):
            if self.plan.trained[policy] and len(idx):
                seed = child_seed(self._seed, "shuffle", policy, self.env_steps)
                self._losses[policy] |= clone.learn(idx, rate, seed)
            self._losses[policy]["epoch"] = (self.env_steps + count) / self._rows
        self._learned += count
        if start + count == self._rows:
            self._measure()
            self._compare()
        elif self._total is not None and self.env_steps >= self._total:  # for the report; patience counts passes
            self._measure()
        self._times.add(learning_s=perf_counter() - started)

    def _part(self, epoch: int, start: int, count: int) -> list[Ints]:
        """Return rows `start` … `start + count - 1` of a pass over the rows of all policies, for each policy."""
        if self._order is None or self._order[0] != epoch:
            generator = np.random.default_rng(child_seed(self._seed, "epoch", epoch))
            self._order = epoch, [clone.order(generator) for clone in self.clones]
        ends = np.array([start, start + count])
        parts = []
        for order in self._order[1]:  # each policy's share of the pass
            low, high = (ends * len(order) // self._rows).tolist()
            parts.append(order[low:high])
        return parts

    def _measure(self) -> None:
        for clone, losses in zip(self.clones, self._losses, strict=True):
            losses |= clone.measure()

    def _compare(self) -> None:
        """Count the passes without a lower held-out loss; after too many, restore the best weights."""
        if self._options.patience is None:
            return
        held_out = sum(losses.get("held_out_loss", 0.0) for losses in self._losses)  # not every policy has such rows
        self._best.compare(held_out, [clone.engine.weights() for clone in self.clones])
        if self._best.waited >= self._options.patience:
            for clone, weights in zip(self.clones, self._best.weights, strict=True):
                clone.engine.load(weights)
            self._measure()

    def finished(self) -> str | None:
        """Return why no further pass is wanted; None: it is."""
        options, epochs = self._options, self.env_steps // self._rows
        if options.n_epochs is not None and epochs >= options.n_epochs:
            return f"{epochs} passes over the dataset done"
        if options.patience is not None and self._best.waited >= options.patience:
            return f"no lower held-out loss in {self._best.waited} passes; the best weights were restored"
        return None

    def _left(self) -> float:
        total = self._total
        if self._options.n_epochs is not None:
            total = min(total or self._options.n_epochs * self._rows, self._options.n_epochs * self._rows)
        return 1.0 if not total else max(0.0, 1.0 - self.env_steps / total)

    # -- state

    def training_state(self) -> StateArrays:
        return super().training_state() | self._best.to_arrays(self.plan.names)

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: StateArrays) -> None:
        super().load_training_state(weights, state)
        self._best.load_arrays(self.plan.names, state)

    # -- reports

    def progress(self) -> LearnerProgress:
        steps, losses = self.env_steps, tuple(dict(each) for each in self._losses)
        return LearnerProgress(
            steps, steps, self.before.episodes, (_NOTHING,) * len(losses), np.zeros(0, np.int64), losses
        )

    def watch(self, callback: Callable[[], bool]) -> None:
        """Do nothing: no env is stepped."""


class _BestWeights:
    """The weights with the lowest held-out loss so far, and the number of measurements since then."""

    def __init__(self, policies: int) -> None:
        self.loss, self.waited = np.inf, 0
        self.weights: list[NDArray[np.float32]] = [_NOTHING] * policies

    def compare(self, loss: float, weights: Sequence[NDArray[np.float32]]) -> None:
        if loss < self.loss:
            self.loss, self.waited, self.weights = loss, 0, list(weights)
        else:
            self.waited += 1

    def to_arrays(self, names: Sequence[str]) -> StateArrays:
        if not np.isfinite(self.loss):
            return {}
        kept = {f"{name}/best": weights for name, weights in zip(names, self.weights, strict=True)}
        return {"best.loss": np.array([self.loss]), "best.waited": np.array([self.waited], np.int64), **kept}

    def load_arrays(self, names: Sequence[str], state: Mapping[str, NDArray[np.float32]]) -> None:
        if "best.loss" in state:
            self.loss, self.waited = float(state["best.loss"][0]), int(state["best.waited"][0])
            self.weights = [state[f"{name}/best"] for name in names]
