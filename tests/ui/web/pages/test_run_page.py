"""The run page while one looks: what comes in by itself, a closer look at curves, pictures that never came."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect

from mosaic.runs.trainer import Trainer
from mosaic.telemetry.events.writer import EventWriter
from tests.ui.web.web_kit import Tab, WebServer, keep_picture, toy, wait_for_colour

pytestmark = pytest.mark.slow
CURVE = ".nicegui-echart canvas"
WHOLE = "Whole curve"
SMALL_CHART = "points=250"


LINES = """() => {
  const element = document.querySelector(".nicegui-echart");
  const chart = element && getElement(element)?.chart;
  return (chart?.getOption().series ?? []).filter((one) => one?.type === "line" && one.data.length > 20).length;
}"""


def told(server: WebServer, count: int, group: str) -> list[str]:
    """Runs that are over and have told 40 rewards each."""
    made = []
    for number in range(count):
        apart = {"num_env_runners": 10_000}  # more than there are: the server leaves them where they are
        config = toy(40, name=f"{group}-{number}", resources=apart)
        run = Trainer(server.home).submit(config, start=False, group=group)
        run.stop()
        with EventWriter(run.folder.metrics, attempt=1) as writer:
            for step in range(40):
                said = {"training_iteration": step, "episode_reward_mean": float(number + step % (2 + number))}
                writer.report(kind="iteration", env_steps=10 * step, **said)
        made.append(run.id)
    return made


def wait_for_lines(page: Page, count: int) -> None:
    page.wait_for_function(f"({LINES})() === {count}")


def compared(page: Page) -> Sequence[str]:
    return parse_qs(urlsplit(page.url).query).get("with", [""])[0].split(",")


def asked_range(page: Page, action: str) -> tuple[float, ...]:
    """Return start and stop of the curves requested for the first chart after an action on it; () for the whole run.

    The small charts' curves are requested at the same time with fewer points; those requests are not looked at,
    because they may be reported only after the next action.
    """
    chart = page.locator(".nicegui-echart").first
    with page.expect_request(lambda request: "/series?" in request.url and SMALL_CHART not in request.url) as asked:
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


def test_alerts_stay_after_the_end(tab: Tab, server: WebServer) -> None:
    (run_id,) = told(server, 1, "alerted")
    with Trainer(server.home).run(run_id).folder.metrics.open("w") as file:
        for step in range(100):  # the return falls, the entropy goes, a loss is not a number, and steps stop for 90 s
            learner = {"entropy": max(0.0, 1 - step / 50), "value_loss": None if step == 70 else 0.5}
            event = {
                "kind": "iteration",
                "seq": step,
                "attempt": 1,
                "timestamp": 1000.0 + step + (90 if step > 60 else 0),
                "training_iteration": step,
                "env_steps": 10 * (step - (step == 61)),
                "episode_reward_mean": float(min(step, 100 - step)),
                "policies": {"learner": {"learner": learner}},
            }
            file.write(json.dumps(event) + "\n")
    page = tab.open(f"/runs/{run_id}")
    expect(page.locator(".r-alert")).to_have_count(4)
    for words in (
        "The entropy of learner is almost 0: it no longer explores",
        "Metrics of the learner were not finite at 700 env steps",
        "No env step was taken for 1 min 31 s at 600 env steps",
        "The return fell from ",
    ):
        expect(page.locator(".r-alert", has_text=words)).to_be_visible()
    tab.check()


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
    at_the_end = {"every_steps": 10**6}
    run_id = server.submit(toy(100, 0.05, name="followed", tags=["tagged"], checkpoint=at_the_end))
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


def test_twenty_runs_in_one_chart(tab: Tab, server: WebServer) -> None:
    first, *others = told(server, 20, "twenty")
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url) if "/series?" in request.url else None)
    page = tab.open(f"/runs/{first}?with={','.join(others)},nobody")
    wait_for_lines(page, 20)
    large = [url for url in asked if "metric=episode_reward_mean" in url]
    assert len(large) == 1, "what the page's head asks for is what the chart draws"
    expect(page.get_by_text("There is no run 'nobody'.")).to_be_visible()
    expect(page.get_by_role("button", name="band")).to_be_hidden()
    option = page.evaluate("getElement(document.querySelector('.nicegui-echart')).chart.getOption()")
    assert {series["type"] for series in option["series"]} == {"line"}  # no bands
    looks = {(series["color"], str(series["lineStyle"]["type"])) for series in option["series"]}
    assert len(looks) == 20
    (legend,) = option["legend"]
    assert legend["show"]
    assert sorted(legend["data"]) == sorted(f"twenty-{number}" for number in range(20))
    page.locator(".nicegui-echart").first.hover()
    tip = page.locator(".nicegui-echart").first.get_by_text("twenty-19")
    expect(tip).to_be_visible()
    keep_picture(page, "run-twenty")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    tab.check()


def test_the_address_says_what_is_compared(tab: Tab, server: WebServer) -> None:
    first, second, third = told(server, 3, "addressed")
    page = tab.open(f"/runs/{first}")
    wait_for_lines(page, 1)
    page.get_by_role("button", name="with mean of 3 seeds").click()
    wait_for_lines(page, 2)
    page.get_by_label("Other runs").click()
    page.get_by_role("option", name="addressed-2").click()
    wait_for_lines(page, 3)
    page.wait_for_url(f"**/runs/{first}?with=group:addressed,{third}")
    page.reload()
    wait_for_lines(page, 3)
    assert compared(page) == ["group:addressed", third]
    expect(page.get_by_role("button", name="with mean of 3 seeds")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Runs", exact=True).first.click()
    expect(page.locator("h1")).to_have_text("Runs")
    page.go_back()
    wait_for_lines(page, 3)
    page.get_by_role("button", name="with mean of 3 seeds").click()
    wait_for_lines(page, 2)
    page.wait_for_url(f"**/runs/{first}?with={third}")
    page.goto(f"{server.url}/runs/{first}?with=addressed-1,group:unheard")
    wait_for_lines(page, 2)
    expect(page.get_by_text("There is no seed group named 'unheard'.")).to_be_visible()
    assert second not in page.url  # it stays as it was typed until something is chosen
    tab.check()
