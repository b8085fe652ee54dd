"""Report of a row: the figure, its peer, their ratio, and a gate on what was learned."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def row(what: str, ours: float, unit: str, peer: float | None = None, at_least: float | None = None) -> None:
    text = f"{what:58}{ours:16,.0f} {unit}"
    if peer is not None:
        text += f"   peer {peer:12,.0f}   ratio {ours / peer:9.2f}"
    if at_least is not None:
        text += f"   (at least {at_least:g})"
    print(text, flush=True)


def gate(true: bool, what: str) -> None:
    if not true:
        raise SystemExit(f"The gate failed, so the speed means nothing: {what}")
