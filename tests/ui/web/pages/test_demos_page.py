"""Demonstrations in a real browser: saved with one click after a takeover, shown, replayed, dropped and deleted."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.ui.web.pages.test_play_page import as_owner, open_match, spot
from tests.ui.web.web_kit import Tab, WebServer

pytestmark = pytest.mark.slow
pytest.importorskip("minari", reason="the extra 'demos' is not installed")


def test_a_match_with_a_takeover_becomes_a_demonstration(tab: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/tictactoe_v3", {"player_1": "human", "player_2": "minimax"})
    page = tab.open(as_owner(match_id))
    spot(page, "1").click()
    expect(page.get_by_text("Your turn as X.")).to_be_visible()
    page.get_by_role("button", name="Take over").click()
    spot(page, "2").click()
    expect(page.get_by_text("Your turn as O.")).to_be_visible()
    spot(page, "9").click()
    expect(page.get_by_text("Your turn as X.")).to_be_visible()
    page.get_by_role("button", name="Hand back").first.click()
    spot(page, "3").click()
    page.get_by_role("button", name="Save as demonstration").click()
    expect(page.get_by_role("button", name="Saved as demonstration")).to_be_disabled()
    page.get_by_role("link", name="Show", exact=True).click()
    expect(page.get_by_text("player_1: human; player_2: minimax → human")).to_be_visible()
    tab.check()
    page.get_by_role("link", name="Replay").click()
    expect(page.get_by_text("Replayed bit for bit the same, 5 env steps.")).to_be_visible()
    tab.open("/demos")
    page.get_by_role("link", name="tictactoe_v3-demo").click()
    page.get_by_label("First step to cut (default: none)").fill("3")
    page.get_by_role("button", name="Trim").click()
    page.get_by_role("dialog").get_by_role("button", name="Trim").click()
    expect(page.get_by_text("tictactoe_v3-demo has 1 episode now.")).to_be_visible()
    assert [row["steps"] for row in server.api.get("/demos/tictactoe_v3-demo").json()["datasets"]] == [2, 1]
    page.get_by_role("button", name="Drop the last episode").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop the last episode").click()
    expect(page.get_by_text("nothing was changed. To delete it, type")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text('None yet. Switch on "Record as demonstration" in a match.')).to_be_visible()


def test_a_recording_is_switched_on_and_off(phone: Tab, server: WebServer) -> None:
    match_id = open_match(server, "classic/tictactoe_v3", {"*": "human"})
    page = phone.open(f"/play?match={match_id}")
    switch = page.get_by_role("switch", name="Record as demonstration")
    page.get_by_label("Name of the demonstration").fill("a b")
    switch.click()
    expect(page.get_by_text("does not understand this message").first).to_be_visible()
    expect(switch).not_to_be_checked()
    page.get_by_label("Name of the demonstration").fill("mine")
    switch.click()
    expect(page.get_by_text("Episodes are added to mine when they end")).to_be_visible()
    expect(switch).to_be_checked()
    switch.click()
    expect(page.get_by_label("Name of the demonstration")).to_have_value("mine")
    phone.check()
