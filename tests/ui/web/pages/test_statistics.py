"""Statistics of selected runs on the Runs page, and what a selection lacks for them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mosaic.runs.trainer import Trainer
from mosaic.telemetry.events.writer import EventWriter
from tests.ui.web.web_kit import Tab, WebServer, check_accessible, keep_picture

pytestmark = pytest.mark.slow

APART = {"num_env_runners": 1, "max_memory_mb": 200_000}  # more than there is: the server never starts them


def told(server: WebServer, env: str, name: str, scores: list[float], noise: float) -> list[str]:
    """Runs that are over, one per score, which differ in nothing but their seed."""
    made = []
    for seed, score in enumerate(scores):
        training = {"worker": "toy", "total_timesteps": 100, "params": {"noise": noise}}
        config = {"environment": {"env_id": env}, "training": training, "name": f"{name}-{seed}", "seed": seed}
        run = Trainer(server.home).submit({**config, "resources": APART}, start=False)
        run.stop()
        with EventWriter(run.folder.metrics, attempt=1) as writer:
            writer.report(kind="iteration", env_steps=100, episode_reward_mean=score)
        run.folder.state.touch()  # the index may have read it before
        made.append(run.id)
    return made


def test_methods_are_compared_over_seeds_and_envs(tab: Tab, phone: Tab, server: WebServer) -> None:
    runs = [
        *told(server, "gym/CartPole-v1", "calm", [300.0, 400.0, 450.0, 500.0], 0.1),
        *told(server, "gym/CartPole-v1", "wild", [100.0, 150.0, 200.0, 350.0], 0.9),
        *told(server, "gym/Acrobot-v1", "calm", [-90.0, -85.0, -80.0, -95.0], 0.1),
        *told(server, "gym/Acrobot-v1", "wild", [-150.0, -160.0, -99.0, -140.0], 0.9),
    ]
    page = tab.open(f"/runs?compare={','.join(runs)}")
    table = page.locator(".s-table tbody tr")
    expect(table).to_have_count(2)
    expect(table.first).to_contain_text("calm")
    expect(table.first).to_contain_text("8")  # runs
    expect(page.get_by_role("img", name="Performance profiles of calm, wild")).to_be_visible()
    expect(page.locator(".s-pairs li")).to_contain_text("over")
    assert page.locator(".s-pairs li b").all_inner_texts()[0] == "calm"
    expect(page.locator(".s-notes")).to_contain_text("CartPole 100.00 to 500.00")
    keep_picture(page, "statistics")
    with page.expect_download() as download:
        page.get_by_label("Save the statistics as CSV").click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    assert {row["statistic"] for row in rows} >= {"iqm", "profile", "probability_of_improvement"}
    page.get_by_role("combobox", name="Methods differ in").click()
    page.get_by_role("option", name="Methods by noise").click()
    expect(table.first).to_contain_text("noise 0.1")
    page.wait_for_function("location.search.includes('by=training.params.noise')")
    page.reload()
    expect(table.first).to_contain_text("noise 0.1")
    check_accessible(page)
    tab.check()
    page = phone.open(f"/runs?compare={','.join(runs)}")
    expect(page.locator(".s-plot")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    phone.check()


@pytest.mark.chosen
def test_a_selection_that_cannot_be_compared_says_what_it_needs(tab: Tab, server: WebServer) -> None:
    first, second = told(server, "gym/CartPole-v1", "alike", [1.0, 2.0], 0.3)
    (other,) = told(server, "gym/Acrobot-v1", "elsewhere", [3.0], 0.5)
    page = tab.open(f"/runs?compare={first}")
    expect(page.get_by_text("Select another run to compare them.")).to_be_visible()
    said = page.locator(".s-study [role=status]")
    page = tab.open(f"/runs?compare={first},{second}")
    expect(said).to_contain_text("The selected runs differ in nothing but their seed")
    expect(page.get_by_label("Save the statistics as PNG")).to_be_hidden()
    page = tab.open(f"/runs?compare={first},{other}")
    expect(page.locator(".s-table tbody tr")).to_have_count(1)  # one method in two envs
    expect(page.locator(".s-notes")).to_contain_text("has no interval: train it with 5 seeds or more")
    expect(page.locator(".s-notes")).to_contain_text("2 of 2 runs ended early (stopped)")
    tab.check()
