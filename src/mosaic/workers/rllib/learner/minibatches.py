"""In which order policies with unequal amounts of experience are trained, so that each sample counts equally often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def parts_of(rows: float, minibatch: int | None, most: int) -> int:
    """Minibatches of one pass, as near to the asked size as an even division gets; at most `most`."""
    if minibatch is None:
        return min(1, most)
    return min(max(1, round(rows / minibatch)), most)


def cuts(units: int, parts: int, grain: int = 1) -> list[tuple[int, int]]:
    """Even parts of 0 … units, which begin at multiples of `grain`."""
    whole = units // grain
    bounds = [whole * part // parts * grain for part in range(parts)] + [units]
    return list(pairwise(bounds))


def rounds(minibatches: Mapping[str, int]) -> list[Sequence[str]]:
    """Who is in which update, when each has so many minibatches to go through.

    Those with fewer are spread evenly, and everybody is in the last one: RLlib reports the losses of that one alone.
    """
    longest = max(minibatches.values(), default=0)
    seated: list[list[str]] = [[] for _ in range(longest)]
    for name, count in minibatches.items():
        for k in range(count):
            seated[(k + 1) * longest // count - 1].append(name)
    return list(seated)


def rows_by_share(rows: int, added: Mapping[str, int]) -> dict[str, int]:
    """Rows to draw from each policy's experience: all of them for the one with most, the others by what they have."""
    most = max(added.values(), default=0)
    return {name: max(1, round(rows * count / most)) for name, count in added.items() if count}
