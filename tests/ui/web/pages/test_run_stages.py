"""Stages of a curriculum in the curve of a run's page, and the choice between sources of pictures."""

from __future__ import annotations

import pytest

from mosaic.runs.trainer import Trainer
from mosaic.telemetry.frames.sources import announce_source
from tests.ui.web.web_kit import Tab, WebServer, keep_picture, toy

pytestmark = pytest.mark.slow

MARKS = """() => {
  const chart = getElement(document.querySelector(".nicegui-echart"))?.chart;
  const lines = (chart?.getOption().series ?? []).filter((one) => one?.markLine?.data?.length);
  return lines.length ? lines[0].markLine.data.map(({ name, xAxis }) => [name, xAxis]) : null;
}"""


def test_the_curve_has_a_mark_where_a_stage_begins(tab: Tab, server: WebServer) -> None:
    stages = [{"options": {"is_slippery": False}, "until_steps": 1000}, {"options": {"is_slippery": True}}]
    run_id = server.submit(
        {
            "environment": {"env_id": "gym/FrozenLake-v1", "curriculum": stages, "num_envs": 4},
            "training": {"worker": "native", "total_timesteps": 4000, "params": {"n_steps": 32, "hidden": [8]}},
        }
    )
    run = Trainer(server.home).run(run_id)
    run.wait()
    page = tab.open(f"/runs/{run_id}")
    marks = page.wait_for_function(MARKS).json_value()
    (event,) = (event for event in run.events() if event["kind"] == "curriculum")
    assert marks == [["stage 2", event["env_steps"]]]
    keep_picture(page, "run-stages")
    tab.check()


def test_a_run_with_several_sources_offers_them(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(toy(iterations=10**6, iteration_s=0.05))
    page = tab.open(f"/runs/{run_id}")
    page.wait_for_selector(".r-pic")
    choice = page.get_by_label("Source", exact=True)
    assert not choice.is_visible()
    folder = Trainer(server.home).run(run_id).folder.path
    for source in ("env-runner-1", "env-runner-2"):
        announce_source(folder, source)
    (row,) = (row for row in server.api.get("/live").json() if row["id"] == run_id)
    assert (row["kind"], row["sources"]) == ("run", ["env-runner-1", "env-runner-2"])
    choice.click()
    with page.expect_websocket(lambda socket: "source=env-runner-2" in socket.url):
        page.get_by_role("option", name="env runner 2").click()
    Trainer(server.home).run(run_id).stop(patience_s=1.0)
    tab.check()
