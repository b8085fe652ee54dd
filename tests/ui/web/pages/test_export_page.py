"""The Export page: a run's policies chosen, exported in the background, compared, and downloaded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from mosaic.config.export import ExportRequest
from mosaic.runs.exporting import jobs
from mosaic.runs.exporting.record import PROGRESS
from mosaic.store.index.summary import RunSummary
from mosaic.store.run_folder import RunFolder
from mosaic.store.store import Store
from mosaic.telemetry.events.writer import EventWriter
from mosaic.ui.web.pages.export.form import run_choices
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


def test_a_chosen_run_that_the_list_does_not_have_is_offered_nevertheless() -> None:
    """A choice that is not offered would be an error of the page; the list is read at another moment."""
    row = cast(RunSummary, SimpleNamespace(run_id="rps-1", name="hands"))
    assert run_choices([row], "rps-1") == {"rps-1": "hands · rps-1"}
    assert run_choices([row], "rps-2") == {"rps-2": "rps-2", "rps-1": "hands · rps-1"}
    assert run_choices([row], "") == {"rps-1": "hands · rps-1"}


def test_output_arrives_while_an_export_works_and_cancel_ends_it(
    tab: Tab, phone: Tab, server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "start_attempt", lambda *_, **__: None)  # this test plays its process
    run = trained_here(server.home, HANDS)
    export_id = jobs.ExportJobs(Store(server.home)).start(ExportRequest(run=run.id)).export_id
    folder = RunFolder(server.home / "exports" / export_id)
    folder.log.write_text("policy 1 of 2, 'player_0': recording\n")
    page = tab.open(f"/export?export={export_id}")
    output = page.get_by_role("log")
    expect(output).to_contain_text("'player_0': recording")
    place = {"policy": "player_1", "number": 2, "policies": 2, "step": "comparing", "done": 500, "total": 1000}
    with EventWriter(folder.metrics, 1) as writer:
        writer.report(kind=PROGRESS, **place)
    with folder.log.open("a") as log:
        log.write("<b>'player_1'</b>: comparing\n" * 30)
    expect(page.get_by_role("status").first).to_contain_text("500 of 1,000")
    expect(output).to_contain_text("<b>'player_1'</b>: comparing")  # as text
    assert output.evaluate("log => log.scrollHeight > log.clientHeight && log.scrollTop === 0")  # at its last line
    keep_picture(page, "export-live")
    narrow = phone.open(f"/export?export={export_id}")
    expect(narrow.get_by_role("log")).to_contain_text("comparing")
    keep_picture(narrow, "export-live-phone")
    assert narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("It was cancelled, and no file was written.")).to_be_visible()
    expect(page.get_by_role("link", name="2 policies of").first).to_contain_text("stopped")
    expect(page.get_by_role("log")).to_contain_text("comparing")
    expect(narrow.get_by_text("It was cancelled")).to_be_visible()
    assert server.api.get(f"/exports/{export_id}").json()["state"] == "stopped"
    assert server.api.delete(f"/runs/{run.id}").is_success
    page.reload()
    expect(page.get_by_text("It was cancelled, and no file was written.")).to_be_visible()  # history outlives the run
    tab.check()
    phone.check()
