"""The Runs page: runs are labelled, sorted, compared, extended, hidden and deleted there."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mosaic.runs.trainer import Trainer
from tests.server.server_kit import eventually
from tests.ui.web.web_kit import Tab, WebServer, keep_picture, toy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ended(server: WebServer) -> list[str]:
    """Two runs that have ended, with a tag of their own."""
    ids = [server.submit(toy(20, name=name, tags=["own"])) for name in ("alpha", "beta")]
    for run_id in ids:
        Trainer(server.home).run(run_id).wait(60)
    return ids


def choose(page: Page, run: str, action: str) -> None:
    page.get_by_label(f"Actions on {run}").click()
    page.get_by_role("menuitem", name=action).click()


@pytest.mark.chosen
def test_a_run_is_labelled_hidden_and_deleted(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(20, name="gamma", tags=["once"]))
    Trainer(server.home).run(run_id).wait(60)
    page = tab.open("/runs?tag=once")
    choose(page, "gamma", "Name, tags and note")
    page.get_by_label("Name", exact=True).fill("a/b")
    page.get_by_label("Tags", exact=True).fill("once, twice")
    page.get_by_label("Note", exact=True).fill("the rate was too high")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".m-complaint")).to_contain_text("without '@' and '/'")
    page.get_by_role("button", name="Close").click()
    tab.errors.clear()  # the browser notes a refused request
    page.get_by_label("Name", exact=True).fill("a better name")  # what else was typed is still there
    page.get_by_role("button", name="Save").click()
    row = page.get_by_role("row", name="a better name")
    expect(row).to_contain_text("the rate was too high")
    expect(row).to_contain_text("twice")
    choose(page, "a better name", "Hide from lists")
    expect(page.get_by_text("No run matches.")).to_be_visible()
    page.get_by_role("button", name="Hidden", exact=True).click()
    choose(page, "a better name", "Delete")
    expect(page.get_by_role("dialog")).to_contain_text("This cannot be undone.")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert server.api.get(f"/runs/{run_id}").status_code == 404
    tab.check()


def test_a_selection_is_in_the_address(tab: Tab, ended: list[str]) -> None:
    page = tab.open("/runs?tag=own")
    for name in ("alpha", "beta"):
        page.get_by_role("checkbox", name=f"Select {name}").click()
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    page.wait_for_function("(ids) => ids.every((id) => location.search.includes(id))", arg=ended)
    page.get_by_role("combobox", name="Measure").click()
    page.get_by_role("option", name="Env steps per second", exact=True).click()  # any measure of the runs
    page.wait_for_function("location.search.includes('measure=Env+steps+per+second')")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_function("location.search.includes('sort=name')")
    page.reload()
    expect(page.get_by_role("combobox", name="Measure")).to_have_value("Env steps per second")
    expect(page.get_by_text("2 selected")).to_be_visible()
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
    expect(page.locator(".u-table tbody tr b").first).to_have_text("alpha")
    page.get_by_role("button", name="Run ↑").click()
    expect(page.locator(".u-table tbody tr b").first).to_have_text("beta")
    page.get_by_role("combobox", name="Groups").click()
    page.get_by_role("option", name="By configuration").click()
    expect(page.locator(".u-group")).to_contain_text("CartPole · toy walk")
    keep_picture(page, "runs-selected")
    page.get_by_role("button", name="Clear the selection").click()
    expect(page.get_by_role("heading", name="Compare")).to_be_hidden()
    tab.check()


def test_several_runs_are_tagged_at_once(tab: Tab, server: WebServer, ended: list[str]) -> None:
    page = tab.open(f"/runs?compare={','.join(ended)}")
    page.get_by_role("button", name="Add tags").click()
    page.get_by_label("Tags to add").fill("both")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("button", name="both", exact=True)).to_be_visible()  # perhaps after the first of the two
    tags = lambda: {tuple(server.api.get(f"/runs/{run_id}").json()["tags"]) for run_id in ended}  # noqa: E731
    eventually(lambda: tags() == {("own", "both")}, "both runs have the tag")
    tab.check()


def test_a_run_trains_longer_and_again(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(20, name="delta-4", tags=["long"]))
    Trainer(server.home).run(run_id).wait(60)
    page = tab.open(f"/runs/{run_id}")
    expect(page.locator(".r-strip")).to_contain_text("Took")  # the page knows that it has ended
    page.get_by_label("More actions on this run").click()
    page.get_by_role("menuitem", name="Train longer").click()
    page.get_by_label("Env steps in all").fill("many")
    page.get_by_role("button", name="Continue training").click()
    expect(page.locator(".m-complaint")).to_contain_text("it should be a whole number")
    page.get_by_role("button", name="Close").click()
    tab.errors.clear()  # the browser notes a refused request
    page.get_by_label("Env steps in all").fill("1e3")
    page.get_by_role("button", name="Continue training").click()
    expect(page.locator(".r-strip .v").first).to_contain_text("1,000", timeout=60_000)
    expect(page.locator(".m-crumb .m-pill")).to_have_text("finished")
    page.get_by_label("More actions on this run").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Download as one file").click()
    assert Path(download.value.path()).read_bytes()[:2] == b"\x1f\x8b"
    page.get_by_label("More actions on this run").click()
    page.get_by_role("menuitem", name="Train again with changes").click()
    expect(page.locator("h1")).to_have_text("Train")
    expect(page.get_by_label("Name of the run")).to_have_value("delta-5")
    tab.check()


def test_the_list_fits_a_phone(phone: Tab, ended: list[str]) -> None:
    page = phone.open("/runs?tag=own")
    expect(page.get_by_role("row", name="alpha")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page = phone.open("/runs?tag=own&group=env")
    expect(page.locator(".u-group")).to_contain_text("CartPole")
    names = page.locator(".u-name")
    assert min(box["width"] for each in names.all() if (box := each.bounding_box())) > 100
    choose(page, "alpha", "Name, tags and note")
    expect(page.get_by_label("Note", exact=True)).to_be_visible()
    assert page.evaluate("document.querySelector('.m-dialog').getBoundingClientRect().right <= innerWidth")
    phone.check()


def test_the_page_of_a_run_fits_a_phone(phone: Tab, ended: list[str]) -> None:
    page = phone.open(f"/runs/{ended[0]}")
    axes = page.get_by_role("group", name="Horizontal axis").get_by_role("button")
    expect(axes).to_have_count(4)
    assert len({(each.bounding_box() or {})["y"] for each in axes.all()}) == 1  # in one line
    page.get_by_label("More actions on this run").click()
    longest = page.get_by_role("menuitem", name="Train again with changes")
    expect(longest).to_be_visible()
    assert longest.evaluate("(item) => item.scrollWidth <= item.clientWidth")
    assert page.locator(".q-menu").evaluate("(menu) => menu.scrollWidth <= menu.clientWidth")
    phone.check()


def test_a_queued_run_says_its_place_and_why_it_waits(tab: Tab, phone: Tab, server: WebServer) -> None:
    much = {"num_env_runners": 1, "max_memory_mb": 60_000}  # of the 100,000 MB that the server may use
    alive = server.submit(toy(10**5, 0.05, name="in-the-way", tags=["queue"], resources=much))
    run = Trainer(server.home).run(alive)
    next(event for event in run.events(follow=True) if event["kind"] == "iteration")
    waiting = [server.submit(toy(20, name=f"waits-{place}", tags=["queue"], resources=much)) for place in (1, 2)]
    page = tab.open("/runs?tag=queue")
    for name, place, why in (
        ("waits-1", "next in the queue", "It needs 60,000 MB of memory, and others use it."),
        ("waits-2", "1 before it", "1 run will start first."),
    ):
        row = page.get_by_role("row", name=name)
        expect(row).to_contain_text("queued")
        expect(row.locator(".u-far")).to_contain_text(place)
        expect(row.locator(".u-far [title]")).to_have_attribute("title", why)
        expect(row.locator(".m-bar.queued")).to_be_visible()
    expect(page.get_by_role("row", name="in-the-way").locator(".m-bar.running")).to_be_visible()
    keep_picture(page, "runs-queued")
    small = phone.open("/runs?tag=queue")
    for name, words in (("waits-1", "next"), ("waits-2", "1 before it")):
        place = small.get_by_role("row", name=name).locator(".only-phone")
        expect(place).to_have_text(words)
        expect(place).to_be_visible()
        assert place.evaluate("(element) => element.scrollWidth <= element.clientWidth")  # nothing is cut off
    stage = page.locator(".r-stage")
    page = tab.open(f"/runs/{waiting[1]}")
    expect(stage).to_have_text("Number 2 in the queue. 1 run will start first.")
    page = tab.open(f"/runs/{waiting[0]}")
    expect(stage).to_have_text("Number 1 in the queue. It needs 60,000 MB of memory, and others use it.")
    page.get_by_role("button", name="Remove from the queue").click()
    expect(page.locator(".m-crumb .m-pill")).to_have_text("stopped")
    run.stop(patience_s=1.0)
    page = tab.open(f"/runs/{waiting[1]}")
    expect(page.locator(".m-crumb .m-pill")).to_have_text("finished")  # its turn came
    expect(page.locator(".r-strip .m-bar.finished")).to_be_visible()
    page = tab.open("/runs?tag=queue")
    expect(page.get_by_role("row", name="in-the-way").locator(".m-bar.stopped")).to_be_visible()
    tab.check()
    phone.check()


def test_a_run_is_renamed_and_deleted_on_its_page(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(5, name="epsilon"))
    Trainer(server.home).run(run_id).wait(60)
    page = tab.open(f"/runs/{run_id}")
    page.get_by_label("More actions on this run").click()
    page.get_by_role("menuitem", name="Name, tags and note").click()
    page.get_by_label("Name", exact=True).fill("zeta")
    page.get_by_label("Note", exact=True).fill("kept for the curve")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".m-crumb")).to_contain_text("zeta")
    expect(page.locator(".r-note")).to_contain_text("kept for the curve")
    page.get_by_label("More actions on this run").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("h1")).to_have_text("Runs")
    assert server.api.get(f"/runs/{run_id}").status_code == 404
    tab.check()


def test_columns_keep_their_places_with_long_names_and_tags(tab: Tab, server: WebServer) -> None:
    long = "a-name-that-says-everything-about-the-run-and-more-than-a-column-can-hold-1"
    tags = ["wide", "a-tag-that-is-longer-than-its-column", "another-tag-of-that-kind", "fourth"]
    run_id = server.submit(toy(5, name=long, tags=tags))
    Trainer(server.home).run(run_id).wait(60)
    page = tab.open("/runs?tag=wide")
    row = page.locator(".u-table tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("hold-1")  # seeds differ at the ends of their names
    expect(row.locator(".u-tags")).to_contain_text("+2")
    inside = """(cells) => cells.every((cell) => [...cell.querySelectorAll("b, .m-tag, .m-pill, .m-bar")].every(
      (part) => part.getBoundingClientRect().right <= cell.getBoundingClientRect().right + 1))"""
    assert row.locator("td").evaluate_all(inside)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    tab.check()


def test_a_run_that_cannot_be_read_is_told(tab: Tab, server: WebServer) -> None:
    apart = {"num_env_runners": 1, "max_memory_mb": 200_000}  # more than there is: the server never starts it
    run = Trainer(server.home).submit(toy(5, name="damaged", resources=apart), start=False)
    run.stop()
    whole = run.folder.config.read_bytes()
    run.folder.config.write_text("{")
    run.folder.state.touch()  # the index reads it again
    page = tab.open("/runs")
    page.get_by_text("1 run cannot be read and is not in this list.").click()
    expect(page.locator(".u-unreadable li")).to_contain_text(run.id)
    expect(page.locator(".u-unreadable li")).to_contain_text("config.json")
    assert [row["run_id"] for row in server.api.get("/unreadable-runs").json()] == [run.id]
    run.folder.config.write_bytes(whole)
    expect(page.get_by_text("cannot be read")).to_be_hidden()
    tab.check()
