"""Evaluations and tournaments from the Play tab: what is asked for, their results, and those of earlier ones."""

import pytest

from mosaic.ui.tui.backend.evaluations import LocalEvaluations
from tests.ui.tui.fake_backend import FakeBackend
from tests.ui.tui.test_tui_app import app_on, text, until

pytestmark = pytest.mark.asyncio
ENV = "classic/tictactoe_v3"


@pytest.fixture
def backend(tmp_path):
    made = FakeBackend()
    made.evaluations = LocalEvaluations(tmp_path)
    return made


async def opened(pilot, **policies):
    await pilot.press("4")
    await until(pilot, "New game", "E evaluate")
    tab = pilot.app.tab
    tab.form.env, tab.form.policies = ENV, policies


async def ended(pilot, *words):
    """Wait for a result: its process has much to import."""
    for _ in range(12):
        try:
            await until(pilot, *words)
        except AssertionError:
            continue
        return
    await until(pilot, *words)


@pytest.mark.slow
async def test_players_are_evaluated_and_policies_rated(backend):
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await opened(pilot, player_1="minimax:depth=2", player_2="random")
        await pilot.press("E", "enter")
        await until(pilot, f"Evaluate {ENV}", "Episodes")
        await pilot.press("ctrl+u", "8", "enter", "enter")
        await ended(pilot, "player_1", "minimax:depth=2", "won", "8 episodes")
        await pilot.press("escape", "E", "down", "enter")
        await until(pilot, "Policies, separated by spaces")
        await pilot.press("ctrl+u", *"random", "space", *"minimax:depth=2", "enter", "ctrl+u", "2", "enter", "enter")
        await ended(pilot, "rating", "95 % interval", "minimax:depth=2")
        await pilot.press("escape", "E")
        await until(pilot, "Tournament in", "Evaluation in", "finished")
        await pilot.press("end", "enter")
        await until(pilot, "8 episodes")


async def test_people_are_not_evaluated_and_a_wrong_number_is_refused(backend):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, player_0="human", player_1="random")
        await pilot.press("E", "enter")
        await until(pilot, "give every agent a policy first")
        await opened(pilot, player_0="random", player_1="random")
        await pilot.press("E", "enter")
        await until(pilot, "Episodes")
        await pilot.press("ctrl+u", *"none", "enter", "enter")
        await until(pilot, "episodes")
        assert "whole number" in text(app) or "integer" in text(app)
