"""Cost of runs: reports, storing events with a reader attached, a chart of a million events, starts, lists, the demo.

    python benchmarks/runs.py [ROW …]

Each function prints a figure, its limit and their ratio (below 1 is within the limit), and returns the figure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, time
from typing import Any

from figures import Goal, loosen_goals, note_figure
from ppo_rows.measure import gate
from row_table import run_row

from mosaic.config.loading import parse_run_config
from mosaic.runs.trainer import Trainer
from mosaic.store.store import Store
from mosaic.telemetry.curves.curves import Curves
from mosaic.telemetry.events.writer import EventWriter

READER = """
import sys
from pathlib import Path
from mosaic.telemetry.events.reader import follow
last, count = int(sys.argv[2]), 0
print("ready", flush=True)
for event in follow(Path(sys.argv[1]), poll_s=0.01):
    count += 1
    assert event["seq"] == count
    if count == last:
        break
print(count, flush=True)
"""


def fields(index: int) -> dict[str, Any]:
    """Return an iteration event of the size that learners write: about 400 bytes."""
    return {
        "training_iteration": index,
        "env_steps": index * 100,
        "agent_steps": index * 200,
        "episodes_total": index // 3,
        "episode_reward_mean": 1.25 + index % 997,
        "episode_reward_min": -0.5,
        "episode_reward_max": 3.25,
        "episode_len_mean": 33.125,
        "env_steps_per_s": 123456.75,
        "time_split": {"env": 0.25, "inference": 0.125, "learning": 0.5},
        "policies": {"main": {"reward_mean": 1.25, "learner": {"loss": 0.33 / (index + 1), "entropy": 0.875}}},
        "custom_metrics": {"distance": 17.5},
    }


def show(what: str, figures: Sequence[float], unit: str, limit: float, at_least: bool = False) -> float:
    """Print and return the median of the repeats."""
    figure = median(figures)
    note_figure(what, unit, figures, Goal("at least" if at_least else "at most", limit))
    ratio = limit / figure if at_least else figure / limit
    bound = "at least" if at_least else "at most"
    print(f"{what:52}{figure:14,.2f} {unit:9} {bound} {limit:10,.2f}   ratio {ratio:6.3f}", flush=True)
    return figure


def report_cost(folder: Path, events: int = 100_000, slices: int = 10) -> float:
    """Measure the microseconds of one `report()`: the median of the slices' means."""
    event, means = fields(1000), []
    with EventWriter(folder / "report.jsonl", attempt=1) as writer:
        for _ in range(slices):
            start = perf_counter()
            for _ in range(events // slices):
                writer.report(**event)
            means.append((perf_counter() - start) / (events // slices) * 1e6)
    return show("cost of one report()", means, "µs", 20)


def stored_per_second(folder: Path, events: int = 300_000) -> float:
    """Measure events per second from the first report until another process has read all, in order, once each."""
    path = folder / "stored.jsonl"
    with EventWriter(path, attempt=1) as writer:
        reader = subprocess.Popen(
            [sys.executable, "-c", READER, str(path), str(events)], stdout=subprocess.PIPE, text=True
        )
        assert reader.stdout is not None
        reader.stdout.readline()
        event, start = fields(1000), perf_counter()
        for _ in range(events):
            writer.report(**event)
        stored = perf_counter() - start
        seen = int(reader.stdout.readline())
        read = perf_counter() - start
    reader.wait()
    gate(seen == events, f"the reader saw {seen} of {events} events")
    show("events read per second by the attached reader", [events / read], "events/s", 50_000, at_least=True)
    return show("events stored per second, reader attached", [events / stored], "events/s", 50_000, at_least=True)


def chart_query(folder: Path, events: int = 1_000_000) -> float:
    """Measure a chart over a long run: column cache built from scratch, read by a new reader, and queried again."""
    run = folder / "long-run"
    run.mkdir()
    with (run / "metrics.jsonl").open("wb") as file:
        for index in range(events):
            event = {"kind": "iteration", "seq": index + 1, "attempt": 1, "timestamp": 1.7e9 + index, **fields(index)}
            file.write(json.dumps(event).encode() + b"\n")

    def ask(curves: Curves) -> None:
        assert curves.query("episode_reward_mean").high.max() == 997.25

    cold = _seconds(lambda: ask(Curves(run)))
    opened = [_seconds(lambda: ask(Curves(run))) for _ in range(5)]
    curves = Curves(run)
    ask(curves)
    again = [_seconds(lambda: ask(curves)) for _ in range(5)]
    size = os.path.getsize(run / "metrics.jsonl") / 1e6
    label = f"chart of {events / 1e6:g} M events"
    print(f"{f'{label}, no cache yet ({size:,.0f} MB of JSON)':52}{cold:14.3f} s")
    show(f"{label}, asked again by the same reader", again, "s", 0.2)
    return show(f"{label}, cache warm, new reader", opened, "s", 0.2)


def start_of_a_run(home: Path, repeats: int = 9) -> float:
    """Measure the time from the request to the worker's first instruction. Gate: it has trained."""
    trainer = Trainer(home)
    seconds = []
    for seed in range(repeats):
        asked = time()
        config = {
            "environment": {"env_id": "gym/CartPole-v1"},
            "training": {"worker": "toy", "total_timesteps": 1000},
            "seed": seed,
        }
        run = trainer.submit(config)
        gate(run.wait(60) == "finished", f"the run {run.id} {run.state}: {run.reason}")
        events = list(run.events())
        steps = [event["env_steps"] for event in events if event["kind"] == "iteration"]
        gate(steps == list(range(100, 1001, 100)), "the toy did not train")
        seconds.append(next(event["timestamp"] for event in events if event["kind"] == "started") - asked)
    return show("start of a run, median (toy worker)", seconds, "s", 0.7)


def list_of_runs(home: Path, runs: int = 1000, repeats: int = 5) -> float:
    """Measure `mosaic runs list` as a command, process start included."""
    store = Store(home)
    config = parse_run_config({"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy"}})
    for _ in range(runs):
        store.create(config)
    command = [sys.executable, "-m", "mosaic", "runs", "list", "--json"]
    environment = {**os.environ, "MOSAIC_HOME": str(home)}

    def ask() -> int:
        answer = subprocess.run(command, env=environment, capture_output=True, check=True)
        return len(json.loads(answer.stdout))

    gate(ask() == runs, "the list is not whole")
    return show(
        f"mosaic runs list, {runs:,} runs", [_seconds(lambda: ask() and None) for _ in range(repeats)], "s", 0.5
    )


def compiling_for_the_demo(home: Path, repeats: int = 3) -> float:
    """Measure the seconds that `mosaic demo` compiles on a fresh machine: with an empty cache, less with a full one."""
    command = [sys.executable, "-m", "mosaic", "demo"]
    seconds: dict[str, list[float]] = {"empty": [], "full": []}
    for repeat in range(repeats):
        own = {"MOSAIC_HOME": str(home), "XDG_CACHE_HOME": str(home / f"cache-{repeat}")}
        environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | own
        for cache in seconds:
            demo = partial(subprocess.run, command, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
            seconds[cache].append(_seconds(lambda demo=demo: demo(check=True) and None))
    print(f"{'mosaic demo with an empty cache, median':52}{median(seconds['empty']):14.3f} s")
    spent = [empty - full for empty, full in zip(seconds["empty"], seconds["full"], strict=True)]
    return show("compiling for mosaic demo, caches empty", spent, "s", 20)


def _seconds(call: Callable[[], None]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


ROWS: dict[str, Callable[[Path], object]] = {
    "report": report_cost,
    "events": stored_per_second,
    "chart": chart_query,
    "start": start_of_a_run,
    "list": list_of_runs,
    "demo": compiling_for_the_demo,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)}; none: all")
    parser.add_argument("--quick", action="store_true", help="no goals in seconds, which are those of a fast machine")
    arguments = parser.parse_args()
    chosen = arguments.rows
    if arguments.quick:
        loosen_goals()
    unknown = [name for name in chosen if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}. Rows: {', '.join(ROWS)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen or ROWS:
            (Path(folder) / name).mkdir()
        failed = [name for name in chosen or ROWS if not run_row(name, partial(ROWS[name], Path(folder) / name))]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
