"""How strong policies are relative to each other, from the scores of their games."""

from __future__ import annotations

import math
from collections.abc import Iterable
from random import Random
from statistics import fmean
from typing import NamedTuple, TypeAlias

from mosaic.core.ids import PolicyID

Score: TypeAlias = tuple[PolicyID, PolicyID, float]  # first, second, and what the first got: 1, ½ or 0

CENTRE = 1500.0
_MOST_PASSES = 20
_MOST_UPDATES = 20_000  # under a second


class Rating(NamedTuple):
    """On Elo's scale: 100 points more mean an expected score of 64 %, 200 points 76 %, 400 points 91 %.

    Only differences within one list mean anything: the mean of the list is 1500. `sd` is one standard deviation of
    what the games leave open; policies that always win have no true rating, and theirs grows with every game.
    """

    value: float
    sd: float


def rate(scores: Iterable[Score]) -> dict[PolicyID, Rating]:
    """Ratings by OpenSkill's Plackett-Luce model, a function of which games were played and not of when.

    The model looks at one game after another and would depend on their order. So the games are sorted, shuffled
    several times from a fixed seed, and the ratings of all orders are averaged; with very many games one order will do.
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
