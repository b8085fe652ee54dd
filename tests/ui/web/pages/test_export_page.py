"""The Export page: a run's policies chosen, exported in the background, compared, and downloaded."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.in_process import trained_here
from tests.ui.web.web_kit import Tab, WebServer, keep_picture

HANDS = {
    "name": "hands",
    "environment": {"family": "classic", "env_id": "rps_v2"},
    "policy_configuration": "independent",
    "training": {"worker": "tabular", "algorithm": "q_learning", "total_timesteps": 600},
}


def test_policies_are_exported_compared_and_downloaded(tab: Tab, phone: Tab, server: WebServer) -> None:
    run = trained_here(server.home, HANDS)
    page = tab.open(f"/export?run={run.id}")
    expect(page.get_by_role("button", name="player_0")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="player_0").click()
    page.get_by_role("button", name="Export", exact=True).click()
    page.wait_for_url("**/export?export=*")
    expect(page.get_by_text("1 of 1 files do what their policies do")).to_be_visible()
    table = page.get_by_role("table")
    expect(table).to_contain_text("player_1")
    expect(table).to_contain_text("100.00%")
    expect(table).not_to_contain_text("player_0")
    history = page.get_by_role("link", name="1 policy of")
    expect(history.first).to_contain_text("finished")  # not what it was when the page was opened
    keep_picture(page, "export")
    with page.expect_download() as started:
        page.get_by_role("link", name="player_1.onnx").last.click()
    written = server.api.get("/exports").json()[0]["written"][0]
    assert started.value.suggested_filename == "player_1.onnx"
    assert started.value.path().stat().st_size == written["size"]
    page.get_by_role("button", name="Light or dark").click()
    keep_picture(page, "export-light")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    narrow = phone.open(page.url.removeprefix(server.url))
    expect(narrow.get_by_role("table")).to_contain_text("player_1")
    keep_picture(narrow, "export-phone")
    assert narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.check()
    phone.check()
