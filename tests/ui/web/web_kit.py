"""What the browser's tests share: a server with pages in a process of its own, and a tab that must stay clean."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from mosaic.runs.trainer import Trainer
from mosaic.server.auth.token import ensure_token

PATIENCE_MS = 60_000
SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SERVE = """
import json, sys
from pathlib import Path
from mosaic.server.context import ServerSettings
from mosaic.server.queue.policy import QueueLimits
from mosaic.server.serve import ListenAddress, Frontend, serve
from mosaic.ui.health import examine
from mosaic.ui.web.app import add_pages
options = json.loads(sys.argv[1])
limits = QueueLimits(runs=8, cores=64, memory_mb=100_000, gpus=1)
settings = ServerSettings(limits=limits)
serve(ListenAddress(port=options["port"]), Path(options["home"]), settings, Frontend(examine, add_pages))
"""


class WebServer:
    """Answers under `url` until it is ended; a new one may take its port."""

    def __init__(self, home: Path, port: int = 0) -> None:
        self.home, self.token = home, ensure_token(home)
        asked = json.dumps({"home": str(home), "port": port})
        self._log = (home.parent / "serve.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE, asked],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=home.parent,
        )
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            if line.startswith("Its token"):
                break
        assert "listens on" in "".join(said[:1]), f"the server did not start: {said} {self.complaints()}"
        self.url = said[0].split()[-1]
        self.link = said[1].split()[-1]
        self.port = int(self.url.rpartition(":")[2])
        # A connection that idled in a slow test may be closed by the server in the moment in which it is used again.
        once = httpx.Limits(max_keepalive_connections=0)
        told = {"Authorization": f"Bearer {self.token}"}
        self.api = httpx.Client(base_url=self.url, headers=told, timeout=60, limits=once)

    def submit(self, config: Mapping[str, Any], group: str = "") -> str:
        answer = self.api.post("/runs", json=dict(config), params={"group": group})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["run_id"])

    def end_matches(self) -> None:
        """End what tests have left open: a server plays a limited number of matches at a time."""
        for match in self.api.get("/matches").json():
            self.api.delete(f"/matches/{match['match_id']}")

    def complaints(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text()

    def end(self) -> None:
        self.api.close()
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


def end_runs(home: Path) -> None:
    for run in Trainer(home).runs():
        run.stop(patience_s=1.0)


def toy(iterations: int = 40, iteration_s: float = 0.0, **parts: Any) -> dict[str, Any]:
    """A run of the toy worker: an event for every iteration."""
    params = {"steps_per_iteration": 10, "iteration_s": iteration_s}
    return {
        "environment": {"env_id": "gym/CartPole-v1"},
        "training": {"worker": "toy", "total_timesteps": 10 * iterations, "params": params},
        "telemetry": {"report_every_s": 0.05},
        "resources": {"num_env_runners": 1},
        **parts,
    }


class Tab:
    """A browser's tab with a cookie of its own. `check` fails if anything was written to the console."""

    def __init__(self, browser: Browser, server: WebServer, width: int = 1440) -> None:
        self._server = server
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, accept_downloads=True, color_scheme="dark"
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.errors: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} {message.location['url']}")

    def open(self, path: str = "/") -> Page:
        address, hash_, fragment = path.partition("#")
        mark = "&" if "?" in address else "?"
        self.page.goto(f"{self._server.url}{address}{mark}token={self._server.token}{hash_}{fragment}")
        self.page.wait_for_selector(".m-page")
        return self.page

    def check(self) -> None:
        assert self.errors == [], self.errors

    def close(self) -> None:
        self.context.close()


def keep_picture(page: Page, name: str) -> None:
    """For people to look at after the tests: build/screenshots/NAME.png."""
    page.wait_for_function("[...document.images].every((image) => image.loading === 'lazy' || image.complete)")
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def check_accessible(page: Page) -> None:
    """In dark and in light, without the bar that Quasar shows while something loads."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_selector(f"body.body--{scheme}")
        expect(page.locator(".q-loading-bar[role=progressbar]")).to_have_count(0)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


COUNT_PIXELS = """([selector, colour]) => {
  const canvas = document.querySelector(selector);
  if (!canvas || !canvas.width) return 0;
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const probe = copy.getContext("2d", { willReadFrequently: true });
  probe.fillStyle = colour.startsWith("--") ? getComputedStyle(document.body).getPropertyValue(colour).trim() : colour;
  probe.fillRect(0, 0, 1, 1);
  const wanted = probe.getImageData(0, 0, 1, 1).data;
  probe.clearRect(0, 0, 1, 1);
  probe.drawImage(canvas, 0, 0);
  const { data } = probe.getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  const off = (i, k) => Math.abs(data[i + k] - wanted[k]);
  for (let i = 0; i < data.length; i += 4) if (off(i, 0) + off(i, 1) + off(i, 2) < 40 && data[i + 3] > 200) found += 1;
  return found;
}"""


def wait_for_colour(page: Page, selector: str, colour: str, least: int) -> int:
    """Until the canvas shows so many pixels of the colour (a CSS variable or a colour); answers how many."""
    page.wait_for_function(f"(asked) => ({COUNT_PIXELS})(asked) >= {least}", arg=[selector, colour])
    return int(page.evaluate(COUNT_PIXELS, [selector, colour]))
