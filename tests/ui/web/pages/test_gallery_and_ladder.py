"""Episodes of checkpoints, watched from a run's page, and the ladder that they lead to."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.in_process import trained_here
from tests.server.server_kit import eventually
from tests.ui.web.web_kit import Tab, WebServer, check_accessible, keep_picture

pytestmark = pytest.mark.slow


def test_a_checkpoint_plays_episodes_to_watch(tab: Tab, phone: Tab, server: WebServer) -> None:
    training = {"worker": "tabular", "total_timesteps": 2000}
    config = {"environment": {"env_id": "gym/FrozenLake-v1"}, "training": training, "name": "gallery"}
    run = trained_here(server.home, config)
    page = tab.open(f"/runs/{run.id}")
    page.get_by_role("button", name="Play 3 episodes").first.click()
    watch = page.get_by_label("Watch an episode")
    expect(watch).to_have_count(3)
    watch.first.scroll_into_view_if_needed()
    page.wait_for_function("[...document.querySelectorAll('.r-episode img')].some((each) => each.naturalWidth > 40)")
    keep_picture(page, "gallery")
    watch.first.click()
    expect(page.locator(".rp img")).to_be_visible()
    page.wait_for_function("location.search.includes('replay=')")  # the history has the page too
    page.get_by_role("link", name="Play", exact=True).first.click()
    expect(page.locator("h1")).to_have_text("Play")
    page.wait_for_function("location.pathname === '/play'")
    page.go_back()  # the picture that was still loading has no page to be drawn on
    expect(page.locator(".rp img")).to_be_visible()
    tab.check()
    page = phone.open(f"/runs/{run.id}")
    expect(page.get_by_label("Watch an episode").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    phone.check()


def test_a_tournament_is_on_the_ladder(tab: Tab, phone: Tab, server: WebServer) -> None:
    request = {
        "environment": {"env_id": "classic/connect_four_v3"},
        "policies": ["minimax:depth=1,leaf=lines", "random"],
        "games": 2,
    }
    begun = server.api.post("/tournament", json=request).json()["examination_id"]
    page = tab.open("/evaluate?env=classic/connect_four_v3")
    eventually(lambda: server.api.get(f"/tournament/{begun}").json()["ended"] is not None, "the end of the tournament")
    page.get_by_role("button", name="Ladder").click()
    expect(page.locator("h1")).to_have_text("Ladder")
    expect(page.get_by_role("row", name="minimax:depth=1")).to_be_visible()
    expect(page.get_by_role("row", name="random")).to_be_visible()
    keep_picture(page, "ladder")
    check_accessible(page)
    page = phone.open("/ladder?env=classic/connect_four_v3")
    games = page.get_by_role("columnheader", name="Games").bounding_box()
    assert games is not None
    assert games["x"] + games["width"] <= 390  # nothing has to be scrolled
    phone.check()
    tab.check()
