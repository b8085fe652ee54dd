"""Pictures of every page for people to look at, and none of them complains: build/screenshots."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from mosaic.runs.trainer import Trainer
from tests.ui.web.web_kit import Tab, WebServer, keep_picture, toy, wait_for_colour

pytestmark = pytest.mark.slow
CURVE = ".nicegui-echart canvas"


def settled(page: Page, path: str) -> None:
    """Until the part of the page has come that comes last."""
    match path.partition("?")[0].split("/")[1:]:
        case ["train"]:
            expect(page.locator(".t-agent")).to_have_count(2)
        case ["runs", _]:
            wait_for_colour(page, CURVE, "--s1", 40)
        case ["runs"]:
            expect(page.locator("tbody tr a.row").first).to_be_visible()
        case ["play"] if "match=" in path:
            page.wait_for_selector("canvas[data-step]")
        case ["play"]:
            expect(page.get_by_label("Policy of player_1", exact=True)).to_be_visible()
        case ["evaluate"]:
            expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()
        case _:
            expect(page.locator("h1")).not_to_be_empty()


@pytest.fixture(scope="module")
def pages(server: WebServer) -> dict[str, str]:
    """Name → address, with something to show on each."""
    runs = [server.submit(toy(200, name=f"pictured-{seed}", seed=seed), group="pictured") for seed in (1, 2)]
    for run_id in runs:
        Trainer(server.home).run(run_id).wait(60)
    agents = {"player_0": "human", "player_1": "random"}
    asked = {"environment": {"env_id": "classic/connect_four_v3"}, "agents": agents}
    match_id = server.api.post("/matches", json=asked).raise_for_status().json()["match_id"]
    return {
        "home": "/",
        "train-form": "/train",
        "runs": "/runs",
        "run": f"/runs/{runs[0]}",
        "play": "/play",
        "match": f"/play?match={match_id}",
        "episodes": "/replay",
        "evaluate": "/evaluate",
    }


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_page_is_shown(tab: Tab, pages: dict[str, str], theme: str) -> None:
    for name, path in pages.items():
        page = tab.open(path)
        if page.locator(f"body.body--{theme}").count() == 0:
            page.get_by_label("Light or dark").click()
            page.wait_for_selector(f"body.body--{theme}")
        settled(page, path)
        keep_picture(page, f"{name}-{theme}")
    tab.check()


def test_every_page_is_shown_on_a_phone(phone: Tab, pages: dict[str, str]) -> None:
    for name, path in pages.items():
        page = phone.open(path)
        settled(page, path)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        keep_picture(page, f"{name}-phone")
    phone.check()
