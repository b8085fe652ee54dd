"""Order in which policies with unequal amounts of experience are trained, so that each sample counts equally often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def parts_of(rows: float, minibatch: int | None, most: int) -> int:
    """Return the minibatches of one pass, as near to the requested size as an even division gets; at most `most`."""
    if minibatch is None:
        return min(1, most)
    return min(max(1, round(rows / minibatch)), most)


def cuts(units: int, parts: int, grain: int = 1) -> list[tuple[int, int]]:
    """Cut 0 … units into even parts that begin at multiples of `grain`."""
    whole = units // grain
    bounds = [whole * part // parts * grain for part in range(parts)] + [units]
    return list(pairwise(bounds))


def rounds(minibatches: Mapping[str, int]) -> list[Sequence[str]]:
    """Return the policies in each update, given their numbers of minibatches.

    Those with fewer are spread evenly, and all are in the last update: RLlib reports the losses of that one alone.
    """
    longest = max(minibatches.values(), default=0)
    seated: list[list[str]] = [[] for _ in range(longest)]
    for name, count in minibatches.items():
        for k in range(count):
            seated[(k + 1) * longest // count - 1].append(name)
    return list(seated)


def rows_by_share(rows: int, added: Mapping[str, int]) -> dict[str, int]:
    """Return the rows to draw from each policy's experience: all for the one with most, the others in proportion."""
    most = max(added.values(), default=0)
    return {name: max(1, round(rows * count / most)) for name, count in added.items() if count}
