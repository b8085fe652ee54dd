"""A newcomer's first quarter of an hour in a real browser: train, watch it learn, play against it, replay the game."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.ui.web.web_kit import Tab, WebServer, keep_picture, wait_for_colour

pytestmark = pytest.mark.slow
CURVE = ".nicegui-echart canvas"
CURVE_AS_TEXT = f"document.querySelector('{CURVE}').toDataURL()"
LONG_ENOUGH_TO_WATCH = 600_000_000_000  # env steps: hours, so that the run cannot end before it is stopped


@pytest.mark.chosen
def test_a_newcomer_trains_watches_plays_and_replays(tab: Tab, server: WebServer) -> None:
    page = tab.open("/")
    keep_picture(page, "home-first")
    run_id = _train(page)
    _watch_it_learn(page)
    page.get_by_role("button", name="Stop and save").click()
    expect(page.locator(".m-crumb .m-pill")).to_have_text(re.compile("stopped|finished"))
    page.get_by_role("link", name="Play against it").click()
    expect(page.get_by_label("Policy of player_2", exact=True)).to_have_value(re.compile("^run:tictactoe-q-learning"))
    keep_picture(page, "play-against-a-run")
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_selector("canvas[data-step]")
    match_id = page.url.partition("match=")[2]
    for pick in (0, -1):
        _play_to_the_end(page, pick)
        result = server.api.get(f"/matches/{match_id}").json()["result"]
        assert result in ("A draw.", f"player_2 (run:{run_id}) wins.")
        keep_picture(page, f"match-over-{'first' if pick == 0 else 'second'}")
        if pick == 0:
            page.get_by_role("button", name="Play again").click()
            expect(page.locator(".p-end")).to_have_count(0)
            page.wait_for_selector('canvas[data-step="0"]')
    _replay(page, server.api.get(f"/matches/{match_id}").json()["step"])
    tab.check()


def _train(page: Page) -> str:
    page.get_by_role("link", name="Train").first.click()
    expect(page.locator(".t-env[aria-pressed=true]")).to_contain_text("Tictactoe")
    expect(page.locator(".t-agent")).to_have_count(2)
    page.get_by_label("Env steps").fill(str(LONG_ENOUGH_TO_WATCH))
    expect(page.locator(".m-cmd code")).to_contain_text(f"--steps {LONG_ENOUGH_TO_WATCH}")
    keep_picture(page, "train")
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url(re.compile(r"/runs/.+"))
    return page.url.rpartition("/")[2].partition("?")[0]


def _watch_it_learn(page: Page) -> None:
    wait_for_colour(page, CURVE, "--s1", 60)  # an empty chart has none
    seen = page.evaluate(CURVE_AS_TEXT)
    for _ in range(2):
        page.wait_for_function(f"seen => {CURVE_AS_TEXT} !== seen", arg=seen)
        seen = page.evaluate(CURVE_AS_TEXT)
    assert wait_for_colour(page, CURVE, "--s1", 60) >= 60
    keep_picture(page, "run-live")


def _play_to_the_end(page: Page, pick: int) -> None:
    """Clicks the first or the last of the free cells as long as there is one."""
    while True:
        page.wait_for_selector(".p-spot, .p-end")
        if page.locator(".p-end").count():
            return
        step = int(page.locator("canvas[data-step]").get_attribute("data-step") or 0)
        page.locator(".p-spot").nth(pick).click()
        page.wait_for_function(
            "step => document.querySelector('.p-end') || +document.querySelector('canvas').dataset.step >= step + 2",
            arg=step,
        )


def _replay(page: Page, steps: int) -> None:
    page.get_by_role("link", name="Replay", exact=True).click()
    page.wait_for_selector("img[data-step]")
    expect(page.get_by_text("bit for bit the same")).to_be_visible()
    first = page.locator("img[data-step]").get_attribute("src")
    page.get_by_label("Step of the episode").fill(str(steps))
    page.wait_for_selector(f'img[data-step="{steps}"]')
    assert page.locator("img[data-step]").get_attribute("src") != first
    keep_picture(page, "replay")
