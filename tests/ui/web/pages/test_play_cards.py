"""Card games in a real browser: what each person gets and sees, the seed, a replay, a restart of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, WebSocket, expect

from tests.ui.web.web_kit import Tab, WebServer, keep_picture

pytestmark = pytest.mark.slow
LEDUC = "classic/leduc_holdem_v4"


def open_match(server: WebServer, env: str, agents: dict[str, str], **parts: Any) -> str:
    answer = server.api.post("/matches", json={"environment": {"env_id": env}, "agents": agents, **parts})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["match_id"])


def listen(tab: Tab) -> list[str | bytes]:
    """Everything that the match's socket brings to this page from now on."""
    got: list[str | bytes] = []

    def hear(socket: WebSocket) -> None:
        if "/matches/" in socket.url:
            socket.on("framereceived", lambda message: got.append(message))

    tab.page.on("websocket", hear)
    return got


def faces(page: Page, agent: str) -> int:
    return page.locator(f".c-seat[aria-label={agent}] .c-card b").count()


@pytest.fixture
def other(chromium: Browser, server: WebServer) -> Iterator[Tab]:
    tab = Tab(chromium, server)
    yield tab
    tab.close()


def test_who_is_to_move_sits_nearest_where_one_person_plays_both(tab: Tab, server: WebServer) -> None:
    made = server.api.post("/matches", json={"environment": {"env_id": LEDUC}, "agents": {"*": "human"}}).json()
    page = tab.open(f"/play?match={made['match_id']}#key={made['owner_key']}")
    page.get_by_role("button", name="Play player_1 here too").click()
    own, bars = page.locator(".c-seat.own"), page.locator(".p-agent")
    for _ in range(2):
        expect(own.locator(".c-turn")).to_be_visible()
        nearest = own.get_attribute("aria-label")
        expect(bars).to_have_count(2)
        expect(bars.last).to_have_attribute("data-agent", str(nearest))
        page.locator(".p-choices").get_by_role("button", name="raise").click()
        expect(own).not_to_have_attribute("aria-label", str(nearest))
    tab.check()


def test_poker_of_two_people_in_two_browsers(tab: Tab, other: Tab, server: WebServer) -> None:
    match_id = open_match(server, LEDUC, {"*": "human"}, record=True)
    got = {"player_0": listen(tab), "player_1": listen(other)}
    pages = {"player_0": tab.open(f"/play?match={match_id}"), "player_1": other.open(f"/play?match={match_id}")}
    for agent, page in pages.items():
        expect(page.locator(".c-seat.own")).to_have_attribute("aria-label", agent)
        assert page.url.endswith(f"agent={agent}")  # a reload brings the same cards
        opponent = "player_1" if agent == "player_0" else "player_0"
        assert (faces(page, agent), faces(page, opponent)) == (1, 0)
        own, theirs = (page.locator(f".c-seat[aria-label={each}]").bounding_box() for each in (agent, opponent))
        assert own is not None
        assert theirs is not None
        assert own["y"] > theirs["y"]
        expect(page.get_by_label("Seed")).to_have_value("")
    while not pages["player_0"].locator(".p-end").count():
        for page in pages.values():
            wanted = (
                page.locator(".p-choices")
                .get_by_role("button", name="call")
                .or_(page.locator(".p-choices").get_by_role("button", name="check"))
            )
            if wanted.count():
                said = page.locator(".p-list li").count()
                wanted.first.click()
                page.wait_for_function("n => document.querySelectorAll('.p-list li').length > n", arg=said)
    for agent, page in pages.items():
        expect(page.locator(".p-end")).to_be_visible()
        assert faces(page, "player_0") == faces(page, "player_1") == 1
        expect(page.get_by_label("Seed")).not_to_have_value("")
        views = [json.loads(message) for message in got[agent] if isinstance(message, str)]
        assert len(views) == len(got[agent])  # no picture
        for view in views:
            if view["phase"] == "playing":
                hands = {seat["agent"]: seat["rows"][0]["cards"] for seat in view["table"]["seats"]}
                assert [card["rank"] for name in hands if name != agent for card in hands[name]] == [""]
                assert view["seed"] is None
    page = pages["player_0"]
    page.get_by_role("link", name="Replay", exact=True).click()
    expect(page.locator(".rp .c-seat[aria-label=player_1] .c-card b")).to_have_count(1)
    page.get_by_label("Seen by").select_option("player_0")
    expect(page.locator(".c-seat[aria-label=player_1] .c-card b")).to_have_count(0)
    tab.check()


@pytest.mark.parametrize("env", ["classic/texas_holdem_no_limit_v6", "classic/gin_rummy_v4", "classic/hanabi_v5"])
def test_card_tables_are_accessible(tab: Tab, phone: Tab, server: WebServer, env: str) -> None:
    name = env.partition("/")[2]
    for each, width in ((tab, "1440"), (phone, "390")):
        match_id = open_match(server, env, {"player_0": "human", "player_1": "random"}, seed=3)
        page = each.open(f"/play?match={match_id}&agent=player_0")
        expect(page.locator(".p-choices button").first).to_be_visible()
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            keep_picture(page, f"table-{name}-{width}-{scheme}")
        assert Axe().run(page).response["violations"] == []
        each.check()


def test_a_match_is_set_up_with_picture_cards_and_a_seed(tab: Tab, server: WebServer) -> None:
    page = tab.open("/play")
    page.get_by_label("Search", exact=False).nth(-1).fill("tictactoe")
    page.locator('.t-env[title^="classic/tictactoe"]').click()
    page.get_by_label("Seed").fill("77")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.get_by_label("Seed")).to_have_value("77")
    page.get_by_role("button", name="Restart", exact=True).click()
    expect(page.get_by_label("Seed")).not_to_have_value("77")
    page.get_by_label("Seed").fill("78")
    page.get_by_role("button", name="Play this seed").click()
    expect(page.get_by_label("Seed")).to_have_value("78")
    tab.check()


def test_a_match_outlives_its_server(chromium: Browser, tmp_path: Path) -> None:
    server = WebServer(tmp_path / "home")
    match_id = open_match(server, LEDUC, {"player_0": "human", "player_1": "human"}, seed=4)
    tab = Tab(chromium, server)
    page = tab.open(f"/play?match={match_id}&agent=player_0")
    expect(page.locator(".c-seat.own .c-card b")).to_have_count(1)
    mine = page.locator(".c-seat.own .c-card").get_attribute("aria-label")
    server.end()
    later = WebServer(tmp_path / "home", server.port)
    try:
        there = "async id => (await (await fetch('/matches/' + id)).json()).viewers === 1"
        page.wait_for_function(f"id => ({there})(id).catch(() => false)", arg=match_id)
        assert later.api.get(f"/matches/{match_id}").json()["phase"] == "playing"
        expect(page.locator(".c-seat.own .c-card")).to_have_attribute("aria-label", str(mine))
    finally:
        tab.close()
        later.end()
