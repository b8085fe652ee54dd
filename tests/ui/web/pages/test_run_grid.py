"""What a table learned about a grid world, on the page of its run."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from mosaic.learners.tabular.grid_picture import Cell
from mosaic.runs.trainer import Trainer
from mosaic.ui.web.pages.run.picture import grid_html
from tests.ui.web.web_kit import Tab, WebServer


def test_a_cell_shows_its_value_and_its_best_actions_and_a_hole_its_letter() -> None:
    shown = grid_html([[Cell("S", 0.5, "→↓", (253, 231, 37)), Cell("H", None, "", (51, 65, 85))]])
    assert "<b>S→↓</b><span>0.50</span>" in shown
    assert "<b>H</b><span></span>" in shown
    assert "background:rgb(253, 231, 37);color:rgb(15, 23, 42)" in shown


@pytest.mark.slow
def test_values_and_arrows_stand_on_the_page_of_a_run(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(
        {
            "environment": {"env_id": "gym/FrozenLake-v1", "options": {"is_slippery": False}},
            "training": {"worker": "tabular", "algorithm": "q_learning", "total_timesteps": 200_000},
        }
    )
    Trainer(server.home).run(run_id).wait(120)
    page = tab.open(f"/runs/{run_id}")
    cells = page.locator(".r-cells td")
    expect(cells).to_have_count(16)
    expect(cells.last).to_have_text("G")
    expect(cells.nth(14)).to_contain_text("→")  # beside the goal
    expect(cells.nth(14)).to_contain_text("1.00")
    tab.check()
