"""Schedule of a tournament's games, and the result of one game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, NamedTuple

from mosaic.core.episode import Outcome
from mosaic.core.ids import JsonObject, PolicyID
from mosaic.evaluation.reports import Tallies, tallies_from_json, tallies_to_json
from mosaic.evaluation.results import GameDigest
from mosaic.evaluation.run_games import distinct_seeds

MALFORMED = (KeyError, TypeError, ValueError, OverflowError, AttributeError)
SCORES: dict[Outcome, float] = {"win": 1.0, "draw": 0.5, "loss": 0.0}


class ScheduledMatch(NamedTuple):
    """One of a pair's games, counted from 0; `first` plays as the env's first agent."""

    first: PolicyID
    second: PolicyID
    number: int


@dataclass(frozen=True, slots=True)
class MatchResult:
    match: ScheduledMatch
    seed: int
    score: float  # of the first policy: 1, ½ or 0
    length: int  # in env steps
    cut: bool
    game: GameDigest
    reports: Mapping[PolicyID, Tallies] = field(default_factory=dict, compare=False)  # seconds differ every time

    def to_json(self) -> JsonObject:
        return {
            **self.match._asdict(),
            "seed": self.seed,
            "score": self.score,
            "length": self.length,
            "cut": self.cut,
            "game": list(self.game),
            "reports": {policy: tallies_to_json(tallies) for policy, tallies in self.reports.items()},
        }

    @classmethod
    def from_json(cls, data: Any) -> MatchResult:
        """Parse a result; raise an error of `MALFORMED` for anything else."""
        score = float(data["score"])
        if score not in SCORES.values():
            raise ValueError(f"a score is 1, 0.5 or 0, not {score}")
        match = ScheduledMatch(str(data["first"]), str(data["second"]), int(data["number"]))
        game = GameDigest(*map(int, data["game"]))
        reports = {str(policy): tallies_from_json(tallies) for policy, tallies in data.get("reports", {}).items()}
        return cls(match, int(data["seed"]), score, int(data["length"]), bool(data["cut"]), game, reports)


def schedule(policies: Sequence[PolicyID], games: int, seed: int) -> dict[ScheduledMatch, int]:
    """Return the seed of every game, with `games` games per ordered pair.

    A game's seed depends on its pair, not on the other participants.
    """
    return {
        ScheduledMatch(first, second, number): child
        for first, second in permutations(policies, 2)
        for number, child in enumerate(distinct_seeds(games, seed, "game", first, second))
    }
