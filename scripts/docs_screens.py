"""Pictures of the web app and the terminal app in the documentation, with runs that are trained for them.

python scripts/docs_screens.py            # train for half a minute, then draw docs/screens

It needs Chromium and Stockfish.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "screens"
CHROMIUM = "/usr/bin/chromium"
WIDTH, HEIGHT, QUALITY = 1280, 800, 80
COLUMNS, LINES = 140, 42

TRAINED = (
    "train gym/CartPole-v1 --algo a2c --steps 60000 --seeds 3 --name a2c",
    "train gym/CartPole-v1 --algo ppo --steps 60000 --seeds 3 --name ppo",
)
GAME = {
    "environment": {"env_id": "classic/chess_v6"},
    "agents": {"player_0": "human", "player_1": "stockfish:skill=3"},
    "seed": 1,
}
MOVES = ("e2e4", "g1f3", "f1e2")  # legal, whatever Black answers


def mosaic(arguments: str) -> list[str]:
    return [sys.executable, "-m", "mosaic", *arguments.split()]


@contextmanager
def server() -> Iterator[Api]:
    """Serve in a process of its own."""
    command = mosaic("serve --port 0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            link = next(line.split()[-1] for line in process.stdout if line.startswith("Open "))
            url, _, token = link.partition("/?token=")
            yield Api(url, token)
        finally:
            process.terminate()


class Api:
    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def post(self, path: str, body: object) -> Any:
        head = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        with urlopen(Request(self.url + path, json.dumps(body).encode(), head)) as answer:
            return json.load(answer)


def open_page(browser: Browser, api: Api, path: str) -> Page:
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    page.goto(f"{api.url}{path}{'&' if '?' in path else '?'}token={api.token}")
    page.wait_for_selector(".m-page")
    page.wait_for_load_state("networkidle")
    return page


def draw_pages(browser: Browser) -> None:
    with server() as api:
        save("web-curves", open_page(browser, api, "/runs/ppo-1?with=group:ppo,group:a2c").screenshot())

        match = api.post("/matches", GAME)["match_id"]
        page = open_page(browser, api, f"/play?match={match}")
        rows = page.get_by_role("list", name="Moves").get_by_role("listitem")
        for row, move in enumerate(MOVES):
            api.post(f"/matches/{match}/moves", {"move": move})
            rows.nth(row).filter(has_not_text="…").wait_for()
        save("web-play", page.screenshot())


async def terminal_screen() -> str:
    """Return the charts of the newest run, as SVG."""
    from mosaic.ui.tui.app import MosaicTui
    from mosaic.ui.tui.backend.local import LocalBackend

    app = MosaicTui(LocalBackend(print), first_tab="metrics")
    async with app.run_test(size=(COLUMNS, LINES)) as pilot:
        for _ in range(600):
            drawn = app.export_screenshot()
            if all(word in drawn for word in ("Return", "▲")):
                return drawn
            await pilot.pause(0.1)
    raise TimeoutError("The terminal app drew no curves.")


def draw_terminal(browser: Browser, svg: str) -> None:
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.set_content(svg)
    save("tui-curves", page.locator("svg").screenshot())


def save(name: str, png: bytes) -> None:
    from PIL import Image

    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.webp"
    Image.open(io.BytesIO(png)).convert("RGB").save(path, "WEBP", quality=QUALITY, method=6)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as home:
        os.environ["MOSAIC_HOME"] = home
        for command in TRAINED:
            subprocess.run(mosaic(command), check=True)
        terminal = asyncio.run(terminal_screen())
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            draw_pages(browser)
            draw_terminal(browser, terminal)
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
