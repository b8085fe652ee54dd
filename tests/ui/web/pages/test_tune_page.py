"""The Tune page: trials, what mattered, and the way to train with the best options."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from mosaic.runs.trainer import Trainer
from mosaic.runs.tuning.results import SearchTrial, read_search
from mosaic.store.store import Store
from mosaic.ui.web.pages.tune import parallel_coordinates, trials_table
from tests.runs.tuning.tuning_cases import written_search
from tests.ui.web.web_kit import Tab, WebServer, check_accessible, keep_picture, toy


def test_every_trial_with_a_score_has_a_line(tmp_path: Path) -> None:
    written_search(tmp_path)
    found = read_search(Store(tmp_path), "latest")
    drawing = parallel_coordinates(found)
    assert drawing.count("<polyline") == 5
    assert drawing.count('class="best"') == 1
    assert ">0.0001</text>" in drawing
    assert ">tanh</text>" in drawing
    lying = parallel_coordinates(found, upright=False)
    assert (lying.count("<polyline"), lying.count("<text"), drawing.count("<text")) == (5, 9, 9)
    few = found.model_copy(update={"trials": found.trials[:1]})
    assert "Drawn from two trials" in parallel_coordinates(few)


def test_what_a_search_names_is_shown_as_text(tmp_path: Path) -> None:
    written_search(tmp_path)
    found = read_search(Store(tmp_path), "latest")
    odd = SearchTrial(trial=9, state="failed", options={"activation": "<b>"}, reason='"><script>')
    table = trials_table(found.model_copy(update={"trials": (odd,)}))
    assert "<script>" not in table
    assert "&lt;b&gt;" in table


@pytest.mark.slow
def test_the_best_options_fill_the_train_form(tab: Tab, phone: Tab, server: WebServer) -> None:
    runs = [server.submit(toy(10, name=f"trial-{number}")) for number in range(5)]
    Trainer(server.home).run(runs[-1]).wait(60)
    written_search(server.home, runs)
    page = tab.open("/runs")
    page.get_by_role("link", name="Searches").click()
    page.get_by_role("link", name="cartpole-search").click()
    expect(page.locator("tbody tr").first).to_contain_text("Trial 4")
    expect(page.get_by_role("img", name="Options and scores of 5 trials")).to_be_visible()
    keep_picture(page, "tune")
    check_accessible(page)
    page.get_by_role("link", name="Train with the best options").click()
    expect(page.get_by_label("Name of the run")).to_have_value("trial-5")
    tab.check()
    page = phone.open("/tune?search=cartpole-search")
    expect(page.locator("tbody tr").first).to_contain_text("Trial 4")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    phone.check()
