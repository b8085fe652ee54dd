"""Boards in a real browser: sides, marks, drag and drop, moves taken back, clocks, replays played on, agents held."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from mosaic.envs.catalog import make_env
from mosaic.runners.local import play_episode
from mosaic.runners.record import episode_to_json
from tests.ui.web.pages.test_play_page import OWNER_KEYS, PICTURE, as_owner, open_match, spot, state
from tests.ui.web.web_kit import Tab, WebServer, keep_picture

pytestmark = pytest.mark.slow


@pytest.fixture
def other(chromium: Browser, server: WebServer) -> Iterator[Tab]:
    tab = Tab(chromium, server)
    yield tab
    tab.close()


MIDDLE_OF_TEXT = """(element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const { x, width } = range.getBoundingClientRect();
  return x + width / 2;
}"""


PIXELS = """(canvas, { x, y, width, height }) => {
  const box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const probe = copy.getContext("2d", { willReadFrequently: true });
  probe.drawImage(canvas, 0, 0);
  const { data } = probe.getImageData(
    Math.round((x - box.x) * scale), Math.round((y - box.y) * scale), width * scale, height * scale);
  const rows = Array.from({ length: 16 }, () => 0);  // brightness of sixteen bands from the upper edge to the lower one
  data.forEach((value, at) => (rows[Math.floor((16 * at) / data.length)] += (16 * value) / data.length));
  return rows;
}"""


def middle(place: Locator) -> tuple[float, float]:
    box = place.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, start: Locator, to: tuple[float, float]) -> None:
    page.mouse.move(*middle(start))
    page.mouse.down()
    page.mouse.move(to[0], to[1], steps=4)
    page.mouse.up()


def marked(page: Page) -> list[tuple[float, float]]:
    """The middles of the squares of the last move, the upper one first."""
    return sorted((middle(mark) for mark in page.locator(".p-last").all()), key=lambda place: place[1])


def wait_for_step(page: Page, step: int) -> None:
    page.wait_for_selector(f'canvas[data-step="{step}"]')


@pytest.mark.chosen
def test_black_sees_its_own_side_drags_a_pawn_and_takes_it_back(tab: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/chess_v6", {"*": "human"}, clock={"initial_s": 300, "increment_s": 2})
    page = tab.open(as_owner(match_id))
    page.wait_for_selector(PICTURE)
    square, (x, y) = spot(page, "e2").bounding_box(), middle(spot(page, "e2"))
    assert square is not None
    drag(page, spot(page, "e2"), (x, y - 3 * square["height"]))
    expect(page.locator(".p-said")).to_contain_text("There is no legal move on that spot")
    drag(page, page.locator(".p-picked"), (x, y - 2 * square["height"]))
    wait_for_step(page, 1)
    assert marked(page) == [pytest.approx((x, y - rows * square["height"]), abs=2) for rows in (2, 0)]  # e4 and e2
    expect(page.locator(".p-clock.on")).to_have_attribute("aria-label", "Time of Black")
    bars = page.locator(".p-agent")
    assert [bars.nth(place).get_attribute("data-agent") for place in range(2)] == ["player_1", "player_0"]
    expect(bars.nth(1)).to_contain_text("You · White")
    before = middle(page.locator(".p-coord.row", has_text="1"))
    server.api.post(f"/matches/{match_id}/moves", json={"move": "e7e5", "wait_s": 0})
    wait_for_step(page, 2)
    pawn = page.locator(PICTURE).evaluate(PIXELS, spot(page, "d2").bounding_box())
    page.get_by_role("button", name="Turn board").click()
    assert page.locator(PICTURE).evaluate(PIXELS, spot(page, "d2").bounding_box()) == pytest.approx(pawn, abs=2)
    x, y = middle(spot(page, "d2"))  # the e-file is to the left of it now; e5 and e7:
    expected = [(x - square["width"], y + rows * square["height"]) for rows in (3, 5)]
    assert marked(page) == [pytest.approx(place, abs=2) for place in expected]
    after = middle(page.locator(".p-coord.row", has_text="1"))
    assert after[1] < before[1] - 100
    assert middle(spot(page, "d2"))[1] < middle(page.locator(PICTURE))[1]  # White's pawns are at the upper edge now
    assert [bars.nth(place).get_attribute("data-agent") for place in range(2)] == ["player_0", "player_1"]
    expect(page.get_by_role("list", name="Moves")).to_have_text("1.e4e5")
    expect(page.locator(".p-clock.on")).to_have_attribute("aria-label", "Time of White")
    white, black = (page.get_by_role("timer", name=f"Time of {side}") for side in ("White", "Black"))
    expect(white).to_have_text(re.compile(r"^\d:\d\d$"))
    running, waiting = white.inner_text(), black.inner_text()
    expect(white).not_to_have_text(running)  # its time passes
    expect(black).to_have_text(waiting)
    page.get_by_role("button", name="Take back").click()
    wait_for_step(page, 1)
    expect(page.get_by_role("list", name="Moves")).to_have_text("1.e4…")
    x, y = middle(spot(page, "d7"))
    drag(page, spot(page, "d7"), (x, y - 2 * square["height"]))  # away from Black, whose side is the lower one now
    wait_for_step(page, 2)
    expect(page.get_by_role("list", name="Moves")).to_have_text("1.e4d5")
    keep_picture(page, "chess-black")
    tab.check()


@pytest.mark.chosen
def test_the_winning_line_stays_in_view_and_the_result_is_in_words(tab: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/connect_four_v3", {"player_0": "human", "player_1": "human"})
    page = tab.open(f"/play?match={match_id}&agent=player_1")  # the other one moves by requests
    page.wait_for_selector(PICTURE)
    for step in range(7):
        if step % 2:
            page.get_by_role("button", name="column 2", exact=True).click()
        else:
            asked = {"move": "column 1", "agent": "player_0", "wait_s": 0}
            assert server.api.post(f"/matches/{match_id}/moves", json=asked).status_code == 200
        wait_for_step(page, step + 1)
    expect(page.locator(".p-won")).to_have_count(4)
    end, board = page.locator(".p-end"), page.locator(".p-board").bounding_box()
    assert board is not None
    won = [middle(disc) for disc in page.locator(".p-won").all()]
    assert all(x < board["x"] + board["width"] / 7 for x, _ in won)  # all in the first column
    assert len({round(y) for _, y in won}) == 4
    expect(end).to_contain_text("You lost")
    expect(end).to_contain_text("Red won: four in a row.")
    assert (end.bounding_box() or {})["y"] >= board["y"] + board["height"]
    keep_picture(page, "connect-four-lost")
    tab.check()


def test_go_has_coordinates_and_captured_stones(tab: Tab, server: WebServer) -> None:
    environment = {"environment": {"env_id": "classic/go_v5", "options": {"board_size": 5}}, "agents": {"*": "human"}}
    match_id = server.api.post("/matches", json=environment).raise_for_status().json()["match_id"]
    page = tab.open(f"/play?match={match_id}")
    page.wait_for_selector(PICTURE)
    for move in ("A2", "A1", "B1"):  # the white stone in the corner has no liberty left
        server.api.post(f"/matches/{match_id}/moves", json={"move": move}).raise_for_status()
    wait_for_step(page, 3)
    assert page.locator(".p-coord.column").all_inner_texts() == list("ABCDE")
    assert page.locator(".p-coord.row").all_inner_texts() == list("54321")
    letter, point = page.locator(".p-coord.column", has_text="C"), page.get_by_role("button", name="C1", exact=True)
    drawn = letter.evaluate(MIDDLE_OF_TEXT)
    assert abs(drawn - middle(point)[0]) < 3  # below its line
    expect(page.locator('.p-agent[data-agent="black_0"]')).to_contain_text("captured 1")
    keep_picture(page, "go")
    tab.check()


@pytest.mark.chosen
def test_what_a_policy_would_play_is_drawn_on_the_board(tab: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/tictactoe_v3", {"player_1": "human", "player_2": "minimax"})
    page = tab.open(as_owner(match_id))
    page.wait_for_selector(PICTURE)
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".p-share").first).to_be_visible()
    shares = page.locator(".p-share").all_inner_texts()
    assert len(shares) == 9
    assert all(text.endswith("%") for text in shares)
    server.api.post(f"/matches/{match_id}/moves", json={"move": "cell 9"}).raise_for_status()
    wait_for_step(page, 2)
    free = sorted(page.locator(".p-spot kbd").all_inner_texts())
    assert page.locator(".p-keypanel kbd").all_inner_texts()[:2] == [free[0], free[-1]]
    tab.check()


def test_a_position_of_a_replay_is_played_on(tab: Tab, server: WebServer) -> None:
    episode = play_episode(make_env("mosaic/tictactoe"), {"*": "random"}, 3)
    opened = server.api.post("/replays", json={"episode": episode_to_json(episode)}).raise_for_status().json()
    page = tab.open(f"/replay?replay={opened['replay_id']}")
    page.wait_for_selector("img[data-step]")
    page.get_by_label("Step of the episode").fill("2")
    page.get_by_label("Policy of player_1").select_option("human")
    keep_picture(page, "replay-play-on")
    page.get_by_role("button", name="Play on from step 2").click()
    wait_for_step(page, 2)
    expect(page.get_by_text("Your turn as X.")).to_be_visible()
    match_id = page.url.partition("match=")[2].partition("#")[0]
    assert [row["policy"] for row in state(server, match_id)["agents"]] == ["human", "random"]
    tab.check()


def test_a_replay_lists_chess_as_players_write_it_and_marks_the_move(tab: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/chess_v6", {"*": "human"})
    for move in ("e2e4", "e7e5", "g1f3", "b8c6"):
        server.api.post(f"/matches/{match_id}/moves", json={"move": move}).raise_for_status()
    page = tab.open(f"/replay?match={match_id}")
    page.wait_for_selector("img[data-step]")
    moves = page.get_by_role("list", name="Moves")
    expect(moves).to_have_text("1.e4e52.Nf3Nc6")
    expect(page.locator(".p-last")).to_have_count(0)
    moves.get_by_role("button", name="Nf3").click()
    page.wait_for_selector('img[data-step="3"]')
    expect(page.get_by_role("status")).to_have_text("White: Nf3")
    expect(moves.locator(".last")).to_have_text("Nf3")
    expect(page.locator(".p-last")).to_have_count(2)
    f3, board = middle(page.locator(".p-last").nth(1)), page.locator(".p-board").bounding_box()
    assert board is not None
    assert f3 == pytest.approx((board["x"] + 5.5 / 8 * board["width"], board["y"] + 5.5 / 8 * board["height"]), abs=2)
    assert page.locator(".p-coord.column").all_inner_texts() == list("abcdefgh")
    keep_picture(page, "replay-chess")
    tab.check()


def test_only_the_owner_and_the_holder_reassign_an_agent_and_both_are_told(
    tab: Tab, other: Tab, phone: Tab, server: WebServer
) -> None:
    match_id = open_match(server, "classic/tictactoe_v3", {"*": "human"})
    owner = tab.open(as_owner(match_id))
    owner.wait_for_selector(PICTURE)
    assert OWNER_KEYS[match_id] not in owner.url
    link = _invitation(owner)
    guest = other.open(link)
    guest.wait_for_selector(PICTURE)
    expect(guest.get_by_label("Policy of player_2")).to_be_visible()
    expect(guest.get_by_label("Policy of player_1")).to_have_count(0)
    stranger = phone.open(f"/play?match={match_id}")
    stranger.wait_for_selector(PICTURE)
    expect(stranger.get_by_label("Policy of player_2")).to_have_count(0)
    owner.get_by_label("Policy of player_2").select_option("random")
    told = "player_2 is now played by random instead of a person: changed by the match's owner."
    for page in (owner, guest):
        expect(page.get_by_text(told)).to_be_visible()
    expect(guest.get_by_text("You watch this match: its players and its owner control it.")).to_be_visible()
    expect(guest.get_by_role("button", name="Restart", exact=True)).to_have_count(0)
    expect(owner.get_by_role("button", name="Restart", exact=True)).to_have_count(1)
    for each in (tab, other, phone):
        each.check()


def _invitation(page: Page) -> str:
    page.evaluate("window.mosaicCopy = async (text) => { window.copied = text; return true; }")
    page.get_by_role("button", name="Link for player_2").click()
    page.wait_for_function("window.copied")
    link: Any = page.evaluate("window.copied")
    return "/play" + str(link).partition("/play")[2]
