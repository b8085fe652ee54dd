"""Measurement, comparison and printing of figures."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

from figures import at_least as least
from figures import at_most as most
from figures import note_figure, note_ratio

from mosaic.core.errors import MissingExtraError


class GateFailed(Exception):  # noqa: N818 - an outcome, not an error
    """Too little was learned, so the speed is meaningless."""


class PeerMissing(Exception):  # noqa: N818
    """A program that a row needs is not installed; the message says what to type."""


class Unmeasured(Exception):  # noqa: N818
    """The measured process ended before it reported its figures."""


def raise_if_missing(last: str) -> None:
    """Raise again what ended another process, by the last line of its traceback, if it was a package that is missing.

    So what that process needs is left out, as in this one.
    """
    if found := re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", last):
        raise ModuleNotFoundError(f"No module named '{found[1]}'", name=found[1])
    if found := re.match(r"(?:[\w.]+\.)?MissingExtraError: (.+)", last):
        raise MissingExtraError(found[1])


class Plan(NamedTuple):
    """Options passed to every row."""

    repeats: int
    quick: bool
    with_peers: bool


class Outcome(NamedTuple):
    """Steps done, the time they took, and the mean return of the last 100 episodes."""

    steps: int
    wall_s: float
    cpu_s: float
    reward: float = float("nan")


def usable_cores() -> set[int]:
    """Return the cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def keep_on(cores: Iterable[int]) -> None:
    """Keep this process, and those that it starts, on some cores; macOS cannot."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


class Clock:
    wall_s = 0.0
    cpu_s = 0.0


@contextmanager
def timed() -> Iterator[Clock]:
    clock, wall, cpu = Clock(), perf_counter(), process_time()
    try:
        yield clock
    finally:
        clock.wall_s, clock.cpu_s = perf_counter() - wall, process_time() - cpu


def in_turn(
    repeats: int, ours: Callable[[int], Outcome], *peers: Callable[[int], Outcome]
) -> tuple[list[Outcome], ...]:
    """Run ours and the peers back to back, so that any disturbance of the machine affects all of them."""
    sides = (ours, *peers)
    seen: tuple[list[Outcome], ...] = tuple([] for _ in sides)
    for seed in range(repeats):
        for side, outcomes in zip(sides, seen, strict=True):
            outcomes.append(side(seed))
    return seen


def gate(true: bool, what: str) -> None:
    if not true:
        raise GateFailed(what)


def show_speed(
    what: str,
    ours: Sequence[Outcome],
    peer: Sequence[Outcome] = (),
    name: str = "",
    at_least: float | None = None,
    unit: str = "steps/s",
) -> None:
    """Print median steps per wall-clock second, and the ratio by CPU time, which other programs disturb less."""
    wall = median(each.steps / each.wall_s for each in ours)
    cpu = median(each.steps / each.cpu_s for each in ours)
    text = f"{wall:14,.0f} {unit}"
    if not peer:
        verdict = note_figure(what, unit, [each.steps / each.wall_s for each in ours], least(at_least))
        _print(what, f"{text}  (cpu {cpu:,.0f})", verdict)
        return
    other_wall = median(each.steps / each.wall_s for each in peer)
    speeds = ([each.steps / each.wall_s for each in side] for side in (ours, peer))
    verdict = note_ratio(what, unit, *speeds, name, least(at_least))
    pairs = [(mine.steps / mine.wall_s, other.steps / other.wall_s) for mine, other in zip(ours, peer, strict=True)]
    cpu_pairs = [(mine.steps / mine.cpu_s, other.steps / other.cpu_s) for mine, other in zip(ours, peer, strict=True)]
    text += f"  {name} {other_wall:,.0f}  ratio {_ratio(pairs)} (cpu {_ratio(cpu_pairs)})"
    _print(what, text, verdict)


def _ratio(pairs: Sequence[tuple[float, float]]) -> str:
    """Return the median ratio of the repeats, as in the report."""
    value = median(first / second for first, second in pairs)
    return f"{value:.2f}" if value < 3 else f"{value:.1f}"


def show_time(
    what: str,
    ours: Sequence[Outcome],
    peer: Sequence[Outcome],
    name: str,
    at_least: float | None,
    cpu: bool = True,
    unit: str = "s",
) -> None:
    """Print the median times, in "s" or "µs"; the ratio says how many times longer the peer takes."""
    pairs = [(theirs.wall_s, our.wall_s) for our, theirs in zip(ours, peer, strict=True)]
    in_unit = {"s": 1.0, "µs": 1e6}[unit]
    times = [[each.wall_s * in_unit for each in side] for side in (ours, peer)]
    mine, other = map(median, times)
    verdict = note_ratio(what, unit, *times, name, least(at_least))
    cpu_pairs = [(theirs.cpu_s, our.cpu_s) for our, theirs in zip(ours, peer, strict=True)]
    also = f" (cpu {_ratio(cpu_pairs)})" if cpu else ""
    _print(what, f"{mine:14.3f} {unit:<8} {name} {other:.3f} {unit}  ratio {_ratio(pairs)}{also}", verdict)


def show_limit(what: str, figures: Sequence[float], unit: str, at_most: float | None) -> None:
    """Print the median of the repeats."""
    _print(what, f"{median(figures):14.3f} {unit}", note_figure(what, unit, figures, most(at_most)))


def _print(what: str, text: str, verdict: str) -> None:
    print(f"{what:54}{text}  {verdict}  [load {os.getloadavg()[0]:.1f}]", flush=True)
