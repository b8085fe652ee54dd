"""Sounds, clocks, countdowns, search and private pictures of matches in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.in_process import trained_here
from tests.ui.web.pages.test_play_page import PICTURE, as_owner, open_match, state
from tests.ui.web.web_kit import Tab, WebServer, keep_picture

pytestmark = pytest.mark.slow
EARS = """
window.tones = [];
window.AudioContext = class {
  currentTime = 0; destination = {};
  createOscillator() {
    return { frequency: { set value(pitch) { tones.push(pitch); } }, connect: (to) => to, start() {}, stop() {} };
  }
  createGain() { return { gain: { setValueAtTime() {}, exponentialRampToValueAtTime() {} }, connect: (to) => to }; }
};
"""
START, OWN, MOVE, END = 660, 330, 440, [392, 523]


@pytest.fixture
def other(chromium: Browser, server: WebServer) -> Iterator[Tab]:
    tab = Tab(chromium, server)
    yield tab
    tab.close()


def heard(page: Page, count: int) -> list[int]:
    page.wait_for_function("count => tones.length >= count", arg=count)
    tones: list[int] = page.evaluate("tones")
    return tones


def test_moves_and_the_end_are_heard_if_one_wants_that(tab: Tab, server: WebServer) -> None:
    tab.context.add_init_script(EARS)
    match_id = open_match(server, "classic/tictactoe_v3", {"player_1": "human", "player_2": "minimax"})
    page = tab.open(as_owner(match_id))
    page.wait_for_selector(PICTURE)
    expect(page.get_by_label("Sounds")).not_to_be_checked()
    page.locator(".p-spot").first.click()
    page.wait_for_selector('canvas[data-step="2"]')
    assert heard(page, 0) == []
    page.get_by_label("Sounds").check()
    assert heard(page, 1) == [START]
    page.locator(".p-spot").first.click()
    page.wait_for_selector('canvas[data-step="4"]')
    assert heard(page, 3) == [START, OWN, MOVE]
    page.reload()
    expect(page.get_by_label("Sounds")).to_be_checked()  # remembered
    page.wait_for_selector(PICTURE)
    while state(server, match_id)["phase"] == "playing":
        step = state(server, match_id)["step"]
        page.locator(".p-spot").first.click()
        page.wait_for_selector(f'canvas[data-step]:not([data-step="{step}"])')
    assert heard(page, 2)[-2:] == END
    page.get_by_label("Sounds").uncheck()
    page.reload()
    expect(page.get_by_label("Sounds")).not_to_be_checked()
    tab.check()


def test_a_clock_shows_its_last_seconds_and_its_end(tab: Tab, server: WebServer) -> None:
    clock = {"initial_s": 2.0, "increment_s": 0.0}
    match_id = open_match(server, "classic/tictactoe_v3", {"*": "human"}, clock=clock)
    page = tab.open(as_owner(match_id))
    page.wait_for_selector(PICTURE)
    page.locator(".p-spot").first.click()
    page.wait_for_selector('canvas[data-step="1"]')
    running = page.locator(".p-clock.on")
    expect(running).to_have_class("p-clock low on")
    expect(running).to_contain_text(".")  # tenths of a second
    expect(page.locator(".p-end")).to_contain_text("lost on time")
    expect(page.locator(".p-clock.low").first).to_have_text("0.0")
    tab.check()


def test_a_countdown_follows_when_all_are_ready(tab: Tab, other: Tab, server: WebServer) -> None:
    match_id = open_match(server, "butterfly/cooperative_pong", {"*": "human"}, ready_screen=True)
    pages = [each.open(f"/play?match={match_id}&agent=paddle_{place}") for place, each in enumerate((tab, other))]
    for page in pages:
        page.wait_for_selector('canvas[data-step="0"]')
    expect(pages[0].locator(".p-ready")).to_contain_text("0 of 2 ready")
    pages[0].locator(".p-ready").click()
    expect(pages[0].locator(".p-ready")).to_contain_text("Waiting for 1 more")
    expect(pages[1].locator(".p-ready")).to_contain_text("1 of 2 ready")
    pages[1].locator(".p-ready").click()
    expect(pages[0].locator(".p-ready .count")).to_have_text("3")
    expect(pages[1].locator(".p-ready")).to_have_count(0)
    for each in (tab, other):
        each.page.wait_for_selector('canvas:not([data-step="0"])[data-step]')
        each.check()


def test_the_visits_and_the_value_of_a_search_are_drawn_on_the_board(tab: Tab, server: WebServer) -> None:
    training = {"worker": "native", "algorithm": "ppo", "total_timesteps": 512, "params": {"n_steps": 32}}
    run = trained_here(server.home, {"environment": {"env_id": "classic/connect_four_v3"}, "training": training})
    agents = {"player_0": "human", "player_1": f"search:run:{run.id},simulations=60"}
    page = tab.open(as_owner(open_match(server, "classic/connect_four_v3", agents)))
    page.wait_for_selector(PICTURE)
    page.get_by_role("button", name="Show").click()
    shares = page.locator(".p-share")
    expect(shares.first).to_be_visible()
    visits = [int(text) for text in shares.all_inner_texts()]
    assert 40 <= sum(visits) <= 60
    expect(page.locator(".p-value")).to_contain_text("return")
    keep_picture(page, "search-visits")
    tab.check()


def test_a_secret_goal_is_drawn_for_the_speaker_alone(tab: Tab, other: Tab, phone: Tab, server: WebServer) -> None:
    match_id = open_match(server, "mpe/simple_speaker_listener_v4", {"*": "human"}, seed=3, ready_screen=True)
    speaker = tab.open(f"/play?match={match_id}&agent=speaker_0")
    listener = other.open(f"/play?match={match_id}&agent=listener_0")
    spectator = phone.open(f"/play?match={match_id}")
    colours = []
    for page in (speaker, listener, spectator):
        page.wait_for_selector('canvas[data-step="0"]')
        colours.append(page.evaluate("() => " + COLOURED))
    assert colours[0] > colours[1] == colours[2]
    expect(speaker.get_by_label("Your observation")).to_contain_text("speaker_0 observes")
    expect(listener.get_by_label("Your observation")).to_contain_text("listener_0 observes")
    expect(spectator.get_by_label("Your observation")).to_have_count(0)
    expect(listener.locator(".p-mine")).to_have_count(1)
    for each in (tab, other, phone):
        each.check()


COLOURED = """{
  const canvas = document.querySelector("canvas[data-step]");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let i = 0; i < data.length; i += 4) {
    const rgb = data.slice(i, i + 3);
    found += Math.max(...rgb) - Math.min(...rgb) > 20;
  }
  return found;
}"""
