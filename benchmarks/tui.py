"""Benchmarks of the terminal app: start, redraws of Metrics, CPU time while nothing changes, memory after a long run.

    python benchmarks/tui.py [start] [redraw] [idle] [soak] [--events 1000000] [--policies 100] [--quick]

Each function prints figures with their limits; a ratio below 1 is within the limit. Beside the time by the clock stands
the CPU time, which other work on the machine changes less. `start` and `idle` run `mosaic tui` in a pseudo-terminal of
140×42, as a user does; `idle` first without a run, then with a live one (native PPO, CartPole) on Home and on Metrics.
`soak` writes that many events of a run with that many policies, in another process, while the app shows its curves.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, perf_counter, process_time
from typing import cast

import psutil
from figures import Goal, loosen_goals, note_figure
from row_table import run_row
from textual._compositor import CompositorUpdate

from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.telemetry.events.writer import EventWriter
from mosaic.ui.tui.app import MosaicTui
from mosaic.ui.tui.backend.local import LocalBackend
from mosaic.ui.tui.charts.chart import Chart
from mosaic.ui.tui.tabs.metrics import MetricsTab

Process = get_context("spawn").Process  # a worker process has no memory of the app either
SIZE = (140, 42)
QUICK_EVENTS = 100_000
COMMAND = [sys.executable, "-c", "from mosaic.ui.cli.main import main; main()", "tui"]


def show(what: str, values: Sequence[float], unit: str, limit: float) -> None:
    """Print the median of the repeats."""
    note_figure(what, unit, values, Goal("at most", limit, fixed=unit == "MB"))
    value = median(values)
    print(f"{what:<44} {value:8.3g} {unit:<3} limit {limit:g}, ratio {value / limit:.2f}", flush=True)


def made_run(home: Path, policies: int, events: int) -> Run:
    """Return an ended run with curves of its policies."""
    config = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy", "total_timesteps": 10**9}}
    run = Trainer(home).submit(config, start=False)
    run.stop()
    write_events(run.folder.metrics, policies, 0, events)
    return run


def write_events(metrics: Path, policies: int, first: int, number: int) -> None:
    """Write events; each has the reward of one policy, in turn, and every hundredth that of all."""
    with EventWriter(metrics, attempt=1) as writer:
        for index in range(first, first + number):
            of = range(policies) if index % 100 == 0 else [index % policies]
            policy = {f"policy_{number}": {"reward_mean": float((index + number) % 97)} for number in of}
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
    spent, bare, cpu = [], [], []
    for _ in range(repeats):
        begun = perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(perf_counter() - begun)
        begun = perf_counter()
        with in_terminal(home) as (process, terminal):
            if b"Newest runs" not in read_for(terminal, 60.0, b"Newest runs"):
                raise RuntimeError("the first screen did not appear")
            spent.append(perf_counter() - begun)
            cpu.append(cpu_s(process))
    show("start to first screen", spent, "s", 0.8)
    show("  CPU time until then", cpu, "s", 0.8)
    print(f"  {median(spent) / median(bare):.1f} times a start of Python alone ({median(bare):.3g} s)")


def cpu_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return used.user + used.system


def idle(home: Path, seconds: float = 15.0) -> None:
    """Measure the CPU time of the app while it is not used, without a run and with a live one."""
    _idle(home, "CPU of Home without a live run", b"", seconds, 2.0)
    config = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "native", "total_timesteps": 10**9}}
    run = Trainer(home).submit(config)
    try:
        _idle(home, "CPU of Home with a live run", b"", seconds, 6.0)
        _idle(home, "CPU of Metrics with a live run", b"3", seconds, 6.0)
    finally:
        run.stop()


def _idle(home: Path, what: str, keys: bytes, seconds: float, limit: float) -> None:
    with in_terminal(home) as (process, terminal):
        read_for(terminal, 60.0, b"Newest runs")
        os.write(terminal, keys)
        read_for(terminal, 10.0)
        before, begun = cpu_s(process), perf_counter()
        read_for(terminal, seconds)
        share = 100 * (cpu_s(process) - before) / (perf_counter() - begun)
    show(what, [share], "%", limit)


async def _redraws(repeats: int) -> tuple[list[float], list[float]]:
    """Return wall and CPU times of whole redraws: new plots, all charts drawn, and the bytes for the terminal."""
    app = MosaicTui(LocalBackend(print), first_tab="metrics")
    spent, cpu = [], []
    async with app.run_test(size=SIZE) as pilot:
        while not len(app.query(Chart)):
            await pilot.pause(0.1)
        tab = cast(MetricsTab, app.tab)
        await pilot.pause(1.0)
        for reader in tab._readers:
            reader.rest()  # only redraws are measured
        for _ in range(repeats):
            charts = list(tab.query(Chart))
            begun, before = perf_counter(), process_time()
            for chart in charts:
                chart.show(replace(chart.plot))
            update = app.screen._compositor.render_update(full=True)
            if isinstance(update, CompositorUpdate):
                update.render_segments(app.console)
            spent.append(perf_counter() - begun)
            cpu.append(process_time() - before)
            await pilot.pause()
    return spent, cpu


def show_redraws(when: str, spent: list[float], cpu: list[float]) -> None:
    show(f"redraw of Metrics {when}, p95", [1000 * quantiles(spent, n=20)[-1]], "ms", 60.0)
    show("  CPU time of it, p95", [1000 * quantiles(cpu, n=20)[-1]], "ms", 60.0)


def redraw(home: Path, repeats: int = 100) -> None:
    """Measure a whole redraw of Metrics: four charts, the first with a curve per policy."""
    made_run(home, 4, 4000)
    show_redraws("at 140×42", *asyncio.run(_redraws(repeats)))


async def _soak(run: Run, policies: int, events: int) -> None:
    app = MosaicTui(LocalBackend(print), first_tab="metrics")
    me = psutil.Process()
    most = 0
    writing = Process(target=write_events, args=(run.folder.metrics, policies, 1000, events))
    writing.start()
    async with app.run_test(size=SIZE) as pilot:
        while writing.is_alive():
            await pilot.press("down")
            await pilot.pause(0.5)
            most = max(most, me.memory_info().rss)
        await pilot.pause(2.0)
    size = run.folder.metrics.stat().st_size / 2**20
    print(f"{events:,} events of {policies} policies, {size:,.0f} MB")
    show("memory while they are written, most", [most / 2**20], "MB", 150.0)
    show("memory after that", [me.memory_info().rss / 2**20], "MB", 150.0)
    show_redraws("after that", *await _redraws(40))


def soak(home: Path, policies: int, events: int) -> None:
    """Show a run while its events are written, then print memory and redraw time."""
    asyncio.run(_soak(made_run(home, policies, 1000), policies, events))


ROWS: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "start": lambda home, asked: start(home),
    "redraw": lambda home, asked: redraw(home),
    "idle": lambda home, asked: idle(home, 5.0 if asked.quick else 15.0),
    "soak": lambda home, asked: soak(home, asked.policies, QUICK_EVENTS if asked.quick else asked.events),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)}; none: all")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--policies", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="shorter, with a goal for memory only")
    asked = parser.parse_args()
    if unknown := [name for name in asked.rows if name not in ROWS]:
        parser.error(f"there is no row {', '.join(unknown)}. Rows: {', '.join(ROWS)}")
    if asked.quick:
        loosen_goals()
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    failed = []
    for row in asked.rows or ROWS:
        home = Path(tempfile.mkdtemp(prefix="mosaic-tui-"))
        os.environ["MOSAIC_HOME"] = str(home)
        try:
            failed += [] if run_row(row, partial(ROWS[row], home, asked)) else [row]
        finally:
            shutil.rmtree(home, ignore_errors=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
