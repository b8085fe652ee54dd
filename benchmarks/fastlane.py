"""What showing pictures costs: publishing a frame, getting it to another process, memory, asking whether to draw.

    python benchmarks/fastlane.py

Publishing and bare copies (`np.copyto`) are alternated in slices, and the fastest slice of each is compared: noise only
adds. A bare copy is measured into one private array, which stays in the cache, and into four in turn, as a ring must.
Ways to another process send the same frames in rounds that take turns; the median round counts. A frame has arrived
when the other process has it as an array and said so.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.telemetry.fastlane import FrameWriter
from mosaic.telemetry.fastlane_place import lane_paths
from mosaic.telemetry.fastlane_reader import FrameReader

SMALL, LARGE = (84, 84, 3), (480, 640, 3)
FRAMES, ROUNDS = 200, 9
Picture = NDArray[np.uint8]
_CONTEXT = multiprocessing.get_context("spawn")


def say(what: str, figure: float, limit: float) -> None:
    print(f"{what:<62}{figure:>10.4g}   goal {limit:g}   {figure / limit:.2f} of it")


def picture(shape: tuple[int, ...]) -> Picture:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def fastest(calls: dict[str, Callable[[], object]], times: int, slices: int = 60) -> dict[str, float]:
    """Seconds per call."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(slices):
        for name, call in calls.items():
            start = perf_counter()
            for _ in range(times):
                call()
            best[name] = min(best[name], (perf_counter() - start) / times)
    return best


def publishing(folder: Path, shape: tuple[int, ...]) -> None:
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
    say(f"publish {size} / bare copy into one array", cost["publish"] / cost["copy"], 1.5)
    say(f"publish {size} / bare copy into four in turn", cost["publish"] / cost["copy in turn"], 1.5)


def asking(folder: Path) -> None:
    with FrameWriter(folder) as writer, FrameReader(folder) as reader:
        say("wanted(), nobody looks, µs", fastest({"": writer.wanted}, 5000)[""] * 1e6, 1)
        reader.look()
        say("wanted(), somebody looks, µs", fastest({"": writer.wanted}, 5000)[""] * 1e6, 1)


def memory(folder: Path) -> None:
    with FrameWriter(folder) as writer:
        writer.publish(picture(LARGE))
        say("shared memory at 640×480, MB", lane_paths(folder)[0].stat().st_blocks * 512 / 1e6, 4)


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
        cost: dict[str, list[float]] = {way: [] for way in gives}
        for _ in range(ROUNDS):
            for way, give in gives.items():
                cost[way].append(_round(way, give, rgb, answers))
        answers.send("end")
        other.join()
    ring, by_pipe, by_queue = (median(cost[way][1:]) * 1e6 for way in gives)
    print(f"640×480 to another process: ring {ring:.0f} µs, Pipe {by_pipe:.0f} µs, Queue {by_queue:.0f} µs")
    say("Pipe / ring (more is better)", by_pipe / ring, 3)
    say("Queue / ring (more is better)", by_queue / ring, 3)


def _round(way: str, give: Callable[[Picture], None], rgb: Picture, answers: Connection) -> float:
    answers.send(way)
    answers.recv()
    start = perf_counter()
    for _ in range(FRAMES):
        give(rgb)
        answers.recv_bytes()
    return (perf_counter() - start) / FRAMES


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        publishing(folder, SMALL)
        publishing(folder, LARGE)
        asking(folder)
        memory(folder)
        between_processes(folder)


if __name__ == "__main__":
    main()
