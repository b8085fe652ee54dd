"""What a search finds out about a position."""

from __future__ import annotations

from typing import NamedTuple


class Verdict(NamedTuple):
    value: int  # for the mover: 1 won, 0 drawn or undecided, -1 lost
    moves: tuple[int, ...]  # all that are equally good, in ascending order
