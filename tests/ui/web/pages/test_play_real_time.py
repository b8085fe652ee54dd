"""Games in real time in a real browser: they wait for the person, pause without focus, and name their keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import WebSocketRoute, expect

from tests.ui.web.pages.test_play_page import as_owner, open_match, state
from tests.ui.web.web_kit import Tab, WebServer, keep_picture

pytestmark = pytest.mark.slow
LONG_GAME = "gym/MountainCar-v0"  # 200 steps whatever is played: it is not over before a slow browser has looked


@pytest.mark.chosen
def test_a_real_time_game_waits_for_a_key_and_pauses_without_focus(tab: Tab, server: WebServer) -> None:
    match_id = open_match(server, LONG_GAME, {"*": "human"}, ready_screen=True, rate_hz=5)
    page = tab.open(as_owner(match_id))
    page.wait_for_selector('canvas[data-step="0"]')
    ready = page.locator(".p-ready")
    expect(ready).to_contain_text("Press a key or click to start")
    expect(ready).to_contain_text("You play agent_0")
    expect(page.locator(".hud")).to_contain_text("5 steps/s")
    keep_picture(page, "ready-screen")
    assert state(server, match_id)["step"] == 0
    page.keyboard.press("ArrowLeft")
    expect(ready).to_have_count(0)
    page.wait_for_selector('canvas:not([data-step="0"])[data-step]')
    page.evaluate("window.dispatchEvent(new Event('blur'))")
    expect(page.locator(".p-paused")).to_contain_text("press a key or click to resume")
    assert state(server, match_id)["paused"]
    page.keyboard.press("ArrowRight")
    expect(page.locator(".p-paused")).to_have_count(0)
    tab.check()


def test_the_legend_names_keys_and_my_agent_is_marked(tab: Tab, server: WebServer) -> None:
    agents = {"archer_0": "human", "*": "random"}
    match_id = open_match(server, "butterfly/knights_archers_zombies", agents, ready_screen=True)
    page = tab.open(f"/play?match={match_id}")
    page.wait_for_selector('canvas[data-step="0"]')
    legend = page.locator(".p-keypanel")
    for words in ("forward", "turn left", "attack", "you are archer_0"):
        expect(legend).to_contain_text(words)
    assert {"W", "Space"} <= set(legend.locator("kbd").all_inner_texts())
    expect(page.locator(".p-mine")).to_have_count(1)
    expect(page.get_by_label("Env steps per second")).to_have_count(0)  # the owner's
    keep_picture(page, "my-agent")
    tab.check()


def test_a_state_that_was_sent_before_the_pause_does_not_end_it(tab: Tab, server: WebServer) -> None:
    states: list[str] = []

    def relay(socket: WebSocketRoute) -> None:
        upstream = socket.connect_to_server()

        def down(message: str | bytes) -> None:
            if isinstance(message, str):
                states.append(message)
            socket.send(message)

        def up(message: str | bytes) -> None:
            if '"pause"' in str(message):
                socket.send(states[-1])  # on its way when the window lost its focus
            upstream.send(message)

        upstream.on_message(down)
        socket.on_message(up)

    tab.page.route_web_socket(re.compile("/matches/.*/stream"), relay)
    match_id = open_match(server, LONG_GAME, {"*": "human"}, ready_screen=True, rate_hz=5)
    page = tab.open(as_owner(match_id))
    expect(page.locator(".p-ready")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector('canvas:not([data-step="0"])[data-step]')
    page.evaluate("window.dispatchEvent(new Event('blur'))")
    paused = page.locator(".p-paused")
    expect(paused).to_contain_text("press a key or click to resume")
    page.keyboard.press("ArrowRight")
    expect(paused).to_have_count(0)
    tab.check()


@pytest.mark.parametrize("pace", ["turns", "real_time"])
def test_a_game_without_pictures_is_played_by_what_is_observed(tab: Tab, server: WebServer, pace: str) -> None:
    blind = {"env_id": "gym/CartPole-v1", "options": {"render_mode": None}}
    asked = {"environment": blind, "agents": {"*": "human"}, "pace": pace, "rate_hz": 2}
    opened = server.api.post("/matches", json=asked).raise_for_status().json()
    page = tab.open(f"/play?match={opened['match_id']}#key={opened['owner_key']}")
    observed = page.get_by_label("Your observation")
    expect(observed).to_contain_text("agent_0")
    expect(page.locator(".p-board canvas")).to_have_count(0)
    expect(page.get_by_text("gym/CartPole-v1 has no picture.")).to_be_visible()
    if pace == "real_time":
        page.get_by_role("button", name="Press a key or click to start").click()
        expect(page.locator(".hud")).not_to_contain_text("step 0")
    else:
        before = observed.inner_text()
        page.locator(".p-choices").get_by_role("button").first.click()
        expect(observed).not_to_have_text(before)
    keep_picture(page, f"no-picture-{pace}")
    tab.check()


def test_a_paused_picture_comes_back_with_its_graphics_context(phone: Tab, server: WebServer) -> None:
    """A phone takes the context of a page in the background away; a paused game sends no new picture."""
    match_id = open_match(server, LONG_GAME, {"*": "human"}, ready_screen=True, rate_hz=5)
    page = phone.open(as_owner(match_id))
    canvas = page.locator('canvas[data-step="0"]')
    canvas.wait_for()
    drawn = canvas.evaluate("canvas => canvas.toDataURL()")
    canvas.evaluate("canvas => canvas.getContext('2d').reset()")
    assert canvas.evaluate("canvas => canvas.toDataURL()") != drawn
    canvas.dispatch_event("contextrestored")
    assert canvas.evaluate("canvas => canvas.toDataURL()") == drawn
    phone.check()
