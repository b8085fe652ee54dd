"""Play in a real browser: clicks, held keys, two people, reload, replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect

from mosaic.envs.catalog import make_env
from mosaic.runners.local import play_episode
from mosaic.runners.record import episode_to_json
from tests.policies.llm.stub import endpoint, first_legal
from tests.ui.web.web_kit import Tab, WebServer

pytestmark = pytest.mark.slow
PICTURE = "canvas[data-step]"
OWNER_KEYS: dict[str, str] = {}  # by match


def open_match(server: WebServer, env: str, agents: dict[str, str], **parts: Any) -> str:
    asked = {"environment": {"env_id": env}, "agents": agents, "ready_screen": False, **parts}
    answer = server.api.post("/matches", json=asked)
    assert answer.status_code == 201, answer.text
    OWNER_KEYS[answer.json()["match_id"]] = answer.json()["owner_key"]
    return str(answer.json()["match_id"])


def as_owner(match_id: str) -> str:
    """The owner's link to a match."""
    return f"/play?match={match_id}#key={OWNER_KEYS[match_id]}"


def state(server: WebServer, match_id: str) -> dict[str, Any]:
    found: dict[str, Any] = server.api.get(f"/matches/{match_id}").json()
    return found


def spot(page: Page, name: str) -> Any:
    """A button over the picture whose label ends so: a square, a cell, a column."""
    return page.locator(f'.p-spot:not(.other)[aria-label$="{name}"]')


@pytest.fixture
def other(chromium: Browser, server: WebServer) -> Iterator[Tab]:
    tab = Tab(chromium, server)
    yield tab
    tab.close()


def test_a_newcomer_plays_tictactoe_and_replays_it(tab: Tab, server: WebServer) -> None:
    page = tab.open("/play")
    page.locator(".p-card", has_text="Tic-tac-toe").click()
    page.wait_for_selector(PICTURE)
    match_id = page.url.partition("match=")[2]
    while state(server, match_id)["phase"] != "over":
        page.wait_for_selector(".p-spot, .p-end")
        free = page.locator(".p-spot")
        if free.count() == 0:
            break
        step = state(server, match_id)["step"]
        free.first.click()
        page.wait_for_function(
            "step => !document.querySelector('.p-spot') || +document.querySelector('canvas').dataset.step >= step + 2",
            arg=step,
        )
    expect(page.locator(".p-end")).to_be_visible()
    result = state(server, match_id)["result"]
    assert result in ("A draw.", "player_2 (minimax) wins.")
    steps = state(server, match_id)["step"]
    page.get_by_role("link", name="Replay", exact=True).click()
    page.wait_for_selector("img[data-step]")
    expect(page.get_by_text("bit for bit the same")).to_be_visible()
    first = page.locator("img[data-step]").get_attribute("src")
    page.get_by_label("Step of the episode").fill(str(steps))
    page.wait_for_selector(f'img[data-step="{steps}"]')
    assert page.locator("img[data-step]").get_attribute("src") != first
    tab.check()


def test_two_browsers_play_chess_with_castling_en_passant_and_promotion(
    tab: Tab, other: Tab, server: WebServer
) -> None:
    match_id = open_match(server, "classic/chess_v6", {"*": "human"})
    pages = [tab.open(f"/play?match={match_id}&agent=player_0"), other.open(f"/play?match={match_id}&agent=player_1")]
    line = [
        "e2e4",
        "a7a6",
        "g1f3",
        "a6a5",
        "f1c4",
        "a5a4",
        "e1g1",
        "a4a3",
        "e4e5",
        "d7d5",
        "e5d6",
        "a3b2",
        "d6c7",
        "b2a1n",
        "c7d8q",
    ]
    for number, move in enumerate(line):
        page = pages[number % 2]
        spot(page, move[:2]).click()
        spot(page, move[2:4]).click()
        if move[4:]:
            page.get_by_label({"n": "promote to knight", "q": "promote to queen"}[move[4]]).click()
        for each in pages:
            each.wait_for_selector(f'canvas[data-step="{number + 1}"]')
    assert [move["text"] for move in state(server, match_id)["moves"]] == line
    expect(pages[0].locator(".p-spot")).to_have_count(0)
    pages[1].reload()
    pages[1].wait_for_selector(f'canvas[data-step="{len(line)}"]')
    expect(spot(pages[1], "e8")).to_be_visible()
    tab.check()
    other.check()


def test_a_held_key_moves_the_paddle_until_it_is_released(tab: Tab, server: WebServer) -> None:
    agents = {"paddle_0": "human", "paddle_1": "random"}
    match_id = open_match(server, "butterfly/cooperative_pong", agents, rate_hz=30)
    page = tab.open(f"/play?match={match_id}")
    page.wait_for_selector(PICTURE)
    page.keyboard.down("ArrowUp")
    _wait_steps(page, 6)
    page.keyboard.up("ArrowUp")
    _wait_steps(page, 6)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".p-paused")).to_be_visible()
    episode = json.loads(server.api.get(f"/matches/{match_id}/episode").content)
    played = [actions["paddle_0"] for actions in episode["actions"]]
    ups = [step for step, action in enumerate(played) if action == 1]
    assert len(ups) >= 3
    assert ups == list(range(ups[0], ups[-1] + 1))
    assert played[-1] == 0
    tab.check()


def _wait_steps(page: Page, count: int) -> None:
    step = page.evaluate("+document.querySelector('canvas').dataset.step")
    page.wait_for_function("step => +document.querySelector('canvas').dataset.step >= step", arg=step + count)


def test_own_keys_are_remembered(tab: Tab, server: WebServer) -> None:
    match_id = open_match(server, "gym/FrozenLake-v1", {"*": "human"})
    page = tab.open(f"/play?match={match_id}")
    page.wait_for_selector(PICTURE)
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Another key for down").first.click()
    page.keyboard.press("j")
    page.get_by_role("button", name="Done").click()
    page.reload()
    page.wait_for_selector(PICTURE)
    expect(page.get_by_role("button", name="Reset")).to_be_visible()
    page.keyboard.press("j")
    page.wait_for_selector('canvas[data-step="1"]')
    assert state(server, match_id)["moves"][0]["text"] == "down"
    tab.check()


def test_keys_of_the_game_never_leave_the_match(tab: Tab, server: WebServer) -> None:
    tab.page.add_init_script("performance.now = () => 500;")  # a page that was opened half a second ago
    match_id = open_match(server, "gym/FrozenLake-v1", {"*": "human"})
    page = tab.open(f"/play?match={match_id}")
    page.wait_for_selector(PICTURE)
    page.keyboard.press("p")
    expect(page.locator(".p-paused")).to_be_visible()
    page.keyboard.press("p")
    page.get_by_role("button", name="Edit").click()
    for way, key in (("left", "g"), ("up", "r")):
        page.get_by_label(f"Another key for {way}").first.click()
        page.keyboard.press(key)
    page.get_by_role("button", name="Done").click()
    page.keyboard.press("g")
    page.wait_for_selector('canvas[data-step="1"]')
    page.keyboard.press("r")  # in a page without a game the two open the runs
    page.wait_for_selector('canvas[data-step="2"]')
    tab.check()


def test_a_match_that_is_gone_says_so(tab: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/tictactoe_v3", {"*": "human"})
    page = tab.open(f"/play?match={match_id}")
    page.wait_for_selector(PICTURE)
    server.api.delete(f"/matches/{match_id}")
    expect(page.get_by_role("alert")).to_contain_text("This match has ended: it was ended by a request.")
    tab.check()


def test_a_wrong_link_says_what_is_wrong(tab: Tab, server: WebServer) -> None:
    page = tab.open("/play?match=0")
    expect(page.get_by_role("heading", name="There is no match at this link")).to_be_visible()
    expect(page.get_by_role("link", name="New match")).to_be_visible()
    tab.errors.clear()  # the browser notes the response 404
    match_id = open_match(server, "classic/tictactoe_v3", {"*": "human"})
    page = tab.open(f"/play?match={match_id}&agent=nobody")
    expect(page.get_by_text("The link names the agent 'nobody'; this match has: player_1, player_2.")).to_be_visible()
    page.get_by_role("link", name="Watch the match").click()
    page.wait_for_selector(PICTURE)
    tab.check()


@pytest.mark.parametrize("env", ["classic/tictactoe_v3", "gym/CartPole-v1"])
def test_a_match_is_accessible_and_fits_a_phone(tab: Tab, phone: Tab, server: WebServer, env: str) -> None:
    match_id = open_match(server, env, {"*": "human"}, rate_hz=1)
    for each in (tab, phone):
        page = each.open(f"/play?match={match_id}")
        page.wait_for_selector(PICTURE)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        each.check()


def test_matches_and_episodes_are_listed_on_a_phone(phone: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/connect_four_v3", {"*": "human"})
    page = phone.open(f"/play?match={match_id}")
    page.wait_for_selector(PICTURE)
    page.get_by_role("switch", name="Keep the episodes").check()
    for step in range(7):  # four in a column, with the others beside it
        page.get_by_role("button", name=f"column {1 + step % 2}", exact=True).click()
        page.wait_for_selector(f'canvas[data-step="{step + 1}"]')
    expect(page.get_by_role("link", name="Replay the last one")).to_be_visible()
    name = state(server, match_id)["kept"][-1]
    page = phone.open("/play")
    expect(page.locator(".p-line", has_text="Connect Four").first).to_be_visible()
    expect(page.get_by_title(name, exact=True)).to_contain_text("Connect Four")
    page = phone.open("/replay")
    page.get_by_title(name, exact=True).click()
    page.wait_for_selector("img[data-step]")
    phone.check()


def test_many_matches_at_once_are_all_listed(tab: Tab, server: WebServer) -> None:
    opened = [open_match(server, "classic/tictactoe_v3", {"*": "random"}) for _ in range(9)]
    page = tab.open("/play")
    listed = page.get_by_role("group", name="Open matches").get_by_role("link")
    expect(listed.nth(8)).to_be_attached()
    expect(page.locator("section", has=listed).locator("header")).to_contain_text(str(listed.count()))
    addresses = [str(link.get_attribute("href")) for link in listed.all()]
    assert all(any(match_id in address for address in addresses) for match_id in opened)
    for match_id in opened:
        server.api.delete(f"/matches/{match_id}")
    tab.check()


def test_a_game_in_real_time_may_wait_instead(tab: Tab, server: WebServer) -> None:
    page = tab.open("/play?env=gym/CartPole-v1")
    expect(page.get_by_label("Policy of agent_0", exact=True)).to_be_visible()
    page.get_by_label("Pace", exact=True).click()
    page.get_by_role("option", name="wait for my action").click()
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_selector(PICTURE)
    match_id = page.url.partition("match=")[2]
    assert not state(server, match_id)["real_time"]
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('canvas[data-step="1"]')
    assert state(server, match_id)["step"] == 1
    tab.check()


@pytest.mark.chosen
def test_what_a_language_model_said_is_shown_beside_the_position(tab: Tab, server: WebServer) -> None:
    answers = iter(["The <b>centre</b>!"])
    with endpoint(lambda body: next(answers, None) or first_legal(body)) as served:
        episode = play_episode(make_env("mosaic/tictactoe"), {"player_1": served.policy(), "player_2": "random"})
    opened = server.api.post("/replays", json={"episode": episode_to_json(episode)})
    assert opened.status_code == 201, opened.text
    reports = server.api.get(f"/replays/{opened.json()['replay_id']}/reports").json()
    assert [report["step"] for report in reports] == [report.step for report in episode.reports]
    page = tab.open(f"/replay?replay={opened.json()['replay_id']}")
    transcript = page.get_by_role("region", name="Transcript")
    expect(transcript).to_contain_text("decision for step 1")
    expect(transcript).to_contain_text("The <b>centre</b>!")  # text, never markup
    expect(transcript.locator(".rp-line.bad")).to_have_count(1)
    expect(transcript).to_contain_text("retries 1")
    transcript.get_by_role("button", name="Next decision").click()
    expect(transcript).to_contain_text("decision for step 3")
    page.get_by_role("button", name="One step back").click()
    expect(transcript).to_contain_text("No policy reported on a decision in this position.")
    tab.check()
