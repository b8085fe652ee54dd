"""Benchmarks of the terminal app: start, redraws of Metrics, CPU time while nothing changes, memory after a long run.

    python benchmarks/tui.py [start] [redraw] [idle] [soak] [--events 1000000] [--policies 100]

Each function prints figures with their limits; a ratio below 1 is within the limit. `start` and `idle` run `mosaic tui`
in a pseudo-terminal of 140×42, as a user does. `soak` writes that many events of a run with that many policies, while
the app shows its curves.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from threading import Thread
from time import monotonic, perf_counter
from typing import cast

import psutil

from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.telemetry.events.writer import EventWriter
from mosaic.ui.tui.app import MosaicTui
from mosaic.ui.tui.backend.local import LocalBackend
from mosaic.ui.tui.charts.chart import Chart
from mosaic.ui.tui.tabs.metrics import MetricsTab

SIZE = (140, 42)
COMMAND = [sys.executable, "-c", "from mosaic.ui.cli.main import main; main()", "tui"]


def show(what: str, value: float, unit: str, limit: float) -> None:
    print(f"{what:<44} {value:8.3g} {unit:<3} limit {limit:g}, ratio {value / limit:.2f}", flush=True)


def made_run(home: Path, policies: int, events: int) -> Run:
    """Return an ended run with curves of its policies."""
    config = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy", "total_timesteps": 10**9}}
    run = Trainer(home).submit(config, start=False)
    run.stop()
    write_events(run, policies, 0, events)
    return run


def write_events(run: Run, policies: int, first: int, number: int) -> None:
    """Write events; each has the reward of one policy, in turn."""
    with EventWriter(run.folder.metrics, attempt=1) as writer:
        for index in range(first, first + number):
            policy = {f"policy_{index % policies}": {"reward_mean": float(index % 97)}}
            writer.report(
                kind="iteration", training_iteration=index, env_steps=index * 100, policies=policy,
                episode_reward_mean=float(index % 89), episode_len_mean=float(index % 53),
            )  # fmt: skip


@contextmanager
def in_terminal(home: Path) -> Iterator[tuple[psutil.Process, int]]:
    """Run the app in a pseudo-terminal; yield its process and the terminal."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
    environ = os.environ | {"MOSAIC_HOME": str(home), "TERM": "xterm-256color"}
    process = subprocess.Popen(COMMAND, stdin=inside, stdout=inside, stderr=inside, env=environ, start_new_session=True)
    os.close(inside)
    try:
        yield psutil.Process(process.pid), terminal
    finally:
        process.terminate()
        read_for(terminal, 1.0)
        process.wait(30)
        os.close(terminal)


def read_for(terminal: int, seconds: float, until: bytes = b"") -> bytes:
    """Return what the app writes, until it writes `until` or the time is over."""
    said, end = b"", monotonic() + seconds
    while (left := end - monotonic()) > 0 and not (until and until in said):
        if select.select([terminal], [], [], left)[0]:
            try:
                said += os.read(terminal, 65_536)
            except OSError:  # the app has ended
                break
    return said


def start(home: Path, repeats: int = 5) -> None:
    """Measure from the start of the process to the first screen, beside the start of Python alone."""
    spent, bare = [], []
    for _ in range(repeats):
        begun = perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(perf_counter() - begun)
        begun = perf_counter()
        with in_terminal(home) as (_, terminal):
            if b"Newest runs" not in read_for(terminal, 60.0, b"Newest runs"):
                raise RuntimeError("the first screen did not appear")
            spent.append(perf_counter() - begun)
    show("start to first screen, median", median(spent), "s", 0.8)
    print(f"  {median(spent) / median(bare):.1f} times a start of Python alone ({median(bare):.3g} s)")


def idle(home: Path, seconds: float = 20.0) -> None:
    """Measure the CPU time of Home with no live run."""
    with in_terminal(home) as (process, terminal):
        read_for(terminal, 10.0)
        before = process.cpu_times()
        read_for(terminal, seconds)
        after = process.cpu_times()
    share = 100 * (after.user + after.system - before.user - before.system) / seconds
    show("CPU of Home without a live run", share, "%", 2.0)


async def _redraws(repeats: int) -> list[float]:
    app = MosaicTui(LocalBackend(print), first_tab="metrics")
    spent = []
    async with app.run_test(size=SIZE) as pilot:
        while not len(app.query(Chart)):
            await pilot.pause(0.1)
        tab = cast(MetricsTab, app.tab)
        for _ in range(repeats):
            begun = perf_counter()
            for chart in tab.query(Chart):
                chart._drawn_for = None  # as if the plot were another one
            for chart in tab.query(Chart):
                chart.refresh()
            app.screen._compositor.render_strips()
            spent.append(perf_counter() - begun)
            await pilot.pause()
    return spent


def redraw(home: Path, repeats: int = 100) -> None:
    """Measure a whole redraw of Metrics, all charts anew."""
    made_run(home, 4, 4000)
    spent = asyncio.run(_redraws(repeats))
    show("redraw of Metrics at 140×42, p95", 1000 * quantiles(spent, n=20)[-1], "ms", 60.0)


async def _soak(run: Run, policies: int, events: int) -> None:
    app = MosaicTui(LocalBackend(print), first_tab="metrics")
    me = psutil.Process()
    async with app.run_test(size=SIZE) as pilot:
        writer = Thread(target=write_events, args=(run, policies, 1000, events))
        writer.start()
        while writer.is_alive():
            await pilot.press("down")
            await pilot.pause(0.5)
        await pilot.pause(2.0)
        show(f"memory after {events:,} events of {policies} policies", me.memory_info().rss / 2**20, "MB", 150.0)
    spent = await _redraws(40)
    show("redraw of Metrics after that, p95", 1000 * quantiles(spent, n=20)[-1], "ms", 60.0)


def soak(home: Path, policies: int, events: int) -> None:
    """Show a run while its events are written, then print memory and redraw time."""
    asyncio.run(_soak(made_run(home, policies, 1000), policies, events))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["start", "redraw", "idle", "soak"])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--policies", type=int, default=100)
    asked = parser.parse_args()
    for part in asked.parts:
        home = Path(tempfile.mkdtemp(prefix="mosaic-tui-"))
        os.environ["MOSAIC_HOME"] = str(home)
        try:
            match part:
                case "start":
                    start(home)
                case "idle":
                    idle(home)
                case "redraw":
                    redraw(home)
                case "soak":
                    soak(home, asked.policies, asked.events)
                case _:
                    parser.error(f"There is no part {part!r}; there are: start, redraw, idle, soak.")
        finally:
            shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
