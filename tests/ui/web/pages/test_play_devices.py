"""Continuous actions in a real browser: keys, the mouse, and a gamepad that may be pulled out."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.ui.web.web_kit import Tab, WebServer

pytestmark = pytest.mark.slow
PENDULUM = {"environment": {"env_id": "gym/Pendulum-v1"}, "agents": {"*": "human"}, "rate_hz": 30}
FAKE_PADS = "navigator.getGamepads = () => window.pads ?? [];"
STEP = "+document.querySelector('canvas').dataset.step"


def begin(tab: Tab, server: WebServer, asked: dict[str, object]) -> tuple[Page, str]:
    match_id = str(
        server.api.post("/matches", json={**asked, "ready_screen": False}).raise_for_status().json()["match_id"]
    )
    tab.page.add_init_script(FAKE_PADS)
    page = tab.open(f"/play?match={match_id}")
    page.wait_for_selector("canvas[data-step]")
    return page, match_id


def wait_steps(page: Page, count: int = 6) -> int:
    """Answers the step at which it waited long enough."""
    step = int(page.evaluate(STEP)) + count
    page.wait_for_function(f"(step) => {STEP} >= step", arg=step)
    return step


def torques(server: WebServer, match_id: str) -> list[float]:
    episode = json.loads(server.api.get(f"/matches/{match_id}/episode").content)
    return [float(actions["agent_0"]["array"][0]) for actions in episode["actions"]]


@pytest.mark.chosen
def test_the_mouse_steers_until_it_is_told_not_to(tab: Tab, server: WebServer) -> None:
    page, match_id = begin(tab, server, PENDULUM)
    page.get_by_role("switch", name="Steer with the mouse").check()
    canvas = page.locator("canvas[data-step]").bounding_box()
    assert canvas is not None
    page.mouse.move(canvas["x"] + 0.75 * canvas["width"], canvas["y"] + 0.5 * canvas["height"])
    wait_steps(page)
    moved = wait_steps(page)
    page.get_by_role("switch", name="Steer with the mouse").uncheck()
    wait_steps(page)
    still = wait_steps(page)
    page.get_by_role("button", name="Pause", exact=True).click()
    played = torques(server, match_id)
    assert played[moved - 3] == pytest.approx(1.0, abs=0.05)  # three quarters to the right is half of the strongest
    assert played[still - 1] == 0.0
    tab.check()


def test_a_finger_steers_until_it_leaves_the_picture(phone: Tab, server: WebServer) -> None:
    phone.page.add_init_script(
        "const real = matchMedia; matchMedia = (q) => q === '(hover: none)' ? { matches: true } : real(q);"
    )
    page, match_id = begin(phone, server, PENDULUM)
    expect(page.get_by_role("switch", name="Steer by touch")).to_be_checked()
    canvas = page.locator("canvas[data-step]")
    box = canvas.bounding_box()
    assert box is not None
    touch = {
        "pointerType": "touch",
        "clientX": box["x"] + 0.25 * box["width"],
        "clientY": box["y"] + 0.5 * box["height"],
    }
    canvas.dispatch_event("pointerdown", touch)
    wait_steps(page)
    held = wait_steps(page)
    canvas.dispatch_event("pointerup", touch)
    wait_steps(page)
    released = wait_steps(page)
    page.get_by_role("button", name="Pause", exact=True).click()
    played = torques(server, match_id)
    assert played[held - 3] == pytest.approx(-1.0, abs=0.05)
    assert played[released - 1] == 0.0
    phone.check()


def test_a_gamepad_steers_and_lets_go_when_it_is_pulled_out(tab: Tab, server: WebServer) -> None:
    page, match_id = begin(tab, server, PENDULUM)
    page.evaluate("window.pads = [null, { axes: [-0.5, 0, 0, 0], buttons: [] }]")
    wait_steps(page)
    left = wait_steps(page)
    page.evaluate("window.pads[1].axes = [0.05, 0, 0, 0]")  # a worn stick at rest
    wait_steps(page)
    rest = wait_steps(page)
    page.evaluate("window.pads[1].axes = [1, 0, 0, 0]")
    wait_steps(page)
    right = wait_steps(page)
    page.evaluate("window.pads = []")
    wait_steps(page)
    gone = wait_steps(page)
    page.get_by_role("button", name="Pause", exact=True).click()
    played = torques(server, match_id)
    assert [played[step - 3] for step in (left, rest, right)] == [-1.0, 0.0, 2.0]
    assert played[gone - 1] == 0.0
    tab.check()


def test_a_gamepad_presses_the_keys_of_a_game_with_few_actions(tab: Tab, server: WebServer) -> None:
    page, match_id = begin(
        tab, server, {"environment": {"env_id": "gym/MountainCar-v0"}, "agents": {"*": "human"}, "rate_hz": 30}
    )
    page.evaluate(
        "window.pads = [{ axes: [0, 0], buttons: Array.from({ length: 16 }, (_, i) => ({ pressed: i === 15 })) }]"
    )
    wait_steps(page)
    right = wait_steps(page)
    page.evaluate("window.pads = []")
    wait_steps(page)
    gone = wait_steps(page)
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".p-paused")).to_be_visible()
    episode = json.loads(server.api.get(f"/matches/{match_id}/episode").content)
    played = [actions["agent_0"] for actions in episode["actions"]]
    assert (played[right - 3], played[gone - 1]) == (2, 1)
    tab.check()


def test_keys_move_an_axis_while_they_are_held(tab: Tab, server: WebServer) -> None:
    page, match_id = begin(tab, server, PENDULUM)
    page.keyboard.down("ArrowLeft")
    wait_steps(page)
    held = wait_steps(page)
    page.keyboard.up("ArrowLeft")
    wait_steps(page)
    released = wait_steps(page)
    page.get_by_role("button", name="Pause", exact=True).click()
    played = torques(server, match_id)
    assert (played[held - 3], played[released - 1]) == (-2.0, 0.0)
    tab.check()
