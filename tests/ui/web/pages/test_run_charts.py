"""Charts of a run's page: those that a user chose, single points as a table, and what the run used."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from mosaic.runs.trainer import Trainer
from mosaic.store.views import UsagePoints
from mosaic.telemetry.events.writer import EventWriter
from mosaic.ui.web.pages.run.usage import round_up, usage_charts
from tests.in_process import trained_here
from tests.ui.web.web_kit import Tab, WebServer, keep_picture, toy


def test_the_use_of_the_machine_is_drawn_from_zero_with_gpus_where_there_are_any() -> None:
    usage = UsagePoints(
        timestamp=[100.0, 102.0, 106.0],
        cores=[0.0, 2.0, 1.0],
        memory_mb=[200.0, 1500.0, 1500.0],
        gpu_percent=[None, None, None],
        gpu_memory_mb=[None, None, None],
    )
    drawn = usage_charts(usage)
    assert drawn.count("<svg") == 2
    assert "last 1.0 cores · mean 1.0 cores · max 2.0 cores" in drawn
    assert ">1.50 GB</text>" in drawn
    assert ">6 s</text>" in drawn
    busy = usage.model_copy(update={"gpu_percent": [None, 50.0, 70.0], "gpu_memory_mb": [None, 900.0, 900.0]})
    assert usage_charts(busy).count("<svg") == 4
    assert ">100 %</text>" in usage_charts(busy)
    assert [round_up(value) for value in (0.0, 0.7, 2.0, 33.0, 500.0)] == [1.0, 0.8, 2.0, 40.0, 500.0]


def choose(page: Page, titles: list[str]) -> None:
    page.get_by_role("combobox", name="Own charts").click()
    for title in titles:
        page.get_by_role("option", name=title, exact=True).click()
    page.keyboard.press("Escape")


SERIES = """() => {
  const chart = getElement(document.querySelector(".nicegui-echart"))?.chart;
  const { series = [], yAxis = [] } = chart?.getOption() ?? {};
  const lines = series.filter((one) => one?.type === "line").map(({ name, lineStyle }) => [name, lineStyle.opacity]);
  return { lines, scale: yAxis[0]?.type };
}"""


def wait_for_series(page: Page, condition: str) -> None:
    """Wait until the first chart fulfils a condition on its `lines`, as (name, opacity), and its `scale`."""
    page.wait_for_function(f"() => {{ const {{ lines, scale }} = ({SERIES})(); return {condition}; }}")


@pytest.mark.slow
def test_curves_are_hidden_pinned_and_logarithmic(tab: Tab, server: WebServer) -> None:
    apart = {"num_env_runners": 10_000}  # more than there are: the server leaves it where it is
    run = Trainer(server.home).submit(toy(40, name="several", resources=apart), start=False)
    run.stop()
    with EventWriter(run.folder.metrics, attempt=1) as writer:
        for step in range(1, 31):
            policies = {f"policy_{number}": {"rating": 100.0 * number + step} for number in (10, 2, 1)}
            writer.report(kind="iteration", env_steps=10 * step, episode_reward_mean=0.5, policies=policies)
    page = tab.open(f"/runs/{run.id}")
    page.get_by_role("combobox", name="Measure").click()
    page.get_by_role("option", name="Rating", exact=True).click()
    names = [f"policy_{number}" for number in (1, 2, 10)]
    wait_for_series(
        page, f"JSON.stringify(lines.map(([name]) => name)) === '{json.dumps(names, separators=(',', ':'))}'"
    )
    expect(page.locator(".r-chip b")).to_have_text(names)
    page.get_by_label("Pin policy_2").click()
    wait_for_series(page, "lines.every(([name, opacity]) => (opacity === 1) === (name === 'policy_2'))")
    page.get_by_title("Hide or show policy_10").click()
    wait_for_series(page, "lines.length === 2")
    page.get_by_role("button", name="log scale").click()
    wait_for_series(page, "scale === 'log'")
    tab.check()


@pytest.mark.slow
def test_chosen_charts_are_shown_for_every_run_of_the_env(tab: Tab, phone: Tab, server: WebServer) -> None:
    training = {"worker": "tabular", "total_timesteps": 4000}
    config = {"environment": {"env_id": "gym/FrozenLake-v1"}, "training": training}
    first, second = (trained_here(server.home, config).id for _ in range(2))
    page = tab.open(f"/runs/{first}")
    titles = page.locator(".r-charts .t")
    expect(titles.nth(1)).to_be_visible()
    usual = titles.all_inner_texts()
    chosen = usual[1::-1]
    choose(page, chosen)
    expect(titles).to_have_text(chosen)
    page = phone.open(f"/runs/{second}")  # another run, another browser
    expect(page.locator(".r-charts .t")).to_have_text(chosen)
    choose(page, chosen)
    expect(page.locator(".r-charts .t")).to_have_text(usual)  # none is chosen any more
    tab.check()
    phone.check()


@pytest.mark.slow
def test_single_points_are_a_table(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(1, name="one-point"))
    Trainer(server.home).run(run_id).wait(60)
    page = tab.open(f"/runs/{run_id}")
    table = page.get_by_role("table", name="Return", exact=True)
    expect(table).to_contain_text("10 env steps")
    keep_picture(page, "single-points")
    tab.check()
