"""Benchmarks of the web app: pictures and their delay, key latency, many long curves, many idle viewers.

    python benchmarks/web.py [pictures] [keys] [curves] [viewers] [--quick]

Needs Chromium and Playwright. Each function prints figures with their limits (a ratio below 1 is
within the limit) and measures in the page itself: exactly the code that a user's browser runs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import numpy as np
import psutil
from figures import at_most, loosen_goals, note_figure, note_skipped
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright
from ppo_rows.measure import Unmeasured, gate
from row_table import run_row
from websockets.asyncio.client import ClientConnection, connect

from mosaic.runs.monitoring import prepare_curves
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.run_folder import RunFolder
from mosaic.telemetry.events.writer import EventWriter

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
TO_INSTALL = "Chromium is not installed. It is a package of the system. Type: sh scripts/system-packages.sh"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
NEW, KNOWN = "a new browser", "a browser that knows the app"
VIEWPORT: ViewportSize = {"width": 1440, "height": 900}

WRITER = """
import sys
from pathlib import Path
from threading import Event
import numpy as np
from mosaic.telemetry.frames.writer import FrameWriter
chance, pause = np.random.default_rng(0), Event()
pictures = []
for shift in range(32):  # a game's picture: large areas, some texture, something that moves
    picture = np.full((480, 640, 3), 60, np.uint8)
    picture[300:] = (90, 140, 70)
    picture[:100, :, 2] += chance.integers(0, 60, (100, 640), np.uint8)
    picture[200:260, 16 * shift : 16 * shift + 60] = (220, 60, 40)
    pictures.append(picture)
with FrameWriter(Path(sys.argv[1])) as lane:
    for step in range(10**9):
        lane.publish(pictures[step % 32], step=step)
        pause.wait(1 / 120)
"""

# The page's own socket and canvas, instrumented to record when each picture was written and when it was drawn.
NOTE_PICTURES = """
const written = [], Plain = WebSocket, draw = CanvasRenderingContext2D.prototype.drawImage;
window.delays = [];
window.WebSocket = class extends Plain {
  constructor(address, ...rest) {
    super(String(address).replace(/rate=[\\d.]+/, "rate=RATE"), ...rest);
    if (String(address).includes("/frames")) this.addEventListener("message", ({ data }) => {
      const size = new DataView(data).getUint32(1, true);  // after the version, see telemetry/pictures/message.py
      const facts = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 5, size)));
      if (data.byteLength > 5 + size) written.push(facts.wall_time * 1000);
    });
  }
};
CanvasRenderingContext2D.prototype.drawImage = function (image, ...rest) {
  draw.call(this, image, ...rest);
  const now = performance.timeOrigin + performance.now();
  if (image instanceof ImageBitmap && written.length) window.delays.push(now - written.shift());
};
"""

# From the key event in the page until the page learns of the env step it caused: an upper bound of key → action.
NOTE_KEYS = """
const Plain = WebSocket;
window.delays = [];
let pressed = null, step = null;
addEventListener("keydown", () => (pressed = performance.now()), true);
window.WebSocket = class extends Plain {
  constructor(...all) {
    super(...all);
    if (String(all[0]).includes("/stream")) this.addEventListener("message", ({ data }) => {
      if (typeof data !== "string") return;
      const now = JSON.parse(data).step;
      if (pressed !== null && step !== null && now > step) {
        window.delays.push(performance.now() - pressed);
        pressed = null;
      }
      step = now;
    });
  }
};
"""

# True when the first chart has this many lines of many points, and its canvas has pixels of this many of the colours.
DRAWN = """([curves, colours]) => {
  const element = document.querySelector(".nicegui-echart");
  const chart = element && getElement(element)?.chart;
  const lines = chart?.getModel()?.getSeriesByType("line") ?? [];
  if (lines.filter((line) => line.getData()?.count() > 100).length !== curves) return false;
  const canvas = element.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return [...Array(colours).keys()].every((number) => {
    const colour = getComputedStyle(document.body).getPropertyValue(`--s${number + 1}`).trim();
    const wanted = colour.match(/\\w\\w/g).map((digits) => parseInt(digits, 16));
    const off = (i) => wanted.reduce((sum, value, k) => sum + Math.abs(data[i + k] - value), 0);
    let found = 0;
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200 && off(i) < 40) found += 1;
    return found > 30;
  });
}"""
LOOK_AGAIN_MS = 20  # polling at the frame rate would keep the browser busy


class Server(NamedTuple):
    process: psutil.Process
    url: str
    token: str
    home: Path

    def ask(self, path: str, **document: Any) -> dict[str, Any]:
        told = {"Authorization": f"Bearer {self.token}"}
        answer = httpx.post(f"{self.url}{path}", json=document, headers=told, timeout=60).raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def open(self, browser: Browser, path: str, script: str = "") -> Page:
        page = browser.new_page(viewport=VIEWPORT)
        if script:
            page.add_init_script(script)
        page.set_default_timeout(120_000)
        mark = "&" if "?" in path else "?"
        page.goto(f"{self.url}{path}{mark}token={self.token}")
        return page


@contextmanager
def serving(home: Path, port: int = 0) -> Iterator[Server]:
    command = [sys.executable, "-m", "mosaic", "serve", "--port", str(port)]
    environment = {**os.environ, "MOSAIC_HOME": str(home), "COLUMNS": "500"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        link = next(line for line in process.stdout if line.startswith("Open ")).split()[1]
        yield Server(psutil.Process(process.pid), link.partition("/?")[0], link.partition("token=")[2], home)
    finally:
        for run in Trainer(home).runs():
            run.stop(patience_s=2.0)
        process.send_signal(signal.SIGINT)
        process.wait(30)


def show(what: str, figures: Sequence[float], unit: str, limit: float | None = None) -> None:
    """Print the median of the repeats."""
    note_figure(what, unit, figures, at_most(limit))
    figure = median(figures)
    bound = "" if limit is None else f" at most {limit:8,.1f}   ratio {figure / limit:6.3f}"
    print(f"{what:62}{figure:10,.1f} {unit:11}{bound}", flush=True)


def live_run(server: Server, iteration_s: float) -> str:
    params = {"steps_per_iteration": 10, "iteration_s": iteration_s}
    training = {"worker": "toy", "total_timesteps": 10**8, "params": params}
    environment = {"env_id": "gym/CartPole-v1"}
    return str(server.ask("/runs", environment=environment, training=training)["run_id"])


def pictures(server: Server, browser: Browser, count: int = 300) -> None:
    """Measure pictures at 640×480: as fast as the whole path allows, and at the page's own rate."""
    run_id = live_run(server, 0.5)
    folder = Trainer(server.home).run(run_id).folder.path
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)])
    try:
        for rate, words in (("120", "as fast as it goes"), ("20", "the page's own rate")):
            page = server.open(browser, f"/runs/{run_id}", NOTE_PICTURES.replace("RATE", rate))
            page.wait_for_function("delays.length > 20")
            page.evaluate("delays.length = 0")
            start, before = perf_counter(), sum(server.process.cpu_times()[:2])
            page.wait_for_function(f"delays.length >= {count if rate == '120' else count // 3}")
            seconds, spent = perf_counter() - start, sum(server.process.cpu_times()[:2]) - before
            delays = page.evaluate("delays")
            show(f"pictures of 640×480, {words}", [len(delays) / seconds], "pictures/s")
            show("  from the writer to the canvas, median", [median(delays)], "ms")
            show("  from the writer to the canvas, p95", [float(np.percentile(delays, 95))], "ms")
            show("  the server meanwhile", [100 * spent / seconds], "% of a core")
            page.close()
    finally:
        writer.terminate()
        writer.wait()
        Trainer(server.home).run(run_id).stop(patience_s=5.0)


def keys(server: Server, browser: Browser, count: int = 200) -> None:
    """Measure the time from a key in a game that waits for people until its effect is back in the page."""
    asked = server.ask("/matches", environment={"env_id": "gym/CliffWalking-v1"}, agents={"*": "human"})
    page = server.open(browser, f"/play?match={asked['match_id']}", NOTE_KEYS)
    page.wait_for_selector("canvas[data-step]")
    for number in range(1, count + 1):
        page.keyboard.press("ArrowLeft")  # against the wall: the game never ends
        page.wait_for_selector(f'canvas[data-step="{number}"]')  # no one presses again before seeing it
    delays = page.evaluate("delays")
    page.close()
    show("key → action → its effect known in the page, median", [median(delays)], "ms")
    show("key → action → its effect known in the page, p95", [float(np.percentile(delays, 95))], "ms", 30.0)


def curves(home: Path, browser: Browser, runs: int = 20, points: int = 100_000, repeats: int = 3) -> None:
    """Measure a run's page with the curves of 19 others, and with the mean of their seed group, until all is drawn."""
    made = [long_run(home, seed, points) for seed in range(runs)]
    first, *others = [run.id for run in made]
    sights = {
        f"page of {runs} runs × {points:,} points": (f"/runs/{first}?with={','.join(others)}", runs, 6),
        f"page of the mean of {runs} runs × {points:,} points": (f"/runs/{first}?with=group:long", 2, 2),
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # the browser's cache depends on the address
    for words, sight in sights.items():
        spent: dict[str, list[float]] = {}
        for _ in range(repeats):
            known = browser.new_context(viewport=VIEWPORT)
            for who in (NEW, KNOWN):
                for left, prepare in (("as the runs left them", prepare_curves), ("nothing read yet", _forget_curves)):
                    for run in made:
                        prepare(run.folder)
                    with serving(home, port) as server:
                        for when in (left, "again"):
                            context = known if who == KNOWN else browser.new_context(viewport=VIEWPORT)
                            spent.setdefault(f"{when}, {who}", []).append(opened(server, context, *sight))
                            if who == NEW:
                                context.close()
                        opened(server, known, *sight)
            known.close()
        for what, seconds in spent.items():
            show(f"{words}, {what}", seconds, "s", 2.0)


def _forget_curves(folder: RunFolder) -> None:
    """Delete the caches, as after an import."""
    shutil.rmtree(folder.path / "cache", ignore_errors=True)


def long_run(home: Path, seed: int, points: int) -> Run:
    config = {
        "environment": {"env_id": "gym/CartPole-v1"},
        "training": {"worker": "toy", "total_timesteps": 10**9},
        "resources": {"num_env_runners": 10_000},  # more than this machine has, so that the server does not start them
        "seed": seed,
        "name": f"long-{seed}",
    }
    run = Trainer(home).submit(config, start=False, group="long")
    run.stop()
    chance = np.random.default_rng(seed)
    rewards = chance.uniform(60, 140) * (1 - np.exp(-np.arange(points) / chance.uniform(1e4, 4e4)))
    with EventWriter(run.folder.metrics, attempt=1) as writer:
        for index, reward in enumerate((rewards + chance.normal(0, 4, points)).tolist()):
            writer.report(kind="iteration", training_iteration=index, env_steps=index * 100, episode_reward_mean=reward)
    return run


def opened(server: Server, context: BrowserContext, path: str, curves: int, colours: int) -> float:
    """Return the seconds from opening the address until every curve is drawn."""
    page = context.new_page()
    page.set_default_timeout(120_000)
    mark = "&" if "?" in path else "?"
    address = f"{server.url}{path}" + ("" if context.cookies() else f"{mark}token={server.token}")
    start = perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_function(DRAWN, arg=[curves, colours], polling=LOOK_AGAIN_MS)
    seconds = perf_counter() - start
    page.close()
    return seconds


def viewers(server: Server, browser: Browser, count: int = 50, seconds: float = 15.0) -> None:
    """Measure idle viewers of the page of a run that reports once a second, and of the home page.

    This many tabs would need the whole machine. Their traffic is produced here without them: the page is requested, its
    socket is opened and kept, and on the page of a run those for events and pictures too.
    """
    run_id = live_run(server, 1.0)
    sights = (
        (f"/runs/{run_id}", "page of a live run", ("events", "frames?rate=20")),
        ("/", "home page", ()),
    )
    with ThreadPoolExecutor(1) as thread:  # Playwright uses this thread's event loop
        for sight in sights:
            thread.submit(asyncio.run, _look(server, count, seconds, *sight)).result()
    Trainer(server.home).run(run_id).stop(patience_s=5.0)


async def _look(server: Server, count: int, seconds: float, path: str, words: str, streams: Sequence[str]) -> None:
    told = {"Authorization": f"Bearer {server.token}"}
    base = server.url.replace("http", "ws", 1)
    async with AsyncExitStack() as opened:
        listening = []
        browser = await opened.enter_async_context(httpx.AsyncClient(timeout=60, headers=told))
        for number in range(count):
            page = (await browser.get(f"{server.url}{path}", headers={"Accept": "text/html"})).raise_for_status().text
            names = {"EIO": "4", "transport": "websocket", "implicit_handshake": "true", "next_message_id": "0"}
            names |= {"client_id": _client_id(page), "tab_id": f"tab-{number}", "document_id": f"document-{number}"}
            address = f"{base}/_nicegui_ws/socket.io/?{urlencode(names)}"
            for each in (address, *(f"{base}{path}/{stream}" for stream in streams)):
                socket = await opened.enter_async_context(connect(each, additional_headers=told))
                listening.append(asyncio.create_task(_listen(socket)))
        await asyncio.sleep(5.0)
        before, start = sum(server.process.cpu_times()[:2]), perf_counter()
        await asyncio.sleep(seconds)
        spent = sum(server.process.cpu_times()[:2]) - before
        ended = sum(task.done() for task in listening)
        gate(not ended, f"{ended} of {len(listening)} sockets were closed by the server")
        show(f"{count} idle viewers, {words}", [100 * spent / (perf_counter() - start)], "% of a core", 10.0)
        for task in listening:
            task.cancel()


def _client_id(page: str) -> str:
    found = re.search(r"client_id\W+([0-9a-f-]{36})", page)
    if found is None:
        raise Unmeasured("the page does not say whose it is")
    return found[1]


async def _listen(socket: ClientConnection) -> None:
    """Join, reply to pings, as Socket.IO requires, and give credit for one picture at a time."""
    if socket.request is not None and "/frames" in socket.request.path:
        await socket.send("1")
    async for message in socket:
        if isinstance(message, bytes):
            await socket.send("1")
        elif message.startswith("0"):
            await socket.send("40")
        elif message == "2":
            await socket.send("3")


def served(measure: Callable[[Server, Browser], None]) -> Callable[[Path, Browser], None]:
    def with_server(home: Path, browser: Browser) -> None:
        with serving(home) as server:
            measure(server, browser)

    return with_server


def few_curves(home: Path, browser: Browser) -> None:
    curves(home, browser, points=10_000, repeats=1)


ROWS: dict[str, Callable[[Path, Browser], None]] = {
    "pictures": served(pictures),
    "keys": served(keys),
    "curves": curves,
    "viewers": served(viewers),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)}; none: all")
    parser.add_argument("--quick", action="store_true", help="shorter curves, once; no goals in seconds")
    asked = parser.parse_args()
    if unknown := [name for name in asked.rows if name not in ROWS]:
        parser.error(f"there is no row {', '.join(unknown)}. Rows: {', '.join(ROWS)}")
    if asked.quick:
        loosen_goals()
        ROWS["curves"] = few_curves
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        for name in asked.rows or ROWS:
            note_skipped(name, TO_INSTALL)
        print(TO_INSTALL)
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        failed = [
            name for name in asked.rows or ROWS if not run_row(name, partial(ROWS[name], Path(folder) / name, browser))
        ]
        browser.close()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
