"""Numbers in an env's `info` as custom metrics of policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from numbers import Real

from mosaic.core.ids import PolicyID

MOST = 50  # names; an env that makes up new ones in every episode would fill every chart
_OTHERS = frozenset(  # keys of wrappers and, `prob`, of Gymnasium's toy_text
    {"episode", "terminal_observation", "final_observation", "final_info", "TimeLimit.truncated", "prob"}
)
CUSTOM = "custom_metrics"


def numbers_in(info: Mapping[str, object]) -> dict[str, float]:
    """Return the numbers of an `info` that are custom metrics, by name.

    Real numbers count, under their own names and those in `info["custom_metrics"]`; names that begin with `_`, keys of
    wrappers, truth values and what is not finite do not.
    """
    found = _numbers((name, value) for name, value in info.items() if name not in _OTHERS)
    inner = info.get(CUSTOM)
    return {**found, **_numbers(inner.items())} if isinstance(inner, Mapping) else found


def _numbers(items: Iterable[tuple[object, object]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in items:
        if isinstance(name, str) and not name.startswith("_"):
            number = _number(value)
            if number is not None:
                found[name] = number
    return found


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all floats
        return None
    return number if isfinite(number) else None


class InfoNumbers:
    """Means of the numbers in the `info` of steps that ended an episode, since they were last taken."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._sums: dict[str, tuple[float, int]] = {}
        self._known: set[str] = set()
        self._refused: str | None = None
        self._told = False

    def add(self, info: Mapping[str, object]) -> None:
        for name, value in numbers_in(info).items():
            if name not in self._known and len(self._known) >= self._most:
                self._refused = self._refused or name
                continue
            self._known.add(name)
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = total + value, count + 1

    def take(self) -> tuple[dict[str, float], str | None]:
        """Return the means, and once what an alert should say if there were too many names."""
        means = {name: total / count for name, (total, count) in self._sums.items()}
        self._sums = {}
        if self._refused is None or self._told:
            return means, None
        self._told = True
        return means, (
            f"The env's info has more than {self._most} numbers with names of their own; '{self._refused}' and other "
            "further ones are not reported. Put those to be charted alone into info, or fewer of them."
        )


class PolicyNumbers:
    """`InfoNumbers` of each policy of a run."""

    def __init__(self) -> None:
        self._of: dict[PolicyID, InfoNumbers] = {}
        self._told = False

    def add(self, policy: PolicyID, info: Mapping[str, object]) -> None:
        self._of.setdefault(policy, InfoNumbers()).add(info)

    def take(self) -> tuple[dict[PolicyID, dict[str, dict[str, float]]], str | None]:
        """Return the `custom_metrics` field of each policy that has numbers, and once what an alert should say."""
        found: dict[PolicyID, dict[str, dict[str, float]]] = {}
        told: str | None = None
        for policy, numbers in self._of.items():
            means, alert = numbers.take()
            told = told or alert
            if means:
                found[policy] = {CUSTOM: means}
        if told is None or self._told:
            return found, None
        self._told = True
        return found, told
