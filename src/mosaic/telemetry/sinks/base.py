"""Sinks that mirror a run's metrics: CSV, TensorBoard, tracking services, plug-ins; off unless the config names them.

A mirror reads the stored events, so it can neither slow a worker down nor contain more than they do. It starts with
everything visible; when a resumed run goes back, and in every new session, it starts again: the content of a file is
always `visible(events)`, and a tracking service, from which nothing can be deleted, receives only events that it does
not have yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Protocol, TypeGuard

from mosaic.core.plugins import load_plugin
from mosaic.telemetry.events.event import MetricEvent, leaves
from mosaic.telemetry.events.reader import follow, is_hidden, read_events, resume_points


class Sink(Protocol):
    """External destination of events. Opening it removes what an earlier session wrote for this run, or finds it."""

    def write(self, event: MetricEvent, /) -> None: ...

    def close(self) -> None: ...


Factory = Callable[[Path], Sink]


def mirror(run_folder: Path, names: Sequence[str], stop: Event, poll_s: float = 0.5) -> None:
    """Keep the mirrors equal to the run's visible events until `stop` is set and all stored by then is written.

    Blocks: meant for its own thread or process. An error in a sink ends mirroring and is raised here.
    """
    factories = [sink_factory(name) for name in names]
    while _resumed_meanwhile(run_folder, factories, stop, poll_s):
        pass  # the next session leaves out what the new attempt superseded


def _resumed_meanwhile(run_folder: Path, factories: Sequence[Factory], stop: Event, poll_s: float) -> bool:
    """Run one session: open empty sinks and fill them until `stop`, or until the run is resumed (return True)."""
    path = run_folder / "metrics.jsonl"
    points = resume_points(read_events(path))
    newest = points[-1].seq if points else 0
    with ExitStack() as stack:
        sinks = [stack.enter_context(closing(factory(run_folder))) for factory in factories]
        for event in stack.enter_context(closing(follow(path, 0, stop, poll_s))):
            if event["kind"] == "resumed" and event["seq"] > newest:
                return True
            if not is_hidden(event, points):
                for sink in sinks:
                    sink.write(event)
    return False


def sink_factory(name: str) -> Factory:
    """Import the sink's package and return the factory of that name."""
    factory: Factory = load_plugin("mosaic.sinks", name)
    return factory


def finite_numbers(event: MetricEvent) -> dict[str, float]:
    """Return the numbers of an event's content that every destination can store."""
    return {name: float(value) for name, value in leaves(event) if _is_finite(value)}


def _is_finite(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and -math.inf < value < math.inf and abs(value) < 1e300
