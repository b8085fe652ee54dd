"""Several browsers, engines and servers around one match or run: seats, held keys, reloads, restarts, tokens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.web.web_kit import Tab, WebServer, end_runs, keep_picture, toy, wait_for_colour

pytestmark = pytest.mark.slow
PICTURE = "canvas[data-step]"
CURVE = ".nicegui-echart canvas"
_FOR_LONG = 100_000  # iterations: longer than any test


@pytest.fixture
def other(chromium: Browser, server: WebServer) -> Iterator[Tab]:
    tab = Tab(chromium, server)
    yield tab
    tab.close()


def open_match(server: WebServer, env: str, agents: dict[str, str], **parts: Any) -> str:
    asked = {"environment": {"env_id": env}, "agents": agents, "ready_screen": False, **parts}
    answer = server.api.post("/matches", json=asked)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["match_id"])


def state(server: WebServer, match_id: str) -> dict[str, Any]:
    found: dict[str, Any] = server.api.get(f"/matches/{match_id}").json()
    return found


def square(page: Page, name: str) -> Any:
    return page.locator(f'.p-spot:not(.other)[aria-label$="{name}"]')


def wait_for_step(page: Page, step: int) -> None:
    page.wait_for_function("step => +document.querySelector('canvas[data-step]')?.dataset.step >= step", arg=step)


@pytest.mark.chosen
def test_each_browser_moves_its_own_agent_and_survives_a_reload(tab: Tab, other: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/tictactoe_v3", {"*": "human"})
    pages = [tab.open(f"/play?match={match_id}&agent=player_1"), other.open(f"/play?match={match_id}&agent=player_2")]
    for page in pages:
        page.wait_for_selector(PICTURE)
    for step in range(5):
        mover, waiter = pages[step % 2], pages[1 - step % 2]
        expect(mover.locator(".p-spot").first).to_be_visible()
        expect(waiter.locator(".p-spot")).to_have_count(0)
        expect(waiter.locator(".p-said")).to_have_text(f"Waiting for {'XO'[step % 2]}.")
        if step == 2:
            for page in pages:
                page.reload()
                wait_for_step(page, step)
            expect(waiter.locator(".p-spot")).to_have_count(0)
        mover.locator(".p-spot").first.click()
        for page in pages:
            wait_for_step(page, step + 1)
    steps = state(server, match_id)["step"]
    assert steps == 5
    for page, number in zip(pages, (1, 2), strict=True):
        wait_for_step(page, steps)
        assert page.locator(".p-pairs li").count() == (steps + 1) // 2
        keep_picture(page, f"two-browsers-{number}")
    tab.check()
    other.check()


def test_keys_held_in_two_browsers_move_two_paddles(tab: Tab, other: Tab, server: WebServer) -> None:
    # It begins when both have pressed a key, and is over after 48 steps.
    match_id = open_match(server, "butterfly/cooperative_pong", {"*": "human"}, ready_screen=True, rate_hz=4)
    left = tab.open(f"/play?match={match_id}&agent=paddle_0")
    right = other.open(f"/play?match={match_id}&agent=paddle_1")
    for page in (left, right):
        page.wait_for_selector(PICTURE)
        keys = page.locator(".p-keys kbd").all_inner_texts()
        assert {"↑", "↓"} <= set(keys), keys  # alone at its keyboard, each has the arrows
    left.keyboard.down("ArrowUp")
    right.keyboard.down("ArrowDown")
    wait_for_step(left, 12)
    keep_picture(left, "real-time-match")
    left.keyboard.up("ArrowUp")
    wait_for_step(right, state(server, match_id)["step"] + 6)
    left.get_by_role("button", name="Pause").click()
    for page in (left, right):
        expect(page.locator(".p-paused")).to_be_visible()
    played = json.loads(server.api.get(f"/matches/{match_id}/episode").content)["actions"]
    both = [step for step, actions in enumerate(played) if (actions["paddle_0"], actions["paddle_1"]) == (1, 2)]
    assert len(both) >= 6
    assert both == list(range(both[0], both[-1] + 1))
    assert (played[-1]["paddle_0"], played[-1]["paddle_1"]) == (0, 2)  # one was released, one is still held
    tab.check()
    other.check()


@pytest.mark.skipif(not (shutil.which("stockfish") or Path("/usr/games/stockfish").exists()), reason="no stockfish")
def test_stockfish_answers_opening_moves(tab: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/chess_v6", {"player_0": "human", "player_1": "stockfish:skill=0,nodes=500"})
    page = tab.open(f"/play?match={match_id}")
    page.wait_for_selector(PICTURE)
    for number, (start, end) in enumerate((("e2", "e4"), ("g1", "f3"), ("a2", "a3"))):
        square(page, start).click()
        square(page, end).click()
        wait_for_step(page, 2 * number + 2)
    moves = state(server, match_id)["moves"]
    assert [move["text"] for move in moves[::2]] == ["e2e4", "g1f3", "a2a3"]
    assert [move["agent"] for move in moves[1::2]] == ["player_1"] * 3
    expect(square(page, "h2")).to_be_visible()
    keep_picture(page, "chess-against-stockfish")
    tab.check()


def test_a_restarted_server_keeps_the_run_and_the_match(chromium: Browser, tmp_path: Path) -> None:
    server = WebServer(tmp_path / "home")
    run_id = server.submit(toy(_FOR_LONG, 0.02, name="lasting"))
    match_id = open_match(server, "classic/tictactoe_v3", {"*": "human"})
    match, run = Tab(chromium, server), Tab(chromium, server)
    page = match.open(f"/play?match={match_id}")
    page.wait_for_selector(PICTURE)
    page.locator(".p-spot").first.click()
    wait_for_step(page, 1)
    wait_for_colour(run.open(f"/runs/{run_id}"), CURVE, "--s1", 40)
    server.end()
    again = WebServer(tmp_path / "home", server.port)
    page.wait_for_function("id => fetch('/matches/' + id).then((reply) => reply.ok, () => false)", arg=match_id)
    expect(page.locator(".p-said")).to_have_text("Your turn as O.")
    expect(page.locator(".p-spot")).to_have_count(8)
    page.locator(".p-spot").first.click()
    wait_for_step(page, 2)
    assert [move["step"] for move in state(again, match_id)["moves"]] == [1, 2]
    before = again.api.get(f"/runs/{run_id}").json()["env_steps"]
    run.page.wait_for_function(
        "before => parseInt(document.querySelector('.r-strip .v')?.textContent.replaceAll(',', '')) > before",
        arg=before,
    )
    wait_for_colour(run.page, CURVE, "--s1", 40)
    run.page.get_by_role("button", name="Stop and save").click()
    expect(run.page.locator(".m-crumb .m-pill")).to_have_text("stopped")
    for tab in (match, run):
        tab.close()
    end_runs(tmp_path / "home")
    again.end()


SOCKET_CODE = """address => new Promise((told) => {
  const socket = new WebSocket(address);
  socket.onopen = () => told("open");
  socket.onclose = () => told("closed");
})"""


def test_sockets_open_only_to_who_has_the_token(chromium: Browser, tab: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/tictactoe_v3", {"*": "human"})
    run_id = server.submit(toy(5, name="guarded"))
    address = server.url.replace("http", "ws")
    sockets = [f"{address}/{path}" for path in (f"matches/{match_id}/stream", f"runs/{run_id}/frames")]
    stranger = chromium.new_context()
    wrong = chromium.new_context()
    wrong.add_cookies([{"name": "mosaic_token", "value": "wrong" * 9, "url": server.url}])
    for context in (stranger, wrong):
        page = context.new_page()
        page.goto(f"{server.url}/play?match={match_id}")
        expect(page.get_by_role("heading")).to_have_text("This page requires a token.")
        assert [page.evaluate(SOCKET_CODE, each) for each in sockets] == ["closed", "closed"]
        context.close()
    page = tab.open("/")
    assert [page.evaluate(SOCKET_CODE, each) for each in sockets] == ["open", "open"]
    with pytest.raises(httpx.HTTPStatusError):
        httpx.get(f"{server.url}/matches/{match_id}/episode").raise_for_status()
