"""Numbers in an env's `info` as custom metrics."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from numbers import Real
from statistics import fmean

MOST = 50  # names; an env that makes up new ones in every episode would fill every chart
_OTHERS = frozenset({"episode", "terminal_observation", "final_observation", "final_info", "TimeLimit.truncated"})
CUSTOM = "custom_metrics"


class InfoNumbers:
    """Means of the numbers in the `info` of steps that ended an episode, since they were last taken.

    Real numbers count, under their own names and those in `info["custom_metrics"]`; names that begin with `_`,
    truth values and what is not finite do not.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._found: dict[str, list[float]] = {}
        self._known: set[str] = set()
        self._refused: str | None = None
        self._told = False

    def add(self, info: Mapping[str, object]) -> None:
        inner = info.get(CUSTOM)
        for name, value in {**info, **(inner if isinstance(inner, Mapping) else {})}.items():
            if not isinstance(name, str) or name in _OTHERS or name.startswith("_") or not _is_number(value):
                continue
            if name not in self._known and len(self._known) >= self._most:
                self._refused = self._refused or name
                continue
            self._known.add(name)
            self._found.setdefault(name, []).append(float(value))

    def take(self) -> tuple[dict[str, float], str | None]:
        """Return the means, and once what an alert should say if there were too many names."""
        means = {name: fmean(values) for name, values in self._found.items()}
        self._found = {}
        if self._refused is None or self._told:
            return means, None
        self._told = True
        return means, (
            f"The env's info has more than {self._most} numbers with names of their own; '{self._refused}' and other "
            "further ones are not reported. Put those to be charted alone into info, or fewer of them."
        )


def _is_number(value: object) -> bool:
    plain = isinstance(value, Real) and not isinstance(value, bool)
    return plain and isfinite(float(value))  # type: ignore[arg-type]
