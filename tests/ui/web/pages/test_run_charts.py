"""Charts of a run's page: those that a user chose, single points as a table, and what the run used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from mosaic.runs.trainer import Trainer
from mosaic.store.usage import UsageSample, append_usage
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
    expect(page.locator(".r-charts .t")).to_have_text(["Return"])  # what is drawn large is not drawn small too
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
def test_chosen_charts_are_shown_for_every_run_of_the_project(tab: Tab, server: WebServer) -> None:
    training = {"worker": "tabular", "total_timesteps": 4000}
    config = {"environment": {"env_id": "gym/FrozenLake-v1"}, "training": training}
    other_env = {"environment": {"env_id": "gym/CliffWalking-v1"}, "training": training}
    inside, alone = ({**config, "project": "charts"}, config)
    first, second, outside = (
        trained_here(server.home, asked).id for asked in (inside, {**other_env, "project": "charts"}, alone)
    )
    page = tab.open(f"/runs/{first}")
    titles = page.locator(".r-charts .t")
    expect(titles.nth(1)).to_be_visible()
    usual = titles.all_inner_texts()
    choose(page, usual[:1])
    expect(titles).to_have_text(usual[:1])
    page = tab.open(f"/runs/{second}")  # another env
    expect(page.locator(".r-charts .t")).to_have_text(usual[:1])
    page = tab.open(f"/runs/{outside}")  # the same env
    expect(page.locator(".r-charts .t")).to_have_text(usual)
    tab.check()


@pytest.mark.slow
def test_single_points_are_a_table(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(1, name="one-point"))
    Trainer(server.home).run(run_id).wait(60)
    page = tab.open(f"/runs/{run_id}")
    table = page.get_by_role("table", name="Return", exact=True)
    expect(table).to_contain_text("10 env steps")
    keep_picture(page, "single-points")
    tab.check()


def submitted(server: WebServer, **parts: Any) -> Any:
    """A run that is over and has reported nothing."""
    apart = {"num_env_runners": 1, "max_memory_mb": 200_000}  # more than there is: the server never starts it
    run = Trainer(server.home).submit(toy(40, resources=apart, **parts), start=False)
    run.stop()
    return run


CHECKPOINTS = """() => {
  const chart = getElement(document.querySelector(".nicegui-echart"))?.chart;
  const marks = chart?.getOption().series.find((one) => one?.id === "checkpoints")?.markPoint.data;
  return marks?.length ? marks.map(({ coord, symbolSize }) => [coord[0], symbolSize]) : null;
}"""


@pytest.mark.slow
def test_checkpoints_are_marks_on_the_axis(tab: Tab, server: WebServer) -> None:
    config = {
        "environment": {"env_id": "gym/FrozenLake-v1"},
        "training": {"worker": "tabular", "total_timesteps": 40_000},
        "checkpoint": {"every_steps": 10_000, "keep_last": 5},
    }
    run = trained_here(server.home, config)
    saved = server.api.get(f"/runs/{run.id}").json()["checkpoints"]
    assert len(saved) > 1
    page = tab.open(f"/runs/{run.id}")
    marks = page.wait_for_function(CHECKPOINTS).json_value()
    assert sorted(at for at, _ in marks) == sorted(each["env_steps"] for each in saved)
    largest = max(size for _, size in marks)
    assert [at for at, size in marks if size == largest] == [each["env_steps"] for each in saved if each["best"]]
    expect(page.get_by_text("▲ marks checkpoints.")).to_be_visible()
    keep_picture(page, "run-checkpoints")
    page.get_by_role("button", name="Wall time").click()  # they are known by their env steps alone
    page.wait_for_function(f"({CHECKPOINTS})() === null")
    tab.check()


@pytest.mark.slow
@pytest.mark.parametrize("rated", [True, False], ids=["rating", "result"])
def test_the_headline_of_self_play_is_not_the_return(tab: Tab, server: WebServer, rated: bool) -> None:
    name = f"itself-{'rated' if rated else 'evaluated'}"
    env = {"env_id": "classic/tictactoe_v3"}
    training = {"worker": "native", "algorithm": "ppo", "total_timesteps": 400}
    run = submitted(server, name=name, environment=env, training=training, policy_configuration="self_play")
    with EventWriter(run.folder.metrics, attempt=1) as writer:
        for step in range(1, 31):  # a perfect player draws against itself: its return falls to 0
            said = {"policies": {"learner": {"rating": 1000.0 + 20 * step}}} if rated else {}
            writer.report(kind="iteration", env_steps=10 * step, episode_reward_mean=1.0 - step / 30, **said)
            if not rated and step % 10 == 0:
                writer.report(kind="evaluation", env_steps=10 * step, episode_reward_mean=0.01 * step)
    run.folder.state.touch()  # the index may have read it before
    page = tab.open(f"/runs/{run.id}")
    words, value = ("Rating", "1,600") if rated else ("Return in evaluations", "0.30")
    tile = page.locator(".r-strip > div", has=page.get_by_text(words, exact=True))
    expect(tile.locator(".v")).to_have_text(value)
    expect(page.locator(".r-measure").first).to_contain_text(words)  # the large chart
    expect(page.locator(".r-charts .t")).to_contain_text(["Return"])  # a small one
    page = tab.open(f"/runs?q={name}")
    expect(page.get_by_role("row", name=name)).to_contain_text(f"{value}{'rating' if rated else 'evaluated'}")
    tab.check()


LABELS = """() => {
  const chart = getElement(document.querySelector(".nicegui-echart"))?.chart;
  const { series = [] } = chart?.getOption() ?? {};
  const named = series.filter((one) => one?.type === "line" && one.endLabel?.show);
  const bands = series.filter((one) => one?.type === "custom").flatMap((one) => one.data.map(([, y]) => y));
  const [low, high] = chart?.getModel().getComponent("yAxis").axis.scale.getExtent() ?? [];
  const at = ({ data, endLabel }) =>
    chart.convertToPixel({ yAxisIndex: 0 }, data.at(-1)[1]) + (endLabel.offset?.[1] ?? 0);
  return { labels: named.map(at).sort((a, b) => a - b), height: chart?.getHeight(), bands, low, high };
}"""


@pytest.mark.slow
def test_names_at_curves_do_not_overlap_and_bands_stay_in_range(tab: Tab, server: WebServer) -> None:
    run = submitted(server, name="crowded")
    with EventWriter(run.folder.metrics, attempt=1) as writer:
        for step in range(1, 3001):  # more than are drawn: each point has a band; the curves end at nearly one value
            policies = {f"policy_{each}": {"rating": 1000.0 + each / 10 + (step * 37) % 50} for each in range(5)}
            writer.report(kind="iteration", env_steps=10 * step, episode_reward_mean=0.5, policies=policies)
    page = tab.open(f"/runs/{run.id}")
    page.get_by_role("combobox", name="Measure").click()
    page.get_by_role("option", name="Rating", exact=True).click()
    apart = "labels.length === 5 && labels.every((y, i) => !i || y - labels[i - 1] >= 14.9)"
    page.wait_for_function(f"() => {{ const {{ labels }} = ({LABELS})(); return {apart}; }}")
    found = page.evaluate(LABELS)
    assert 0 < found["labels"][0] < found["labels"][-1] < found["height"]
    assert found["bands"]
    assert found["low"] <= min(found["bands"]) <= max(found["bands"]) <= found["high"]
    tab.check()


@pytest.mark.slow
def test_the_use_of_the_machine_is_on_the_page_of_a_run(tab: Tab, server: WebServer) -> None:
    run = submitted(server, name="busy")
    for second in range(5):
        append_usage(run.folder, UsageSample(1000.0 + 2 * second, 1.5, 900.0, 50.0, 2000.0))
    page = tab.open(f"/runs/{run.id}")
    for name in ("CPU", "Memory", "GPUs of this machine", "Memory of the GPUs"):
        expect(page.get_by_role("img", name=f"{name} over time")).to_be_visible()
    tab.check()
