"""Cost of each part: events, pictures, the store, the policy server with many episodes, env runners and driver."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import gymnasium
import numpy as np
from fastlane import LARGE, fastest, picture
from inference import sb3_model
from rllib_rows.asking import ask
from rllib_rows.speed import CARTPOLE, SPREAD
from serving import WAYS, measure, server

from mosaic.config.loading import parse_run_config
from mosaic.store.checkpoint_record import CheckpointContents, PolicyEntry
from mosaic.store.checkpoints import write_checkpoint
from mosaic.store.store import Store
from mosaic.telemetry.events.reader import read_events
from mosaic.telemetry.events.writer import EventWriter
from mosaic.telemetry.frames.writer import FrameWriter
from mosaic.telemetry.pictures.message import encoded
from runs import fields

EVENTS, CLIENTS = 20_000, 100
WEIGHTS_BYTES = 100_000


def run_costs(folder: Path) -> dict[str, float]:
    """Measure what a run does beside learning: reports, pictures, checkpoints, its place in the store.

    The picture whose copy is measured is random; that which is drawn and encoded is CartPole's, as a viewer sees it.
    """
    path = folder / "metrics.jsonl"
    with EventWriter(path, attempt=1) as writer:
        report_s = _seconds(lambda: [writer.report(**fields(index)) for index in range(EVENTS)], 5) / EVENTS
    events = 5 * EVENTS
    read_s = _seconds(lambda: sum(1 for _ in read_events(path)), 3) / events
    frames = folder / "frames"
    frames.mkdir()
    with FrameWriter(frames) as camera:
        rgb = picture(LARGE)
        calls: dict[str, Callable[[], object]] = {"publish": lambda: camera.publish(rgb), "wanted": camera.wanted}
        frame_s = fastest(calls, times=20, slices=20)
    game = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    game.reset(seed=0)
    drawn = np.ascontiguousarray(game.render())
    draw_s, encode_s = _seconds(game.render, 50), _seconds(lambda: encoded(drawn), 20)
    game.close()  # type: ignore[no-untyped-call]
    store = Store(folder / "home")
    config = parse_run_config({"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy"}})
    create_s = _seconds(lambda: store.create(config), 20)
    run = store.create(config)
    steps = iter(range(1, 1000))

    def checkpoint() -> None:
        contents = CheckpointContents(next(steps), 1, {"main": PolicyEntry(files=("weights",))}, pickles=False)
        write_checkpoint(run, contents, lambda place: _fill(place / "weights"))

    return {
        "report_us": 1e6 * report_s,
        "event_bytes": path.stat().st_size / events,
        "read_us": 1e6 * read_s,
        "publish_us": 1e6 * frame_s["publish"],
        "wanted_us": 1e6 * frame_s["wanted"],
        "draw_us": 1e6 * draw_s,
        "encode_us": 1e6 * encode_s,
        "checkpoint_ms": 1e3 * _seconds(checkpoint, 20, perf_counter),
        "checkpoint_cpu_ms": 1e3 * _seconds(checkpoint, 20),
        "create_ms": 1e3 * create_s,
        "index_ms": 1e3 * _seconds(lambda: store.index.refresh(run), 20),
    }


def _fill(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(WEIGHTS_BYTES))


def server_costs(folder: Path, counts: tuple[int, ...], core: int, other: int, seconds: float) -> dict[str, Any]:
    """Measure decisions of 64 clients, then of many open episodes over CLIENTS connections.

    The server runs on one core and the clients on another.
    """
    sb3_model().save(folder / "model.zip")
    command = [sys.executable, "-m", "mosaic", "policy-server", f"sb3:{folder / 'model.zip'}", "--port", "0"]
    most = sum(counts) + 64 * 2  # those over HTTP stay open, those of closed connections for a moment
    command += ["--env", "gym/CartPole-v1", "--max-episodes", str(most)]
    ways = {"ws_us": "Mosaic, WebSocket, binary", "http_us": "Mosaic, HTTP"}
    found: dict[str, Any] = {}
    many: dict[str, dict[str, float]] = {}
    with server(command, folder, core) as place:
        token = (folder / "home" / "token").read_text().strip()
        for key, way in ways.items():
            found[key] = measure(WAYS[way], place, token, 64, seconds, other)["cpu_us"]
        before = _resident(place[1])
        for count in sorted(counts):
            way = {**WAYS[ways["ws_us"]], "episodes": count // CLIENTS}
            row = measure(way, place, token, CLIENTS, seconds, other)
            row["episode_bytes"] = (_resident(place[1]) - before) / count
            many[str(count)] = row
    largest = many[str(max(counts))]
    found["start_us"] = largest["opening_us"]
    found["episode_bytes"] = largest["episode_bytes"]
    return {"server": found, "measured_episodes": many}


def _resident(pid: int) -> int:
    """Return the most memory, in bytes, that a process has used so far."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def runner_costs(counts: tuple[int, ...], iterations: int) -> dict[str, Any]:
    """Measure one env runner of RLlib, part by part, and then iterations with several on this machine."""
    one = {"runners": 1, "seed": 0, "steps": 0}
    probed = {
        name: ask("scale_probe.py", {**question, **one})
        for name, question in (("cartpole", CARTPOLE), ("spread", SPREAD))
    }
    batch = CARTPOLE["training"]["train_batch_size_per_learner"]
    speeds = {}
    for count in counts:
        training = {**CARTPOLE["training"], "train_batch_size_per_learner": batch * count}
        steps = iterations * batch * count
        said = ask("by_hand.py", {**CARTPOLE, "training": training, "runners": count, "seed": 0, "steps": steps})
        speeds[str(count)] = {"per_s": said["steps"] / said["wall_s"], "us": 1e6 * said["cpu_s"] / said["steps"]}
    return {"runners": probed, "measured_runners": speeds}


def _seconds(what: Callable[[], object], repeats: int, clock: Callable[[], float] = process_time) -> float:
    seen = []
    for _ in range(repeats):
        began = clock()
        what()
        seen.append(clock() - began)
    return median(seen)
