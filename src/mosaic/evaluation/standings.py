"""Tournament results: scores of pairs and ratings of policies."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import NamedTuple, TypeAlias

from mosaic.core.ids import EnvID, Json, JsonObject, PolicyID
from mosaic.evaluation.reports import ReportedNumber, summarise
from mosaic.evaluation.schedule import SCORES, MatchResult
from mosaic.evaluation.statistics import Estimate, estimate_score

Score: TypeAlias = tuple[PolicyID, PolicyID, float]  # first, second, and the score of the first: 1, ½ or 0

CENTRE = 1500.0
_MOST_PASSES = 20
_MOST_UPDATES = 20_000  # takes under a second


class Rating(NamedTuple):
    """Rating on the Elo scale: 100 points more mean an expected score of 64 %, 200 points 76 %, 400 points 91 %.

    Only differences within one list are meaningful: the mean of the list is 1500. `sd` is one standard deviation of the
    uncertainty left by the games; policies that always win have no true rating, and theirs grows with every game.
    """

    value: float
    sd: float


def rate(scores: Iterable[Score]) -> dict[PolicyID, Rating]:
    """Rate policies with OpenSkill's Plackett-Luce model, independently of the order of the games.

    The model processes games one by one and would depend on their order. So the games are sorted, shuffled several
    times from a fixed seed, and the ratings of all orders are averaged; with very many games one order is enough.
    """
    from openskill.models import PlackettLuce

    games = sorted(scores)
    names = sorted({name for first, second, _ in games for name in (first, second)})
    if not names:
        return {}
    model = PlackettLuce(tau=0.0)  # policies do not learn during a tournament
    random = Random(0)
    passes = max(1, min(_MOST_PASSES, _MOST_UPDATES // len(games)))
    seen: dict[PolicyID, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(passes):
        random.shuffle(games)
        ratings = {name: model.rating() for name in names}
        for first, second, score in games:
            teams = [[ratings[first]], [ratings[second]]]
            [[ratings[first]], [ratings[second]]] = model.rate(teams, ranks=[1.0 - score, score])
        for name, rating in ratings.items():
            seen[name].append((rating.mu, rating.sigma))
    points = (
        400 / math.log(10) / (model.beta * math.sqrt(2))
    )  # the model is logistic with scale β√2, Elo's with 400/ln 10
    means = {name: fmean(mu for mu, _ in seen[name]) for name in names}
    centre = fmean(means.values())
    return {
        name: Rating(CENTRE + (means[name] - centre) * points, fmean(sigma for _, sigma in seen[name]) * points)
        for name in names
    }


@dataclass(frozen=True, slots=True)
class MatchTally:
    """Wins, draws and losses from one side."""

    wins: int
    draws: int
    losses: int
    distinct_games: int  # a repeated game adds no information

    @classmethod
    def of(cls, scores: Collection[float], distinct_games: int) -> MatchTally:
        wins, draws, losses = (sum(score == value for score in scores) for value in SCORES.values())
        return cls(wins, draws, losses, distinct_games)

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> Estimate:
        return estimate_score(self.wins, self.draws, self.losses, self.distinct_games)

    def to_json(self) -> JsonObject:
        return {
            "games": self.games,
            "score_mean": self.score.mean,
            "score_ci95": self.score.ci95,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
            "distinct_games": self.distinct_games,
        }


@dataclass(frozen=True, slots=True)
class Tournament:
    """Result of `tournament`: every game, and a rating with a score per policy."""

    env: EnvID
    options: Mapping[str, Json]
    seed: int
    games: int  # per ordered pair
    policies: tuple[PolicyID, ...]
    reproducible: bool
    results: tuple[MatchResult, ...]  # in the order of the schedule, independent of when they were played
    notes: tuple[str, ...] = ()  # for readers of the results

    def ratings(self) -> dict[PolicyID, Rating]:
        """Return ratings, best first.

        Each pair counts with as many games as it has distinct ones, in the proportion of all.
        """
        found = rate(
            (first, second, score) for (first, second), results in self._pairs() for score in _independent(results)
        )
        return dict(sorted(found.items(), key=lambda item: (-item[1].value, item[0])))

    def pair(self, first: PolicyID, second: PolicyID) -> MatchTally:
        """Return the tally of games in which `first` was the env's first agent, from its side."""
        chosen = [result for result in self.results if result.match[:2] == (first, second)]
        return MatchTally.of([result.score for result in chosen], _distinct(chosen))

    def policy(self, policy: PolicyID) -> MatchTally:
        """Return the tally of one policy over all its games."""
        firsts = [result.score for result in self.results if result.match.first == policy]
        seconds = [1 - result.score for result in self.results if result.match.second == policy]
        pairs = [results for pair, results in self._pairs() if policy in pair]
        return MatchTally.of([*firsts, *seconds], sum(map(_distinct, pairs)))

    def reports(self, policy: PolicyID) -> dict[str, ReportedNumber]:
        """Return the numbers that the policy reported about its decisions."""
        played = [result.reports[policy] for result in self.results if policy in result.reports]
        return summarise(played, self.policy(policy).distinct_games)

    def _pairs(self) -> list[tuple[tuple[PolicyID, PolicyID], list[MatchResult]]]:
        found: dict[tuple[PolicyID, PolicyID], list[MatchResult]] = {}
        for result in self.results:
            found.setdefault((result.match.first, result.match.second), []).append(result)
        return list(found.items())

    def to_json(self) -> JsonObject:
        pairs = [
            {"first": first, "second": second, **self.pair(first, second).to_json()}
            for (first, second), _ in self._pairs()
        ]
        return {
            "env": self.env,
            "options": dict(self.options),
            "seed": self.seed,
            "games": self.games,
            "games_total": len(self.results),
            "distinct_games": sum(_distinct(results) for _, results in self._pairs()),
            "cut": sum(result.cut for result in self.results),
            "reproducible": self.reproducible,
            "notes": list(self.notes),
            "policies": [
                {
                    "policy": policy,
                    "rating": rating.value,
                    "rating_sd": rating.sd,
                    **self.policy(policy).to_json(),
                    "reports": {name: number.to_json() for name, number in self.reports(policy).items()},
                }
                for policy, rating in self.ratings().items()
            ],
            "pairs": pairs,
        }


def _distinct(results: Collection[MatchResult]) -> int:
    """Count different games: where neither env nor policies are stochastic, a pair repeats the same game."""
    return len({(result.game, result.score) for result in results})


def _independent(results: Collection[MatchResult]) -> list[float]:
    """Return as many scores as there are distinct games, evenly picked from the sorted scores."""
    scores, count = sorted(result.score for result in results), _distinct(results)
    return [scores[int((place + 0.5) * len(scores) / count)] for place in range(count)]
