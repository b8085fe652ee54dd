"""TensorBoard sink: event files in `tensorboard/` of the run's folder, one scalar per number, env_steps as step."""

from __future__ import annotations

from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter  # type: ignore[import-untyped]
from tensorboardX.proto.event_pb2 import Event  # type: ignore[import-untyped]
from tensorboardX.proto.summary_pb2 import Summary  # type: ignore[import-untyped]

from mosaic.telemetry.events.event import MetricEvent, is_number
from mosaic.telemetry.sinks.base import finite_numbers


class TensorBoardSink:
    """TensorBoard writer; events without env_steps have no place on its axis and are left out."""

    def __init__(self, run_folder: Path) -> None:
        folder = run_folder / "tensorboard"
        folder.mkdir(exist_ok=True)
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = EventsWriter(str(folder / "events"))

    def write(self, event: MetricEvent, /) -> None:
        step = event.get("env_steps")
        scalars = finite_numbers(event)
        if not is_number(step) or not scalars:
            return
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()])
        self._writer.write_event(Event(wall_time=event["timestamp"], step=int(step), summary=summary))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
