"""Copying in a browser that has no clipboard for pages, as over plain HTTP from another machine."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ui.web.web_kit import Tab, WebServer

pytestmark = pytest.mark.slow
WITHOUT_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
THAT_MAY_NOT_COPY = "document.execCommand = () => false;"


def copy_button(page: Page, command: str) -> Locator:
    """Beside this command: others appear above it when the page has found out what is not installed."""
    shown = page.locator(".m-cmd").filter(has=page.get_by_text(command, exact=True))
    return shown.get_by_label("Copy")


def pasted(page: Page) -> str:
    """What the next Ctrl+V brings."""
    page.locator(".m-search").click()
    field = page.get_by_label("Search pages, runs and environments")
    expect(field).to_be_focused()
    page.keyboard.press("Control+V")
    return field.input_value()


@pytest.mark.chosen
def test_a_command_and_a_link_are_copied_all_the_same(tab: Tab, server: WebServer) -> None:
    tab.page.add_init_script(WITHOUT_CLIPBOARD)
    page = tab.open("/")
    copy_button(page, "mosaic demo").click()
    expect(page.locator(".q-notification")).to_have_text("Copied")
    assert pasted(page) == "mosaic demo"
    asked = {"environment": {"env_id": "classic/tictactoe_v3"}, "agents": {"*": "human"}}
    opened = server.api.post("/matches", json=asked).raise_for_status().json()
    match_id = opened["match_id"]
    page = tab.open(f"/play?match={match_id}#key={opened['owner_key']}")
    page.get_by_role("button", name="Link for player_2").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert pasted(page).startswith(f"{server.url}/play?match={match_id}&agent=player_2#key=")
    tab.check()


def test_what_cannot_be_copied_is_said_and_shown(tab: Tab, server: WebServer) -> None:
    tab.page.add_init_script(WITHOUT_CLIPBOARD + THAT_MAY_NOT_COPY)
    page = tab.open("/")
    copy_button(page, "mosaic demo").click()
    expect(page.locator(".q-notification")).to_contain_text("select the text and press Ctrl+C")
    asked = {"environment": {"env_id": "classic/tictactoe_v3"}, "agents": {"*": "human"}}
    opened = server.api.post("/matches", json=asked).raise_for_status().json()
    match_id = opened["match_id"]
    page = tab.open(f"/play?match={match_id}#key={opened['owner_key']}")
    with page.expect_event("dialog") as shown:
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("button", name="Link for player_2").click()
    assert shown.value.default_value.startswith(f"{server.url}/play?match={match_id}&agent=player_2#key=")
    expect(page.get_by_role("button", name="Copied")).to_have_count(0)
    tab.check()
