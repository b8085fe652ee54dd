"""The pages in a real browser: they open, live, draw, obey and stay clean."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal

import httpx
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, expect

from mosaic.runs.trainer import Trainer
from mosaic.store.store import Store
from mosaic.telemetry.frames.writer import FrameWriter
from tests.ui.web import web_kit
from tests.ui.web.web_kit import Tab, WebServer, check_accessible, end_runs, toy, wait_for_colour

pytestmark = pytest.mark.slow
CURVE = ".nicegui-echart canvas"
_FOR_LONG = 100_000  # iterations: longer than any test


@pytest.mark.chosen
def test_the_token_is_asked_for_and_then_remembered(chromium: Browser, server: WebServer) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{server.url}/runs")
    expect(page.get_by_role("heading")).to_have_text("This page requires a token.")
    page.get_by_label("Token").fill("wrong" * 9)
    page.get_by_role("button").click()
    expect(page.get_by_role("heading")).to_have_text("That token is not valid for this server.")
    page.get_by_label("Token").fill(server.token)
    page.get_by_role("button").click()
    expect(page.locator("h1")).to_have_text("Runs")
    assert server.token not in page.url
    page.goto(f"{server.url}/")
    expect(page.locator("h1")).to_have_text("Home")
    context.close()


def test_nothing_is_served_without_the_token(server: WebServer) -> None:
    socket = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    for path in ("/", "/static/mosaic.css", "/static/envs/go.webp", "/series?ref=a&metric=b", socket, "/play"):
        assert httpx.get(server.url + path).status_code == 401, path
    foreign = {"Authorization": f"Bearer {server.token}", "Host": "evil.example"}
    assert httpx.get(f"{server.url}/static/mosaic.css", headers=foreign).status_code == 421
    from_elsewhere = {"Cookie": f"mosaic_token={server.token}", "Origin": "http://evil.example"}
    assert httpx.get(server.url + socket, headers=from_elsewhere).status_code == 403
    assert not (server.home.parent / ".nicegui").exists()


def test_a_deleted_run_says_so(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(5, name="short"))
    page = tab.open(f"/runs/{run_id}")
    expect(page.locator(".m-crumb .m-pill")).to_have_text("finished", timeout=60_000)
    Trainer(server.home).run(run_id).wait(60)  # until nobody holds its folder
    assert server.api.delete(f"/runs/{run_id}").status_code == 204
    expect(page.locator(".m-complaint")).to_contain_text(run_id)


@pytest.mark.chosen
def test_a_run_is_watched_paused_resumed_and_stopped(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(_FOR_LONG, 0.02, name="watched"))
    page = tab.open(f"/runs/{run_id}")
    first = wait_for_colour(page, CURVE, "--s1", 60)  # an empty chart has none
    shot = page.locator(CURVE).first.screenshot()
    page.wait_for_function("(before) => document.querySelector('.r-strip .v').textContent !== before", arg="…")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".m-crumb .m-pill")).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".m-crumb .m-pill")).to_have_text("running")
    page.get_by_role("button", name="Checkpoint now").click()
    expect(page.get_by_role("link", name="Watch it play")).to_be_visible()  # there is nobody to play against
    assert first > 0
    assert page.locator(CURVE).first.screenshot() != shot  # the curve has moved on
    page.get_by_role("button", name="Stop and save").click()
    expect(page.locator(".m-crumb .m-pill")).to_have_text("stopped")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    tab.check()


def test_another_axis_another_measure_and_files(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(60, name="measured"))
    server.api.get(f"/runs/{run_id}")
    page = tab.open(f"/runs/{run_id}")
    wait_for_colour(page, CURVE, "--s1", 60)
    page.get_by_role("button", name="Iterations").click()
    with page.expect_download() as download:
        page.get_by_label("Save the curve as CSV").click()
    rows = Path(download.value.path()).read_text().splitlines()
    assert rows[0] == "run,metric,training_iteration,mean,low,high"
    assert rows[1].startswith(f"{run_id},episode_reward_mean,1,")
    with page.expect_download() as download:
        page.get_by_label("Save the picture as PNG").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    tab.check()


def test_runs_are_found_and_compared(tab: Tab, server: WebServer) -> None:
    for iterations, name in ((30, "one-of-two"), (31, "two-of-two")):
        server.submit(toy(iterations, name=name, tags=["pair"]))
    page = tab.open("/runs")
    page.get_by_role("button", name="pair").click()
    expect(page.locator("tbody tr .m-thumb")).to_have_count(2)
    for name in ("one-of-two", "two-of-two"):
        expect(page.get_by_role("row", name=name)).to_contain_text("finished")
        page.get_by_role("checkbox", name=f"Select {name}").click()
    wait_for_colour(page, CURVE, "--s1", 40)
    wait_for_colour(page, CURVE, "--s2", 40)
    expect(page.locator(".r-differs")).to_contain_text("score")
    expect(page.locator(".s-study")).to_contain_text("Probability of improvement")
    with page.expect_download() as download:
        page.get_by_label("Save the statistics as PNG").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    page.get_by_label("Filter by name, environment, tag").fill("nothing is called that")
    expect(page.get_by_text("No run matches.")).to_be_visible()
    tab.check()


def test_the_live_picture_is_the_one_that_was_asked_for(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(_FOR_LONG, 0.05, name="seen"))
    folder = Store(server.home).resolve(run_id)
    colours = {0: (200, 30, 30), 1: (30, 30, 200)}
    over = threading.Event()

    def write() -> None:
        with FrameWriter(folder.path) as lane:
            step = 0
            while not over.wait(0.02):
                request = lane.request()
                if request is not None:
                    step += 1
                    lane.publish(np.full((48, 64, 3), colours[request.env], np.uint8), step=step, env=request.env)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        page = tab.open(f"/runs/{run_id}")
        wait_for_colour(page, ".m-canvas canvas", "rgb(200,30,30)", 2000)
        page.get_by_label("Env slot").click()
        page.get_by_role("option", name="env 1").click()
        wait_for_colour(page, ".m-canvas canvas", "rgb(30,30,200)", 2000)
        expect(page.locator(".m-canvas .hud")).to_contain_text("pictures/s")
    finally:
        over.set()
        writer.join()
    tab.check()


def test_a_page_outlives_a_reload_and_its_server(chromium: Browser, tmp_path: Path) -> None:
    server = WebServer(tmp_path / "home")
    tab = Tab(chromium, server)
    run_id = server.submit(toy(_FOR_LONG, 0.02, name="lasting"))
    page = tab.open(f"/runs/{run_id}")
    wait_for_colour(page, CURVE, "--s1", 40)
    page.reload()
    wait_for_colour(page, CURVE, "--s1", 40)
    server.end()
    again = WebServer(tmp_path / "home", server.port)
    steps = page.locator(".r-strip .v").first
    before = again.api.get(f"/runs/{run_id}").json()["env_steps"]
    expect(steps).not_to_have_text("…")
    page.wait_for_function(
        "(before) => parseInt(document.querySelector('.r-strip .v').textContent.replaceAll(',', '')) > before",
        arg=before,
    )
    wait_for_colour(page, CURVE, "--s1", 40)
    tab.close()
    end_runs(tmp_path / "home")
    again.end()


def test_what_is_not_installed_is_an_option(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examine = """
from mosaic.ui.health import Finding
def examine():
    option = Finding("extra wandb", False, "without wandb", "pip install 'mosaic-rl[wandb]'", optional=True)
    return [Finding("numpy", True, "2.0"), option, Finding("extra mcp", False, "mcp does not load", "pip install x")]
"""
    monkeypatch.setattr(web_kit, "SERVE", web_kit.SERVE.replace("from mosaic.ui.health import examine\n", examine))
    server = WebServer(tmp_path / "home")
    tab = Tab(chromium, server)
    page = tab.open("/")
    expect(page.locator(".h-doc", has=page.locator(".warn"))).to_have_text(
        "mcp is broken: mcp does not loadpip install x"
    )
    command = page.get_by_text("pip install 'mosaic-rl[wandb]'")
    expect(command).to_be_hidden()
    page.get_by_text("1 optional part is not installed").click()
    expect(command).to_be_visible()
    check_accessible(page)
    tab.check()
    tab.close()
    server.end()


def test_an_unknown_run_says_so(tab: Tab, server: WebServer) -> None:
    page = tab.open("/runs/no-such-run")
    expect(page.get_by_text("no-such-run")).to_be_visible()
    expect(page.get_by_role("link", name="All runs")).to_be_visible()


def test_an_address_without_a_page_says_so(tab: Tab) -> None:
    page = tab.open("/")
    answer = page.goto(page.url.partition("?")[0] + "no-such-page")
    assert answer is not None
    assert answer.status == 404
    expect(page.locator(".m-page")).to_contain_text("There is no page at /no-such-page.")
    page.get_by_role("link", name="All runs").click()
    expect(page.locator("h1")).to_have_text("Runs")


def test_the_palette_and_the_keys_lead_everywhere(tab: Tab) -> None:
    page = tab.open("/")
    page.keyboard.press("Control+k")
    page.get_by_label("Search pages, runs and environments").fill("runs")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Runs")
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("h")
    expect(page.locator("h1")).to_have_text("Home")
    tab.check()


@pytest.mark.parametrize("theme", [pytest.param("dark", marks=pytest.mark.chosen), "light"])
def test_pages_can_be_used_by_everybody(tab: Tab, server: WebServer, theme: str) -> None:
    run_id = server.submit(toy(30, name=f"accessible-{theme}"))
    for path in ("/", "/runs", f"/runs/{run_id}"):
        page = tab.open(path)
        if page.locator("body.body--light").count() != (theme == "light"):
            page.get_by_label("Light or dark").click()
        page.wait_for_selector(f"body.body--{theme}")
        if path.startswith("/runs/"):
            wait_for_colour(page, CURVE, "--s1", 40)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    tab.check()


def test_nothing_hangs_over_the_edge_of_a_phone(phone: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(30, name="a-run-with-a-rather-long-name-for-a-small-screen"))
    for path in ("/", "/runs", f"/runs/{run_id}"):
        page = phone.open(path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        expect(page.locator(".m-tabbar")).to_be_visible()
    phone.check()


def test_a_note_covers_no_control(phone: Tab) -> None:
    phone.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = phone.open("/")
    page.get_by_label("Copy").first.click()
    note = page.locator(".q-notification")
    expect(note).to_have_text("Copied")
    page.wait_for_function("document.querySelector('.q-notification').getBoundingClientRect().bottom <= 64")
    phone.check()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_preference_of_the_operating_system_counts_until_one_chooses(
    chromium: Browser, server: WebServer, theme: Literal["dark", "light"]
) -> None:
    context = chromium.new_context(color_scheme=theme)
    page = context.new_page()
    page.goto(f"{server.url}/?token={server.token}")
    page.wait_for_selector(f"body.body--{theme}")
    other = {"dark": "light", "light": "dark"}[theme]
    page.get_by_label("Light or dark").click()
    page.wait_for_selector(f"body.body--{other}")
    page.reload()
    page.wait_for_selector(f"body.body--{other}")
    context.close()


PRESS_AT_ONCE = """(keys) => {
  const press = (more) => document.body.dispatchEvent(new KeyboardEvent("keydown", { bubbles: true, ...more }));
  press({ key: "k", ctrlKey: true });
  keys.forEach((key) => press({ key }));
}"""


def test_keys_that_come_before_the_palette_is_open_are_typed_into_it(tab: Tab) -> None:
    page = tab.open("/")
    page.evaluate(PRESS_AT_ONCE, [*"runx", "Backspace", "s"])
    expect(page.get_by_label("Search pages, runs and environments")).to_have_value("runs")
    expect(page.locator(".m-palette .m-nav").first).to_contain_text("Runs")
    page.keyboard.press("Escape")
    expect(page.locator(".m-palette")).to_have_count(0)
    page.evaluate(PRESS_AT_ONCE, [*"export", "Enter"])
    expect(page.locator("h1")).to_have_text("Export")
    tab.check()


def test_the_palette_finds_environments(tab: Tab) -> None:
    page = tab.open("/")
    page.keyboard.press("Control+k")
    page.get_by_label("Search pages, runs and environments").fill("mountaincar")
    page.get_by_role("link", name="gym/MountainCar-v0").click()
    expect(page.locator("h1")).to_have_text("Train")
    expect(page.locator(".t-badge").first).to_contain_text("MountainCar")
    tab.check()
