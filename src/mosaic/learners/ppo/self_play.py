"""Self-play of PPO: snapshots of the learner, the opponents that play now, and their results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mosaic.learners.league import League, Rival, Snapshot, Stranger, interval_for
from mosaic.learners.normalization import RunningMoments
from mosaic.learners.opponents import Opponents
from mosaic.learners.ppo.options import PpoOptions
from mosaic.learners.rollout.base import RolloutWorker
from mosaic.models.engine import StateArrays
from mosaic.models.random import generator_state, load_generator

_EMPTY = np.zeros(0, np.float32)


class SelfPlay:
    """League of one policy, and the snapshots that now play in the workers' frozen places."""

    def __init__(
        self,
        workers: Sequence[RolloutWorker],
        options: PpoOptions,
        opponents: Opponents,
        snapshot_every_steps: int,
        seed: int,
    ) -> None:
        strangers = tuple(Stranger(name) for name in opponents.strangers)
        self.league = League(options.league_size, options.league_sampling, opponents.ages, strangers=strangers)
        self.opponents: list[Snapshot] = []
        self.snapshot_at = 0  # env steps
        self._workers, self._options, self._named = workers, options, opponents
        self._every = interval_for(snapshot_every_steps, opponents.ages) or snapshot_every_steps
        self._generator = np.random.default_rng(seed)

    def is_due(self, env_steps: int) -> bool:
        return env_steps >= self.snapshot_at

    def snapshot(self, env_steps: int, weights: NDArray[np.float32], seen: RunningMoments | None) -> None:
        """Add the learner's current weights and normalization to the league, and draw the opponents again."""
        shift, scale = (_EMPTY, _EMPTY) if seen is None else (seen.shift, seen.scale)
        self.league.add(env_steps, weights, shift, scale)
        self.snapshot_at = env_steps + self._every
        self._play_against(self._draw(env_steps))

    def _draw(self, env_steps: int) -> list[Snapshot]:
        named = self._named
        if named.strangers or named.ages:
            aged = [self.league.aged(age, env_steps) for age in named.ages]
            return aged + self.league.snapshots[: named.random]  # a random player's weights do not matter
        return self.league.draw(self._options.league_places, env_steps, self._generator)

    def _play_against(self, snapshots: list[Snapshot]) -> None:
        self.opponents = snapshots
        for worker in self._workers:
            set_opponents(worker, snapshots)
            worker.assignment.slip[:] = self._options.opponent_slip
            if self._named.random:
                worker.assignment.slip[len(self._named.ages)] = 1

    def record(self) -> None:
        """Record the games since the last call in the league: of frozen places, then of guests."""
        scores = np.sum([worker.tally.scores for worker in self._workers], axis=0)
        guests = len(scores) - len(self._named.foreign)  # unfilled places lie in between
        snapshots = self.opponents[: -1 if self._named.random else None]
        rivals: list[Rival] = [*snapshots, *self.league.strangers]
        self.league.record(rivals, np.concatenate([scores[: len(self.opponents)], scores[guests:]]))
        for worker in self._workers:
            worker.tally.scores[:] = 0

    def to_arrays(self) -> StateArrays:
        places = [k for one in self.opponents for k, snapshot in enumerate(self.league.snapshots) if snapshot is one]
        return {
            **self.league.to_arrays(),
            "league.snapshot_at": np.array([self.snapshot_at], np.int64),
            "league.opponents": np.array(places, np.int64),
            "league.chance": generator_state(self._generator),
        }

    def load_arrays(self, state: StateArrays) -> None:
        self.league.load_arrays(state)
        self.snapshot_at = int(state["league.snapshot_at"][0])
        self._play_against([self.league.snapshots[k] for k in state["league.opponents"]])
        load_generator(self._generator, state["league.chance"])


def set_opponents(worker: RolloutWorker, snapshots: Sequence[Snapshot]) -> None:
    """Load snapshots into the first frozen places; games whose opponent changes midway do not count."""
    assignment, policies = worker.assignment, worker.policies
    learners = worker.tally.finished.shape[0] - 1
    for place, snapshot in enumerate(snapshots):
        row = learners + place
        if not np.array_equal(policies.weights(row), snapshot.weights):
            policies.load(row, snapshot.weights)
            assignment.rated[(assignment.policy_of == row).any(axis=1)] = 0
        if snapshot.shift.size:
            policies.set_scaler(row, snapshot.shift, snapshot.scale)
    assignment.league[2] = len(snapshots)
