"""The run page while one looks: what comes in by itself, a closer look at curves, pictures that never came."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect
from web_kit import Tab, WebServer, keep_picture, toy, wait_for_colour

from mosaic.runs.trainer import Trainer

pytestmark = pytest.mark.slow
CURVE = ".nicegui-echart canvas"
WHOLE = "Whole curve"


def asked_range(page: Page, action: str) -> tuple[float, ...]:
    """Start and stop of the curves that the page asks for when this is done to its first chart; () for all of it."""
    chart = page.locator(".nicegui-echart").first
    with page.expect_request(lambda request: "/series?" in request.url) as asked:
        if action == "drag":
            place = chart.bounding_box()
            assert place is not None
            across = [place["x"] + share * place["width"] for share in (0.3, 0.6)]
            page.mouse.move(across[0], place["y"] + 60)
            page.mouse.down()
            page.mouse.move(across[1], place["y"] + 90, steps=4)
            page.mouse.up()
        elif action == "click away":
            page.get_by_role("button", name=WHOLE).click()
        else:
            chart.focus()
            page.keyboard.press(action)
    query = parse_qs(urlsplit(asked.value.url).query)
    return tuple(float(query[name][0]) for name in ("start", "stop") if name in query)


@pytest.mark.chosen
def test_a_closer_look_asks_for_its_own_points(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(3000, name="closely"))
    Trainer(server.home).run(run_id).wait(60)
    page = tab.open(f"/runs/{run_id}")
    wait_for_colour(page, CURVE, "--s1", 60)
    expect(page.get_by_role("button", name=WHOLE)).to_be_hidden()
    start, stop = asked_range(page, "drag")
    assert 10 < start < stop < 30_000
    wait_for_colour(page, CURVE, "--s1", 60)
    keep_picture(page, "run-closer")
    nearer = asked_range(page, "+")
    assert nearer == pytest.approx((start + (stop - start) / 4, stop - (stop - start) / 4))
    moved = asked_range(page, "ArrowRight")
    assert moved[0] > nearer[0]
    assert moved[1] - moved[0] == pytest.approx(nearer[1] - nearer[0])
    assert asked_range(page, "click away") == ()
    expect(page.get_by_role("button", name=WHOLE)).to_be_hidden()
    asked_range(page, "drag")
    assert asked_range(page, "0") == ()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    tab.check()


def test_what_changes_is_shown_without_a_reload(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(60, 0.05, name="followed", tags=["tagged"]))
    page = tab.open(f"/runs/{run_id}")
    facts = page.locator(".r-conf dl")
    expect(facts).to_contain_text("ago")
    expect(facts).to_contain_text("Checkpoints0")
    expect(page.locator(".r-pic .hud")).to_have_text("waiting for the first picture")
    expect(page.locator(".m-crumb .m-pill")).to_have_text("finished")
    checkpoints = len(server.api.get(f"/runs/{run_id}").json()["checkpoints"])
    assert checkpoints > 0
    expect(facts).to_contain_text(f"Checkpoints{checkpoints}, best at")
    expect(page.locator(".r-pic")).to_be_hidden()  # it never showed one
    tab.check()
