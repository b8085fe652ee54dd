"""A run that learned for one of two agents only: played against and evaluated from its own page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from mosaic.runs.trainer import Trainer
from tests.ui.web.web_kit import Tab, WebServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run_id(server: WebServer) -> str:
    made = server.submit(
        {
            "environment": {"env_id": "classic/tictactoe_v3"},
            "agents": {"player_2": "random"},
            "policy_configuration": "independent",
            "training": {"worker": "native", "algorithm": "ppo", "total_timesteps": 2_000},
        }
    )
    Trainer(server.home).run(made).wait(120)
    return made


def test_the_person_sits_where_it_does_not(tab: Tab, run_id: str) -> None:
    page = tab.open(f"/runs/{run_id}")
    page.get_by_role("link", name="Play against it").click()
    expect(page.get_by_label("Policy of player_1", exact=True)).to_have_value(f"run:{run_id}")
    expect(page.get_by_label("Policy of player_2", exact=True)).to_have_value("You or an invited person")
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_selector('canvas[data-step="1"]')  # it has begun
    expect(page.locator(".p-spot")).to_have_count(8)
    tab.check()


def test_it_is_evaluated_in_its_own_place(tab: Tab, run_id: str) -> None:
    page = tab.open(f"/runs/{run_id}")
    page.get_by_role("link", name="Evaluate", exact=True).last.click()
    expect(page.get_by_label("Policy of player_2", exact=True)).to_have_value("random")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("Episodes behind it")).to_be_visible()
    tab.check()
