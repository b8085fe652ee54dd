"""Numbers that policies report about their decisions, with confidence intervals: tokens, seconds, illegal answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, NamedTuple, TypeAlias

from mosaic.core.episode import Episode
from mosaic.core.ids import AgentID, JsonObject
from mosaic.evaluation.statistics import Estimate, estimate_mean, estimate_ratio, estimate_share


class NumberTally(NamedTuple):
    """Values of one number in one episode, or in several."""

    times: int  # how often it was reported
    total: float
    share: bool = False  # the values are True and False

    def plus(self, other: NumberTally) -> NumberTally:
        return NumberTally(self.times + other.times, self.total + other.total, self.share and other.share)


Tallies: TypeAlias = Mapping[str, NumberTally]  # by the name of the number


def tallies_by_agent(episode: Episode) -> dict[AgentID, Tallies]:
    found: dict[AgentID, list[Tallies]] = {}
    for _, agent, report in episode.reports:
        tallies = {name: _tally(given) for name, given in report.numbers.items()}
        found.setdefault(agent, []).append(tallies)
    return {agent: merged(each) for agent, each in found.items()}


def _tally(given: bool | float | Sequence[bool] | Sequence[float]) -> NumberTally:
    values = given if isinstance(given, Sequence) else (given,)
    return NumberTally(len(values), fsum(values), all(isinstance(value, bool) for value in values))


def merged(tallies: Iterable[Tallies]) -> Tallies:
    found: dict[str, NumberTally] = {}
    for each in tallies:
        for name, tally in each.items():
            found[name] = found[name].plus(tally) if name in found else tally
    return found


@dataclass(frozen=True, slots=True)
class ReportedNumber:
    """Number over all episodes: its mean, or the share of True, and its sum per episode."""

    tally: NumberTally
    mean: Estimate
    per_episode: Estimate

    def to_json(self) -> JsonObject:
        times, total, share = self.tally
        return {
            "share": share,
            "mean": self.mean.mean,
            "ci95": self.mean.ci95,
            "count": times,
            "total": total,
            "episode_mean": self.per_episode.mean,
            "episode_ci95": self.per_episode.ci95,
        }


def summarise(episodes: Sequence[Tallies], distinct: int) -> dict[str, ReportedNumber]:
    """Summarise the tallies of episodes, of which `distinct` are different games."""
    return {name: _summary([each[name] for each in episodes if name in each], distinct) for name in merged(episodes)}


def _summary(tallies: Sequence[NumberTally], distinct: int) -> ReportedNumber:
    whole = NumberTally(
        sum(each.times for each in tallies),
        fsum(each.total for each in tallies),
        all(each.share for each in tallies),
    )
    per_episode = estimate_mean([each.total for each in tallies], distinct)
    if whole.share:
        mean = estimate_share(int(whole.total), whole.times, min(1.0, distinct / len(tallies)))
    else:
        mean = estimate_ratio([each.total for each in tallies], [each.times for each in tallies], distinct)
    return ReportedNumber(whole, mean, per_episode)


def tallies_to_json(tallies: Tallies) -> JsonObject:
    return {name: list(tally) for name, tally in tallies.items()}


def tallies_from_json(data: Any) -> Tallies:
    """Parse tallies; raise TypeError, ValueError, AttributeError or OverflowError for malformed data."""
    return {
        str(name): NumberTally(int(times), float(total), bool(share)) for name, (times, total, share) in data.items()
    }
