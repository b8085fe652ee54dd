"""League of frozen snapshots of a learner, with ratings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.models.engine import StateArrays

Sampling: TypeAlias = Literal["uniform", "latest", "prioritised"]
CENTRE = 1500.0  # rating of the untrained network
_POINTS = 400 / math.log(10)  # Elo points per unit of log-odds
_STEPS_OF_AN_AGE = 8  # snapshots while a requested age passes, so that one is always about that old
_MEMORY_GAMES = 2000.0  # older games fade
_RECENT_GAMES = 200.0  # covered by a win rate
_SETTLED_GAMES = 50.0  # until then a foreign policy's rating is estimated, not used
_PRIOR_GAMES = 20.0  # the last rating counts as this many drawn games


class Rival(Protocol):
    """Opponent that plays rated games against the learner."""

    rating: float

    @property
    def settled(self) -> bool: ...  # whether its rating can be used to rate the learner

    def record(self, score: NDArray[np.int64], learner_rating: float) -> None: ...  # new games, from the learner's side


@dataclass(slots=True)
class Stranger:
    """Policy that did not learn in this run; its strength is fixed, so all its games count towards its rating."""

    name: str
    rating: float = CENTRE
    games: float = 0.0
    score: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))  # learner's wins, draws, losses; faded

    def record(self, score: NDArray[np.int64], learner_rating: float) -> None:
        games = float(score.sum())
        taken = float(score[2] + score[1] / 2)
        known = max(_PRIOR_GAMES, min(self.games, _MEMORY_GAMES))
        self.rating = performance_rating(self.rating, [(learner_rating, games, taken)], known)
        self.games += games
        _fade_in(self.score, score, _RECENT_GAMES)

    @property
    def settled(self) -> bool:
        return self.games >= _SETTLED_GAMES

    @property
    def win_rate(self) -> float | None:
        """Win rate of the learner in recent games; None before the first."""
        games = float(self.score.sum())
        return float(self.score[0]) / games if games else None

    @property
    def learner_score(self) -> float | None:
        games = float(self.score.sum())
        return float(self.score[0] + self.score[1] / 2) / games if games else None


@dataclass(slots=True)
class Snapshot:
    """Frozen copy of the learner."""

    env_steps: int
    weights: NDArray[np.float32]
    shift: NDArray[np.float32]  # its observation normalisation; empty where there was none
    scale: NDArray[np.float32]
    rating: float
    score: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))  # learner's wins, draws, losses; faded

    @property
    def games(self) -> float:
        return float(self.score.sum())

    @property
    def settled(self) -> bool:
        return True  # its rating was the learner's own

    @property
    def learner_score(self) -> float:
        """Fraction of points that the learner takes from it; even where no game was played."""
        return float(self.score[0] + self.score[1] / 2 + 1.0) / (self.games + 2.0)

    def record(self, score: NDArray[np.int64], learner_rating: float) -> None:
        """Record games; the rating stays what the learner's was then, as the measure for newer ones."""
        _fade_in(self.score, score, _MEMORY_GAMES)


@dataclass(slots=True)
class League:
    """Snapshots from old to new, at most `size` of them and those that requested ages need.

    Of neighbours, the one whose removal leaves the smallest gap is dropped. Gaps are measured in relative age, so that
    recent snapshots are dense and old ones sparse.
    """

    size: int
    sampling: Sampling
    ages: tuple[int, ...] = ()  # requested as self@-N: one place each, the newest snapshot that is at least this old
    rating: float = CENTRE  # of the learner
    snapshots: list[Snapshot] = field(default_factory=list)
    strangers: tuple[Stranger, ...] = ()

    def add(
        self, env_steps: int, weights: NDArray[np.float32], shift: NDArray[np.float32], scale: NDArray[np.float32]
    ) -> None:
        self.snapshots.append(Snapshot(env_steps, weights.copy(), shift.copy(), scale.copy(), self.rating))
        while len(self.snapshots) > self.size and (spare := self._spare(env_steps)):
            del self.snapshots[spare]

    def _spare(self, now: int) -> int | None:
        """Return the index of the snapshot to drop: never the first, the last, or one that a requested age needs."""
        needed = self._needed(now)
        ages = [now - snapshot.env_steps + 1 for snapshot in self.snapshots]
        inner = [k for k in range(1, len(ages) - 1) if k not in needed]
        return min(inner, key=lambda k: ages[k - 1] / ages[k + 1]) if inner else None

    def _needed(self, now: int) -> set[int]:
        """Return the indices of snapshots that have a requested age, or will have it: one per step of that age."""
        needed: set[int] = set()
        for age in self.ages:
            oldest, steps = self.aged(age, now).env_steps, _age_step(age)
            coming: dict[int, int] = {}
            for index, snapshot in enumerate(self.snapshots):
                if snapshot.env_steps >= oldest:
                    coming.setdefault(snapshot.env_steps // steps, index)
            needed |= {*coming.values()}
        return needed

    def aged(self, age: int, now: int) -> Snapshot:
        """Return the newest snapshot that is at least `age` env steps old; the oldest where none is."""
        old = [snapshot for snapshot in self.snapshots if now - snapshot.env_steps >= age]
        return old[-1] if old else self.snapshots[0]

    def draw(self, places: int, now: int, generator: np.random.Generator) -> list[Snapshot]:
        """Choose opponents for the frozen places: requested ages, else the newest and then others by the rule."""
        chosen = [self.aged(age, now) for age in self.ages][:places]
        if self.ages:
            return chosen
        newest, others = self.snapshots[-1], self.snapshots[:-1]
        chosen.append(newest)
        wanted = min(places - 1, len(others))
        if self.sampling == "latest" or wanted <= 0:
            return chosen
        weights = [self._interest(snapshot) for snapshot in others]
        odds = np.array(weights) / sum(weights)
        picked = generator.choice(len(others), size=wanted, replace=False, p=odds)
        return chosen + [others[k] for k in sorted(picked)]

    def _interest(self, snapshot: Snapshot) -> float:
        return (1.0 - snapshot.learner_score) ** 2 + 0.01 if self.sampling == "prioritised" else 1.0

    def record(self, rivals: Sequence[Rival], scores: NDArray[np.int64]) -> None:
        """Record games since the last call, [rival, (won, drawn, lost)], and update the ratings."""
        games = [(rival, score) for rival, score in zip(rivals, scores, strict=True) if score.any()]
        played = [
            (rival.rating, float(score.sum()), float(score[0] + score[1] / 2))
            for rival, score in games
            if rival.settled
        ]
        for rival, score in games:
            rival.record(score, self.rating)
        self.rating = performance_rating(self.rating, played)

    def metrics(self) -> dict[str, Any]:
        """Return the values of a metric event: ratings, and the learner's results against foreign policies."""
        ratings = [round(snapshot.rating, 1) for snapshot in self.snapshots]
        told: dict[str, Any] = {"league_size": len(ratings), "league_ratings": ratings}
        for stranger in self.strangers:
            told[f"rating/{stranger.name}"] = stranger.rating
            if stranger.score.any():
                told[f"win_rate/{stranger.name}"] = stranger.win_rate
                told[f"score/{stranger.name}"] = stranger.learner_score
        return told

    def facts(self) -> list[dict[str, float]]:
        """Return the snapshots' facts for metrics and display, from old to new."""
        return [
            {"env_steps": s.env_steps, "rating": s.rating, "learner_score": s.learner_score} for s in self.snapshots
        ]

    def to_arrays(self) -> StateArrays:
        arrays: StateArrays = {"league.rating": np.array([self.rating])}
        for k, snapshot in enumerate(self.snapshots):
            arrays |= {
                f"league.{k}.weights": snapshot.weights,
                f"league.{k}.shift": snapshot.shift,
                f"league.{k}.scale": snapshot.scale,
                f"league.{k}.facts": np.array([snapshot.env_steps, snapshot.rating, *snapshot.score]),
            }
        for stranger in self.strangers:
            arrays[f"league/{stranger.name}"] = np.array([stranger.rating, stranger.games, *stranger.score])
        return arrays

    def load_arrays(self, arrays: StateArrays) -> None:
        self.rating = float(arrays["league.rating"][0])
        self.snapshots = []
        for stranger in self.strangers:
            if (known := arrays.get(f"league/{stranger.name}")) is not None:
                stranger.rating, stranger.games = float(known[0]), float(known[1])
                stranger.score[:] = known[2:5]
        while (name := f"league.{len(self.snapshots)}") + ".weights" in arrays:
            facts = arrays[f"{name}.facts"]
            self.snapshots.append(
                Snapshot(
                    env_steps=int(facts[0]),
                    weights=arrays[f"{name}.weights"].copy(),
                    shift=arrays[f"{name}.shift"].copy(),
                    scale=arrays[f"{name}.scale"].copy(),
                    rating=float(facts[1]),
                    score=facts[2:5].copy(),
                )
            )


def interval_for(every_steps: int | None, ages: Sequence[int]) -> int | None:
    """Return the env steps between two snapshots: shorter than asked where requested ages need it."""
    return min([_age_step(age) for age in ages] + ([] if every_steps is None else [every_steps]), default=None)


def _age_step(age: int) -> int:
    return max(1, age // _STEPS_OF_AN_AGE)


def _fade_in(score: NDArray[np.float64], new: NDArray[np.int64], memory: float) -> None:
    score += new
    games = float(score.sum())
    if games > memory:
        score *= memory / games


def performance_rating(
    before: float, played: Sequence[tuple[float, float, float]], known_games: float = _PRIOR_GAMES
) -> float:
    """Return the rating at which the expected points against rated opponents equal the points taken.

    `played` holds (opponent's rating, games, points). The last rating counts as `known_games` drawn games, so that one
    side winning everything does not send it to infinity; few of them for a learner, because it changes.
    """
    sides = [(before, known_games, known_games / 2), *((r, n, p) for r, n, p in played if n > 0)]
    rating = before
    for _ in range(50):  # Newton steps on a concave likelihood
        slope = curvature = 0.0
        for opponent, games, points in sides:
            expected = 1.0 / (1.0 + math.exp((opponent - rating) / _POINTS))
            slope += points - games * expected
            curvature += games * expected * (1.0 - expected)
        step = max(-200.0, min(200.0, _POINTS * slope / max(curvature, 1e-9)))
        rating += step
        if abs(step) < 1e-6:
            break
    return rating
