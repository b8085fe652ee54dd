"""What a tournament found: who beat whom, and who is best."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from mosaic.core.ids import EnvID, PolicyID
from mosaic.evaluation.matches import SCORES, MatchResult
from mosaic.evaluation.ratings import Rating, rate
from mosaic.evaluation.statistics import Estimate, estimate_score


@dataclass(frozen=True, slots=True)
class Tally:
    """Wins, draws and losses from one side."""

    wins: int
    draws: int
    losses: int

    @classmethod
    def of(cls, scores: Collection[float]) -> Tally:
        counts = [sum(score == value for score in scores) for value in SCORES.values()]
        return cls(*counts)

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> Estimate:
        return estimate_score(self.wins, self.draws, self.losses)

    def to_json(self) -> dict[str, Any]:
        return {
            "games": self.games,
            "score_mean": self.score.mean,
            "score_ci95": self.score.ci95,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
        }


@dataclass(frozen=True, slots=True)
class Tournament:
    env: EnvID
    options: Mapping[str, Any]
    seed: int
    games: int  # of each ordered pair
    policies: tuple[PolicyID, ...]
    reproducible: bool
    results: tuple[MatchResult, ...]  # in the order of the schedule, whenever they were played

    def ratings(self) -> dict[PolicyID, Rating]:
        """Best first."""
        found = rate((result.match.first, result.match.second, result.score) for result in self.results)
        return dict(sorted(found.items(), key=lambda item: (-item[1].value, item[0])))

    def pair(self, first: PolicyID, second: PolicyID) -> Tally:
        """From the side of the first, who has the first seat."""
        return Tally.of([result.score for result in self.results if result.match[:2] == (first, second)])

    def policy(self, policy: PolicyID) -> Tally:
        """Of one policy in both seats."""
        firsts = [result.score for result in self.results if result.match.first == policy]
        seconds = [1 - result.score for result in self.results if result.match.second == policy]
        return Tally.of([*firsts, *seconds])

    def to_json(self) -> dict[str, Any]:
        pairs = [self._pair_to_json(list(results)) for _, results in groupby(self.results, lambda r: r.match[:2])]
        return {
            "env": self.env,
            "options": dict(self.options),
            "seed": self.seed,
            "games": self.games,
            "games_total": len(self.results),
            "distinct_games": sum(pair["distinct_games"] for pair in pairs),
            "cut": sum(result.cut for result in self.results),
            "reproducible": self.reproducible,
            "policies": [
                {"policy": policy, "rating": rating.value, "rating_sd": rating.sd, **self.policy(policy).to_json()}
                for policy, rating in self.ratings().items()
            ],
            "pairs": pairs,
        }

    def _pair_to_json(self, results: list[MatchResult]) -> dict[str, Any]:
        return {
            "first": results[0].match.first,
            "second": results[0].match.second,
            **Tally.of([result.score for result in results]).to_json(),
            # where neither env nor policies draw lots, a pair's games are one game played again and again
            "distinct_games": len({result.game for result in results}),
        }
