"""Report of a row: the figure, its peer and their ratio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter

from figures import at_least as least
from figures import at_most as most
from figures import note_figure, note_ratio


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def row(
    what: str,
    ours: Sequence[float],
    unit: str,
    peer: Sequence[float] = (),
    at_least: float | None = None,
    *,
    name: str = "",
    at_most: float | None = None,
) -> None:
    """Print the median of the repeats, and its ratio to the peer's; `at_most` is for figures without a peer."""
    middle = median(ours)
    text = f"{what:58}{middle:16,.{0 if middle >= 100 else 2}f} {unit}"
    if peer:
        verdict = note_ratio(what, unit, ours, peer, name, least(at_least))
        ratio = median(one / other for one, other in zip(ours, peer, strict=True))
        text += f"   {name} {median(peer):12,.0f}   ratio {ratio:9.2f}"
    else:
        verdict = note_figure(what, unit, ours, least(at_least) or most(at_most))
    print(f"{text}   {verdict}", flush=True)
