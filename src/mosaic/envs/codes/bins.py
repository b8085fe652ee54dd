"""How finely each number of a Box is cut, as people write it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mosaic.core.errors import InputError, shown

MOST_BINS = 1_000_000
_FORM = re.compile(r"(?P<count>[^@]+)(@(?P<low>.+?)\.\.(?P<high>.+))?")


@dataclass(frozen=True, slots=True)
class Bins:
    """So many bins of equal width. What lies outside the bounds counts as being on them.

    Bounds that the space has itself need not be given; given ones can only narrow them.
    """

    count: int
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= MOST_BINS:
            raise InputError(f"bins: {shown(self.count)} is not a number of bins from 1 to {MOST_BINS:,}.")
        if not self.low < self.high:
            raise InputError(f"bins: the lower bound must be below the upper one (got {self.low:g}..{self.high:g}).")


OneBins: TypeAlias = int | str | Bins
BinsGiven: TypeAlias = OneBins | Sequence[OneBins]  # one for all numbers of all Boxes, or one for each
Spelling: TypeAlias = Callable[[Sequence[str]], str]  # what to type so that these bins hold, in order


def read_bins(given: OneBins) -> Bins:
    """`8`, or `8@-3..3` for eight bins from -3 to 3."""
    if isinstance(given, Bins):
        return given
    if not isinstance(given, str):
        return Bins(given)
    form = _FORM.fullmatch(given.strip())
    try:
        if form is None:
            raise ValueError
        count = int(form["count"])
        bounds = (float(form["low"]), float(form["high"])) if form["low"] is not None else (-math.inf, math.inf)
    except ValueError:
        raise InputError(
            f"bins: {shown(given)} is neither a number of bins, such as 8, nor one with bounds, such as 8@-3..3."
        ) from None
    return Bins(count, *bounds)


def in_training(entries: Sequence[str]) -> str:
    """As an option of the command line for a worker's own setting."""
    plain = all(entry.isdigit() for entry in entries)
    words = [entry if entry.isdigit() else f'"{entry}"' for entry in entries]
    setting = f"training.params.bins={words[0] if len(words) == 1 else '[' + ','.join(words) + ']'}"
    return f"--set {setting}" if plain else f"--set '{setting}'"
