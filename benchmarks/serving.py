"""Decisions per second and their latency: a policy server, RLlib's external inference, SB3 `predict` behind HTTP.

    python benchmarks/serving.py [--measure-s 3] [--quick]

One network (4-64-64-2, tanh) of an SB3 PPO for CartPole is served by

- `mosaic policy-server` over its WebSocket (JSON and MessagePack) and over HTTP,
- SB3's own `predict` behind a minimal asyncio HTTP server, without tokens or checks,
- RLlib's PPO module with the same weights behind that server. RLlib's own server for external inference (RLlink, Ray
  2.60) never chooses an action: its one client fetches the weights and acts itself, and its earlier
  `PolicyServerInput`, which did, is not part of Ray any more. So the module is given the server that costs least.

The server has one core, the clients (1 and 64, each waiting for its action before it asks again) another. Servers take
turns, and the median of the rounds counts. «CPU µs» is the server's own CPU time per decision, which depends less than
the other columns on what else the machine does. With 64 clients that never pause, latency is 64 / decisions per second;
the row «paced» has 64 clients that together ask 5,000 times per second, as games with a clock do. On a machine with
other work, `chrt -f 1 python benchmarks/serving.py` (as root) keeps that work from counting.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from figures import at_least, at_most, loosen_goals, note_figure, note_ratio, note_skipped
from inference import sb3_model
from ppo_rows.measure import keep_on, usable_cores
from row_table import ONE_THREAD, TO_INSTALL

from mosaic.policies.serving.messages import encode

HERE = Path(__file__).parent
LEAST_PER_S, MOST_P99_MS, PACE_PER_S = 5000.0, 5.0, 5000.0
OBSERVATION = [0.1, 0.2, 0.3, 0.4]
QUESTION = {"call": "get_action", "episode_id": "EPISODE_ID__", "observation": OBSERVATION}
PACKED = encode({**QUESTION, "observation": np.array(OBSERVATION, np.float32)}, binary=True)
PLAIN = {"start": "", "start_path": "", "path": "/act", "question": json.dumps(OBSERVATION), "expect": "action"}
STREAM = {"way": "ws", "start": '{"call": "start_episode"}', "start_path": "", "path": "/policy/stream"}
WAYS: dict[str, dict[str, Any]] = {
    "Mosaic, WebSocket, binary": {**STREAM, "server": "mosaic", "question": "", "packed": PACKED.hex()},
    "Mosaic, WebSocket, JSON": {**STREAM, "server": "mosaic", "question": json.dumps(QUESTION)},
    "Mosaic, HTTP": {
        "server": "mosaic",
        "way": "http",
        "start": "{}",
        "start_path": "/policy/start_episode",
        "path": "/policy/get_action",
        "question": json.dumps({key: value for key, value in QUESTION.items() if key != "call"}),
    },
    "SB3 predict, HTTP": {**PLAIN, "server": "sb3", "way": "http"},
    "RLlib module, HTTP": {**PLAIN, "server": "rllib", "way": "http"},
}


def ways_here() -> dict[str, dict[str, Any]]:
    """Return the ways whose server can start here; the report says of the others what to type."""
    if find_spec("ray") is not None:
        return WAYS
    reason = f"ray is not installed. Type: {TO_INSTALL}"
    missing = [what for what, way in WAYS.items() if way["server"] == "rllib"]
    for what in missing:
        note_skipped(f"decisions beside {what}", reason, "ray")
        print(f"{what}: {reason}", flush=True)
    return {what: way for what, way in WAYS.items() if what not in missing}


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), "MOSAIC_HOME": str(folder / "home")}


@contextmanager
def server(command: list[str], folder: Path, core: int) -> Iterator[tuple[str, int]]:
    """Start a server on one core; yield its address, which is the last word of its first line, and its process id."""
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment(folder), preexec_fn=lambda: keep_on({core})
    )
    assert started.stdout is not None
    try:
        line = started.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(command)} did not start")
        yield line.split()[-1], started.pid
    finally:
        started.terminate()
        started.communicate()


def measure(
    way: dict[str, Any], place: tuple[str, int], token: str, clients: int, seconds: float, core: int
) -> dict[str, float]:
    address, pid = place
    host, _, port = address.removeprefix("http://").partition(":")
    asked = {"expect": "action", "kind": "application/json", "token": token, **way, "host": host, "port": int(port)}
    asked |= {"clients": clients, "warm_s": seconds / 3, "measure_s": seconds, "pid": pid}
    command = [sys.executable, str(HERE / "serving_rows" / "load.py"), str(core)]
    said = subprocess.run(command, input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(said.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure-s", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short round, no goals")
    asked = parser.parse_args()
    if asked.quick:
        loosen_goals()
    rounds, seconds = (1, 0.5) if asked.quick else (asked.rounds, asked.measure_s)
    cores = sorted(usable_cores())
    theirs, ours = cores[0], cores[-1]
    print(f"{len(cores)} cores, load {', '.join(f'{load:.1f}' for load in os.getloadavg())}; medians of {rounds}")
    found: dict[tuple[str, int, float], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        sb3_model().save(folder / "model.zip")
        mosaic = [sys.executable, "-m", "mosaic", "policy-server", f"sb3:{folder / 'model.zip'}", "--port", "0"]
        plain = [sys.executable, str(HERE / "serving_rows" / "plain_server.py"), str(folder / "model.zip")]
        commands = {
            "mosaic": [*mosaic, "--env", "gym/CartPole-v1"],
            "sb3": [*plain, "sb3"],
            "rllib": [*plain, "rllib"],
        }
        ways = ways_here()
        started = dict.fromkeys(way["server"] for way in ways.values())
        places = {key: running.enter_context(server(commands[key], folder, ours)) for key in started}
        token = (folder / "home" / "token").read_text().strip()
        plans = [(1, 0.0), (64, 0.0), (64, PACE_PER_S)]
        for _ in range(rounds):
            for what, way in ways.items():
                for clients, pace in plans:
                    if pace and not what.startswith("Mosaic, WebSocket"):
                        continue
                    figures = measure({**way, "per_s": pace}, places[way["server"]], token, clients, seconds, theirs)
                    found.setdefault((what, clients, pace), []).append(figures)
    best = {key: {name: median(each[name] for each in rows) for name in rows[0]} for key, rows in found.items()}
    print(f"{'':28}{'clients':>8}{'decisions/s':>13}{'p50 ms':>9}{'p99 ms':>9}{'CPU µs':>9}")
    for (what, clients, pace), row in best.items():
        count = f"{clients} paced" if pace else str(clients)
        print(f"{what:28}{count:>8}{row['per_s']:13,.0f}{row['p50_ms']:9.2f}{row['p99_ms']:9.2f}{row['cpu_us']:9.1f}")
    speeds = {
        what: [row["per_s"] for row in rows]
        for (what, clients, pace), rows in found.items()
        if clients == 64 and not pace
    }
    stream = speeds["Mosaic, WebSocket, binary"]
    note_figure("decisions over WebSocket, 64 clients", "/s", stream, at_least(LEAST_PER_S))
    for ours_, words in (("Mosaic, HTTP", "HTTP"), ("Mosaic, WebSocket, binary", "WebSocket")):
        for what in (what for what, way in ways.items() if way["server"] != "mosaic"):
            note_ratio(f"decisions over {words}, 64 clients", "/s", speeds[ours_], speeds[what], what)
    paced = [row["p99_ms"] for row in found["Mosaic, WebSocket, binary", 64, PACE_PER_S]]
    note_figure(f"p99 over WebSocket, 64 clients at {PACE_PER_S:,.0f}/s", "ms", paced, at_most(MOST_P99_MS))
    if not asked.quick:
        check(best)


def check(best: dict[tuple[str, int, float], dict[str, float]]) -> None:
    stream = "Mosaic, WebSocket, binary"
    per_s, p99 = best[stream, 64, 0.0]["per_s"], best[stream, 64, PACE_PER_S]["p99_ms"]
    if per_s < LEAST_PER_S or p99 > MOST_P99_MS:
        sys.exit(
            f"missed: {per_s:,.0f} decisions/s over WebSocket (goal {LEAST_PER_S:,.0f}), "
            f"p99 {p99:.1f} ms for 64 clients at {PACE_PER_S:,.0f}/s (goal {MOST_P99_MS:g} ms)"
        )


if __name__ == "__main__":
    main()
