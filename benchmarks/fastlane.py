"""Benchmark of frame streaming: publishing, transfer to another process, memory, `wanted()`, and training speed.

    python benchmarks/fastlane.py
    python benchmarks/fastlane.py training --repeats 12

Publishing and bare copies (`np.copyto`) are alternated in slices, and the fastest slice of each is compared: noise only
adds. A bare copy is measured into one private array, which stays in the cache, and into four in turn, as a ring must.
Transfers to another process send the same frames in alternating rounds; the median round counts. A frame has arrived
when the other process has it as an array and has confirmed it.

The slow-down of training is that of the native learner on CartPole with its preset, in this process, with the camera of
a run. A repeat is the time of as many iterations with pictures as without (telemetry.frames=false), in alternating
slices of a third of a second: off, on, on, off, and so on. Its reader is another process, which reads 30 times a second
during the slices with pictures and is gone during the others. The interval is a bootstrap's, over the repeats.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import cycle
from multiprocessing.connection import Connection
from os import cpu_count, getloadavg
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from figures import Goal, loosen_goals, note_figure
from numpy.typing import NDArray
from row_table import run_row

from mosaic.config.run import RunConfig
from mosaic.evaluation.statistics import estimate_mean
from mosaic.learners.base import Learner
from mosaic.learners.ppo.build import assemble
from mosaic.store.run_folder import RunFolder
from mosaic.telemetry.events.writer import EventWriter
from mosaic.telemetry.frames.paths import ring_paths
from mosaic.telemetry.frames.reader import FrameReader
from mosaic.telemetry.frames.writer import FrameWriter
from mosaic.workers.camera import Camera
from mosaic.workers.context import WorkerContext
from mosaic.workers.inbox import Inbox
from mosaic.workers.native.training import NativeScene
from mosaic.workers.native.worker import NativePpoOptions
from mosaic.workers.presets import with_preset

SMALL, LARGE = (84, 84, 3), (480, 640, 3)
FRAMES, ROUNDS = 200, 9
REPEATS, QUICK_REPEATS, TURNS, SLICE_S, RATE_HZ = 12, 3, "off on on off off on on off", 1 / 3, 30
Picture = NDArray[np.uint8]
_CONTEXT = multiprocessing.get_context("spawn")


def say(what: str, figure: float, unit: str, limit: float, *, more: bool = False) -> None:
    note_figure(what, unit, [figure], Goal("at least" if more else "at most", limit, fixed=unit == "MB"))
    print(f"{what:<58}{figure:>10.4g} {unit:<3}   goal {limit:g}   {figure / limit:.2f} of it")


def picture(shape: tuple[int, ...]) -> Picture:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def fastest(calls: dict[str, Callable[[], object]], times: int, slices: int = 60) -> dict[str, float]:
    """Return the seconds per call of each function's fastest slice."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(slices):
        for name, call in calls.items():
            start = perf_counter()
            for _ in range(times):
                call()
            best[name] = min(best[name], (perf_counter() - start) / times)
    return best


def publishing(folder: Path) -> None:
    for shape in (SMALL, LARGE):
        publishing_of(folder, shape)


def publishing_of(folder: Path, shape: tuple[int, ...]) -> None:
    rgb, one = picture(shape), np.empty(shape, np.uint8)
    in_turn = cycle([np.empty(shape, np.uint8) for _ in range(4)])
    with FrameWriter(folder) as writer:
        calls: dict[str, Callable[[], object]] = {
            "publish": lambda: writer.publish(rgb, step=5, episode=2, agent="walker", reward=1.0, ret=3.0),
            "copy": lambda: np.copyto(one, rgb),
            "copy in turn": lambda: np.copyto(next(in_turn), rgb),
        }
        cost = fastest(calls, times=4_000_000 // rgb.size + 20)
    size = "×".join(map(str, shape))
    us = {name: f"{seconds * 1e6:.2f} µs" for name, seconds in cost.items()}
    print(f"{size}: publish {us['publish']}, bare copy {us['copy']}, into four in turn {us['copy in turn']}")
    say(f"publish {size} / bare copy into one array", cost["publish"] / cost["copy"], "×", 1.5)
    say(f"publish {size} / bare copy into four in turn", cost["publish"] / cost["copy in turn"], "×", 1.5)


def asking(folder: Path) -> None:
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        say("wanted(), without a viewer", fastest({"": writer.wanted}, 5000)[""] * 1e6, "µs", 1)
        reader.look()
        say("wanted(), with a viewer", fastest({"": writer.wanted}, 5000)[""] * 1e6, "µs", 1)


def memory(folder: Path) -> None:
    with FrameWriter(folder) as writer:
        writer.publish(picture(LARGE))
        say("shared memory at 640×480", ring_paths(folder)[0].stat().st_blocks * 512 / 1e6, "MB", 4)


def receive(folder: Path, pipe: Connection, queue: Any, answers: Connection) -> None:
    reader = FrameReader(folder)
    takes: dict[str, Callable[[], Picture]] = {"ring": lambda: _next(reader), "pipe": pipe.recv, "queue": queue.get}
    while (way := answers.recv()) != "end":
        answers.send("ready")
        for _ in range(FRAMES):
            takes[way]()
            answers.send_bytes(b"1")


def _next(reader: FrameReader) -> Picture:
    while (frame := reader.read()) is None:
        pass
    return frame.pixels


def between_processes(folder: Path) -> None:
    rgb = picture(LARGE)
    (pipe, pipe_there), queue, (answers, answers_there) = _CONTEXT.Pipe(), _CONTEXT.Queue(), _CONTEXT.Pipe()
    with FrameWriter(folder) as writer:
        writer.publish(rgb)
        gives: dict[str, Callable[[Picture], None]] = {"ring": writer.publish, "pipe": pipe.send, "queue": queue.put}
        other = _CONTEXT.Process(target=receive, args=(folder, pipe_there, queue, answers_there))
        other.start()
        pipe_there.close()  # else waiting for a process that has crashed would never end
        answers_there.close()
        cost: dict[str, list[float]] = {way: [] for way in gives}
        for _ in range(ROUNDS):
            for way, give in gives.items():
                cost[way].append(_round(way, give, rgb, answers))
        answers.send("end")
        other.join()
    ring, by_pipe, by_queue = (median(cost[way][1:]) * 1e6 for way in gives)
    print(f"640×480 to another process: ring {ring:.0f} µs, Pipe {by_pipe:.0f} µs, Queue {by_queue:.0f} µs")
    say("Pipe / ring (more is better)", by_pipe / ring, "×", 3, more=True)
    say("Queue / ring (more is better)", by_queue / ring, "×", 3, more=True)


def _round(way: str, give: Callable[[Picture], None], rgb: Picture, answers: Connection) -> float:
    answers.send(way)
    answers.recv()
    start = perf_counter()
    for _ in range(FRAMES):
        give(rgb)
        answers.recv_bytes()
    return (perf_counter() - start) / FRAMES


def training(folder: Path, repeats: int) -> None:
    config = RunConfig.model_validate({"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "native"}})
    config = with_preset(config, "native", "ppo")
    options = NativePpoOptions.model_validate(config.training.params)
    orders, orders_there = _CONTEXT.Pipe()
    reader = _CONTEXT.Process(target=look_on, args=(folder, orders_there), daemon=True)
    reader.start()
    orders_there.close()  # as above
    with (
        closing(assemble(config, options).learner) as learner,
        camera_of(config, options, folder, learner, frames=False) as off,
        camera_of(config, options, folder, learner, frames=True) as on,
    ):
        cameras = {"off": off, "on": on}
        iterations = _iterations(learner, on)
        watched_slice(learner, on, iterations, orders)  # creates the env that draws
        slow_down(learner, cameras, iterations, repeats, None)
        slow_down(learner, cameras, iterations, repeats, orders)
    orders.send("end")
    reader.join()


@contextmanager
def camera_of(
    config: RunConfig, options: NativePpoOptions, folder: Path, learner: Learner, *, frames: bool
) -> Iterator[Camera]:
    """Create a camera as the native worker does."""
    telemetry = config.telemetry.model_copy(update={"frames": frames})
    run = RunFolder(folder)
    with EventWriter(folder / f"frames-{frames}.jsonl", 1) as writer:
        told = config.model_copy(update={"telemetry": telemetry})
        context = WorkerContext(told, options, run, writer, Inbox(lambda *_, **__: None))
        with Camera(context, NativeScene(learner)) as camera:
            yield camera
        context.close_frames(finished=True)


def look_on(folder: Path, orders: Connection) -> None:
    while orders.recv() == "look":
        with FrameReader(folder) as reader:
            reader.look(rate=RATE_HZ)
            orders.send("looking")
            seen = 0
            while not orders.poll(1 / RATE_HZ):
                seen += reader.read() is not None
            orders.recv()
        orders.send(seen)


def _iterations(learner: Learner, camera: Camera) -> int:
    """Return the number of iterations in a slice."""
    _slice(learner, camera, 20)  # triggers compilation
    return max(1, round(20 * SLICE_S / _slice(learner, camera, 20)))


def _slice(learner: Learner, camera: Camera, iterations: int) -> float:
    started = perf_counter()
    for _ in range(iterations):
        learner.iterate()
        camera.glance()
    return perf_counter() - started


def watched_slice(learner: Learner, camera: Camera, iterations: int, reader: Connection) -> tuple[float, int]:
    """Return the seconds, and the number of pictures that the reader got."""
    reader.send("look")
    reader.recv()
    seconds = _slice(learner, camera, iterations)
    reader.send("leave")
    return seconds, reader.recv()


def slow_down(
    learner: Learner, cameras: dict[str, Camera], iterations: int, repeats: int, reader: Connection | None
) -> None:
    slower, pictures, watched_s = [], 0, 0.0
    for _ in range(repeats):
        spent = {"off": 0.0, "on": 0.0}
        for way in TURNS.split():
            if way == "on" and reader is not None:
                seconds, seen = watched_slice(learner, cameras[way], iterations, reader)
                spent[way], pictures = spent[way] + seconds, pictures + seen
            else:
                spent[way] += _slice(learner, cameras[way], iterations)
        watched_s += spent["on"]
        slower.append(100 * (spent["on"] / spent["off"] - 1))
    mean, low, high = estimate_mean(slower)
    assert mean is not None and low is not None and high is not None, "an interval needs two repeats or more"  # noqa: PT018
    who, goal = ("without a viewer", 2) if reader is None else ("with a viewer", 6)
    seen_hz = "" if reader is None else f", which got {pictures / watched_s:.0f} pictures/s"
    load = f"load {getloadavg()[0]:.1f} on {cpu_count()} cores"  # where cores are short, the camera's thread has none
    print(f"training {who}{seen_hz}: {mean:.2f} % slower, 95 %: {low:.2f} to {high:.2f}, {repeats} repeats, {load}")
    say(f"training slow-down, {who}, upper end of 95 %", high, "%", goal)


ROWS: dict[str, Callable[[Path, int], None]] = {
    "publishing": lambda folder, repeats: publishing(folder),
    "asking": lambda folder, repeats: asking(folder),
    "memory": lambda folder, repeats: memory(folder),
    "processes": lambda folder, repeats: between_processes(folder),
    "training": training,
}


def main() -> None:
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)}; none: all")
    asked.add_argument("--repeats", type=int, default=REPEATS, help="of the training slow-down, at least 2")
    asked.add_argument("--quick", action="store_true", help="fewer repeats, loose goals")
    options = asked.parse_args()
    if options.repeats < 2:
        asked.error("--repeats must be at least 2: an interval is printed.")
    if unknown := [name for name in options.rows if name not in ROWS]:
        asked.error(f"there is no row {', '.join(unknown)}. Rows: {', '.join(ROWS)}")
    if options.quick:
        loosen_goals()
    with tempfile.TemporaryDirectory() as name:
        repeats = QUICK_REPEATS if options.quick else options.repeats
        failed = [row for row in options.rows or ROWS if not run_row(row, partial(ROWS[row], Path(name), repeats))]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
