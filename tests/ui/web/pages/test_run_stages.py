"""Stages of a run's start and of a curriculum on its page, and the choice between sources of pictures."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from mosaic.runs.trainer import Trainer
from mosaic.store.lock import RunLock
from mosaic.store.state import Attempt, State, read_written_state, write_state
from mosaic.telemetry.events.writer import EventWriter
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
    run = Trainer(server.home).run(run_id)
    next(event for event in run.events(follow=True) if event["kind"] == "iteration")  # it is live
    folder = run.folder.path
    for source in ("env-runner-1", "env-runner-2"):
        announce_source(folder, source)
    (row,) = (row for row in server.api.get("/live").json() if row["id"] == run_id)
    assert (row["kind"], row["sources"]) == ("run", ["env-runner-1", "env-runner-2"])
    choice.click()
    with page.expect_websocket(lambda socket: "source=env-runner-2" in socket.url):
        page.get_by_role("option", name="env runner 2").click()
    Trainer(server.home).run(run_id).stop(patience_s=1.0)
    tab.check()


def test_the_stages_of_a_start_are_shown_until_there_are_samples(tab: Tab, server: WebServer) -> None:
    apart = {"num_env_runners": 10_000}  # more than there are: the server leaves it where it is
    run = Trainer(server.home).submit(toy(40, name="starting", resources=apart), start=False)
    with RunLock(run.folder) as lock, EventWriter(run.folder.metrics, attempt=1) as writer:
        assert lock.try_acquire()  # as its supervisor does
        begun = Attempt(number=1, started=time.time())
        running = {"state": State.RUNNING, "attempts": (begun,)}
        write_state(run.folder, read_written_state(run.folder).model_copy(update=running))
        writer.report(kind="stage", message="starting Ray")
        page = tab.open(f"/runs/{run.id}")
        shown = page.locator(".r-stage")
        expect(shown).to_contain_text("starting Ray … ")
        keep_picture(page, "run-starting")
        writer.report(kind="stage", message="building the algorithm, 2 env runners")
        expect(shown).to_contain_text("building the algorithm, 2 env runners … ")
        writer.report(kind="iteration", env_steps=0, episode_reward_mean=None)
        expect(shown).to_contain_text("building the algorithm")
        writer.report(kind="iteration", trigger="clock", env_steps=10, env_steps_per_s=3.0)
        expect(shown).to_be_empty()
        strip, measure = page.locator(".r-strip"), page.locator(".r-measure")
        expect(strip).to_contain_text("Known after the first iteration.")
        expect(measure).to_contain_text("Env steps per second")
        split = {"env": 1.0, "inference": 1.0, "learning": 2.0}
        rewards = {"episode_reward_mean": 1.0, "episode_len_mean": 5.0}
        writer.report(kind="iteration", env_steps=20, env_steps_per_s=3.0, time_split=split, **rewards)
        expect(strip).to_contain_text("learning 50%")
        expect(measure).to_contain_text("Return")  # nobody has chosen a measure
        expect(page.locator(".r-charts .t")).to_contain_text(["Episode length", "Env steps per second"])
        writer.report(kind="iteration", trigger="clock", env_steps=30, env_steps_per_s=2.0, **rewards)
        expect(strip).to_contain_text("30 of")
        expect(strip).to_contain_text("learning 50%")
        keep_picture(page, "run-started")
    tab.check()
    run.stop(patience_s=1.0)
