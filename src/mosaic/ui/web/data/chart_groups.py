"""Chart groups: metrics of a run that belong in one chart, such as the same measure of each policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mosaic.telemetry.events.event import AXES

ALL = "all"  # the label of what is measured over all policies
RETURN, RATING, LENGTH, EVALUATED = "Return", "Rating", "Episode length", "Return in evaluations"
AGAINST = "Return in evaluations by opponent"
_POLICIES = "policies/"
_EVALUATION = "evaluation/"
_OPPONENTS = "evaluation/against/"
_EVALUATED = ("reward_mean", "win_rate")  # of agents, policies and opponents; the other results are in the events
_MARKS = ("started/", "ended/", "resumed/", "checkpoint/", "alert/")  # events that say when, not how much
_TITLES = {
    "episode_reward_mean": RETURN,
    "reward_mean": RETURN,
    "rating": RATING,
    "episode_len_mean": LENGTH,
    "env_steps_per_s": "Env steps per second",
    "evaluation/episode_reward_mean": EVALUATED,
    "evaluation/reward_mean": EVALUATED,
    "evaluation/win_rate": "Win rate in evaluations",
    "evaluation/agents/reward_mean": "Return of agents in evaluations",
    "evaluation/agents/win_rate": "Win rate of agents in evaluations",
    "evaluation/against/reward_mean": AGAINST,
    "evaluation/against/win_rate": "Win rate in evaluations by opponent",
    "evaluation/episode_len_mean": "Episode length in evaluations",
    "time_split/env": "Seconds in envs per iteration",
    "time_split/inference": "Seconds in inference per iteration",
    "time_split/learning": "Seconds in learning per iteration",
}
_FIRST = (RETURN, RATING, EVALUATED, AGAINST, LENGTH)
_FIRST_IN_SELF_PLAY = (RATING, AGAINST, EVALUATED, RETURN, LENGTH)
_LEAVES_LAST = (
    "reward_min",
    "reward_max",
    "episodes_total",
    "agent_steps",
    "time_split",
    "interval ·",
    "num healthy workers",
    "remote worker restarts",
)


@dataclass(frozen=True, slots=True)
class Family:
    """A chart: label of each curve → its metric."""

    title: str
    curves: dict[str, str]


def families(names: Iterable[str], *, self_play: bool = False) -> list[Family]:
    """Return the charts, the most viewed first; in self-play the return is not informative.

    An evaluation has one event for each opponent, so with several of them only curves by opponent are curves.
    """
    found: dict[str, dict[str, str]] = {}
    names = list(names)
    several = len({_place(name)[1] for name in names if name.startswith(_OPPONENTS)}) > 1
    for name in names:
        if name in AXES or name.startswith(_MARKS) or _is_detail(name):
            continue
        if several and name.startswith(_EVALUATION) and not name.startswith(_OPPONENTS):
            continue
        title, label = _place(name)
        found.setdefault(title, {}).setdefault(label, name)
    for curves in found.values():
        if len(curves) == 2 and ALL in curves:
            del curves[next(label for label in curves if label != ALL)]  # the only policy equals the mean over all
    first = _FIRST_IN_SELF_PLAY if self_play else _FIRST
    order = sorted(found, key=lambda title: _rank(title, found[title], first))
    return [Family(title, {label: found[title][label] for label in _in_order(found[title])}) for title in order]


def measure_title(metric: str) -> str:
    """Return the title of the chart that has this metric."""
    return _place(metric)[0]


def policies_of(found: Iterable[Family]) -> list[str]:
    """Return every label that is drawn, in a fixed order, so that a policy has one colour in all charts."""
    return _in_order({label for family in found for label in family.curves})


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts numbers in names by their values: policy_2 before policy_10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text) if part)


def _is_detail(name: str) -> bool:
    """Return whether this is a result of one agent, policy or opponent in an evaluation that is not drawn."""
    parts = name.split("/")
    grouped = len(parts) > 3 and parts[0] == "evaluation" and parts[1] in ("agents", "policies", "against")
    return grouped and parts[-1] not in _EVALUATED


def _place(name: str) -> tuple[str, str]:
    for group in ("agents/", "against/"):
        if name.startswith(_EVALUATION + group):
            label, _, measure = name.removeprefix(_EVALUATION + group).rpartition("/")
            return _title(_EVALUATION + group + measure), label
    start, _, rest = name.partition(_POLICIES)
    if not rest or start not in ("", _EVALUATION):
        return _title(name), ALL
    policy, _, measure = rest.rpartition("/") if start else rest.partition("/")
    return _title(start + measure), policy


def _title(measure: str) -> str:
    if measure in _TITLES:
        return _TITLES[measure]
    words = [part for part in measure.split("/") if part not in ("learner", "custom_metrics")]
    text = " · ".join(words).replace("_", " ") or measure
    return text[:1].upper() + text[1:]


def _rank(title: str, curves: Mapping[str, str], first: Sequence[str]) -> tuple[int, tuple[tuple[int, str], ...]]:
    """Return the place of a chart: users' own metrics before those of the learner."""
    if title in first:
        return first.index(title), ()
    if any(word.replace("_", " ") in title.lower() for word in _LEAVES_LAST) or "per iteration" in title:
        return len(first) + 2, natural(title)
    own = any("custom_metrics/" in name for name in curves.values())
    return len(first) + (not own), natural(title)


def _in_order(labels: Iterable[str]) -> list[str]:
    return sorted(labels, key=lambda label: (label != ALL, natural(label)))
