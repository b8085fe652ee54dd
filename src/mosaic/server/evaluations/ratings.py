"""Ratings of policies and people in an env, from all games whose results this server has."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import MosaicError
from mosaic.core.ids import EnvID, PolicyID
from mosaic.core.reference import split_reference
from mosaic.evaluation.standings import Score, rate
from mosaic.runners.record import load_episode
from mosaic.server.evaluations.job import ExaminationRow
from mosaic.server.evaluations.jobs import EvaluationJobs
from mosaic.server.schemas import ResponseModel

_LOG = logging.getLogger(__name__)
Kind: TypeAlias = Literal["person", "run", "policy"]
_MOST_EPISODES = 500  # recorded games that are read, newest first


class RatingRow(ResponseModel):
    policy: str = Field(description="As it was named in the games; `human` stands for all people together.")
    kind: Kind
    rating: float = Field(description="On Elo's scale; the mean over all rated is 1500.")
    rating_sd: float
    games: int
    wins: int
    draws: int
    losses: int


class EnvRatings(ResponseModel):
    env: str
    games: int = Field(description="A game that was played several times counts once.")
    rows: list[RatingRow] = Field(description="Ratings, best first.")


def read_ratings(env: EnvID, jobs: EvaluationJobs, episodes: Iterable[Path]) -> EnvRatings:
    """Rate all who took part in tournaments, evaluations of two policies and recorded matches of the env."""
    scores = [score for score in (*_examined(env, jobs), *_recorded(env, episodes)) if score[0] != score[1]]
    tally = {name: Counter[float]() for first, second, _ in scores for name in (first, second)}
    for first, second, score in scores:
        tally[first][score] += 1
        tally[second][1 - score] += 1
    rows = [
        RatingRow(
            policy=name,
            kind=_kind(name),
            rating=rating.value,
            rating_sd=rating.sd,
            games=tally[name].total(),
            wins=tally[name][1.0],
            draws=tally[name][0.5],
            losses=tally[name][0.0],
        )
        for name, rating in rate(scores).items()
    ]
    return EnvRatings(env=env, games=len(scores), rows=sorted(rows, key=lambda row: (-row.rating, row.policy)))


def _kind(policy: PolicyID) -> Kind:
    name = split_reference(policy)[0]
    return "person" if name == "human" else "run" if name == "run" else "policy"


def _examined(env: EnvID, jobs: EvaluationJobs) -> Iterator[Score]:
    for listed in jobs.rows():
        if listed.ended is None or _env_id(listed.request.get("environment")) != env:
            continue
        try:
            yield from _results(jobs.row(listed.examination_id))
        except (MosaicError, KeyError, TypeError, ValueError):  # deleted meanwhile, or of another version
            _LOG.warning("The result of the evaluation %s cannot be read and does not count.", listed.examination_id)


def _results(row: ExaminationRow) -> list[Score]:
    result = row.result or {}
    if row.kind == "tournament":
        pairs = result.get("pairs", ())
        return [
            score for pair in pairs for score in _games(pair["first"], pair["second"], pair, pair["distinct_games"])
        ]
    agents = list((result.get("agents") or {}).values())
    if len(agents) != 2 or agents[0]["wins"] is None:
        return []
    return list(_games(agents[0]["policy"], agents[1]["policy"], agents[0], result["distinct_games"]))


def _env_id(environment: Any) -> EnvID | None:
    """Return the id of an env that was written down; None where this version cannot read it."""
    try:
        return EnvironmentConfig.model_validate(environment).id
    except ValueError:
        return None


def _games(first: PolicyID, second: PolicyID, tally: Mapping[str, Any], distinct: int) -> Iterator[Score]:
    """Yield as many games as there are different ones, in the same proportion."""
    counts = {1.0: tally["wins"], 0.5: tally["draws"], 0.0: tally["losses"]}
    played = sum(counts.values())
    for score, number in counts.items():
        share = number * min(1.0, distinct / played) if played else 0
        yield from [(first, second, score)] * max(round(share), 1 if number else 0)


def _recorded(env: EnvID, episodes: Iterable[Path]) -> Iterator[Score]:
    """Yield the recorded matches of two agents that have a result and no change of policies."""
    for _, path in zip(range(_MOST_EPISODES), episodes, strict=False):
        try:
            episode = load_episode(path)
        except (MosaicError, OSError, ValueError):  # deleted meanwhile, or of another version
            continue
        if (
            _env_id(dict(episode.environment)) != env
            or len(episode.policies) != 2
            or episode.changes
            or episode.cut
            or not episode.ends
        ):
            continue
        (first, one), (second, other) = episode.returns.items()
        score = 1.0 if one > other else 0.5 if one == other else 0.0
        yield episode.policies[first], episode.policies[second], score
