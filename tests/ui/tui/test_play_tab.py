"""The Play tab on matches of this process: the form, games with cursor and keys, watching, and what is refused."""

import numpy as np
import pytest
from gymnasium import Env, spaces

from mosaic.ui.tui.play.form import GameForm
from mosaic.ui.tui.widgets.dialogs import Choose, Confirm, FieldEditor
from tests.ui.tui.fake_backend import FakeBackend
from tests.ui.tui.test_tui_app import app_on, text, until

pytestmark = pytest.mark.asyncio
GAME = "mosaic/tictactoe"


class Silent(Env):
    """Env without a picture: three numbered actions, two numbers to observe."""

    observation_space, action_space = spaces.Box(-9, 9, (2,)), spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.last = 0.0
        return np.array([0.0, 0.25], np.float32), {}

    def step(self, action):
        self.last += 1.0
        return np.array([float(action), 0.25], np.float32), 1.0, self.last >= 2, False, {}


@pytest.fixture
def backend():
    return FakeBackend()


async def begin(pilot, policies, env=GAME, **options):
    """Start a game from the form."""
    await pilot.press("4")
    await until(pilot, "Environment", "agent_2")
    pilot.app.tab.show_form(GameForm(env, policies, ["human", "random"], options=options))
    await pilot.press("t")


async def test_a_game_is_played_with_cursor_and_keys(backend):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(pilot, {"player_1": "human", "player_2": "human"})
        await until(pilot, "your turn: player_1", "[·]")
        await pilot.press("enter")
        await until(pilot, "your turn: player_2", "[X]", "1 player_1 cell 5")
        await pilot.press("enter")
        await until(pilot, "There is no legal move on that spot")
        await pilot.press("up", "space")
        await until(pilot, "your turn: player_1", "[O]")
        await pilot.press("4")  # a cell, not a tab
        await until(pilot, "3 player_1 cell 4")
        assert app.tab.NAME == "play"
        await pilot.press("j", *"cell 77", "enter")
        await until(pilot, "There is no legal move named 'cell 77'")
        await pilot.press("j", *"cell 9", "enter")
        await until(pilot, "your turn: player_1", "4 player_2 cell 9")
        await pilot.press("6")
        await until(pilot, "player_1 (human) wins.", "n new game")
        await pilot.press("n")
        await until(pilot, "game 2", "seed ", "step 0")


async def test_policies_play_at_a_rate_that_can_change(backend):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(pilot, {"player_1": "random", "player_2": "random"}, rate_hz=0.25)
        await until(pilot, "0.25 Hz", "You watch.")
        await pilot.press("greater_than_sign", "p")
        await until(pilot, "paused")
        step = app.tab.game.view.step
        await pilot.press("period")
        await until(pilot, f"step {step + 1} ", f"{step + 1} player_{1 + step % 2} cell")
        await pilot.press("p")
        await until(pilot, "0.5 Hz")
        await pilot.press("6")  # nobody plays here: digits change tabs
        assert app.tab.NAME == "runs"


async def test_a_player_is_replaced_and_sides_are_swapped(backend):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(pilot, {"player_1": "human", "player_2": "random"})
        await until(pilot, "your turn: player_1")
        await pilot.press("h")
        await until(pilot, "swap sides", "player_2: random")
        await pilot.press("enter")
        await until(pilot, "your turn: player_2")
        await pilot.press("h", "down", "enter")
        await until(pilot, "Who plays player_1")
        await pilot.press("home", "enter")
        await until(pilot, "your turn: player_2")
        assert {"type": "assign", "agent": "player_1", "policy": "human"} in backend.matches.opened[0].asked


async def test_keys_of_a_real_time_game_are_let_go_and_it_rests_while_hidden(backend):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(pilot, {"agent_0": "human"}, env="gym/CartPole-v1", rate_hz=1.0)
        await until(pilot, "← left", "→ right", "a key acts for 0.3 s", "▀")
        await pilot.press("left")  # it starts the game
        asked = backend.matches.opened[0].asked
        await until(pilot, "1 Hz")
        for _ in range(200):
            if {"type": "key", "code": "ArrowLeft", "down": False} in asked:
                break
            await pilot.pause(0.01)
        keys = [message["down"] for message in asked if message["type"] == "key"]
        assert keys == [True, False]
        assert app.tab.NAME == "play"
        await pilot.press("escape")
        await until(pilot, "here: playing")
        assert {"type": "pause", "on": True} in asked
        await pilot.press("tab", "enter")
        await until(pilot, "gym/CartPole-v1 · game 1")
        assert asked[-1] != {"type": "pause", "on": True}


async def test_a_key_that_is_still_held_when_the_game_ends_does_not_leave_it(backend):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(pilot, {"agent_0": "human"}, env="gym/CartPole-v1", rate_hz=100.0)
        await until(pilot, "step 0", "press a key of", "▀")
        await pilot.press("left")
        await until(pilot, "Over after", "n new game")
        await pilot.press("left", "right", "left")
        assert app.tab.NAME == "play"
        await pilot.press("6")
        assert app.tab.NAME == "runs"


async def test_an_env_without_a_picture_shows_what_is_observed_and_numbered_actions(backend):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(pilot, {"*": "human"}, env=f"python:{Silent.__module__}:Silent")
        await until(pilot, "observation[1]  0.25", "> 1 action 0", "3 action 2")
        await pilot.press("down", "down", "enter")
        await until(pilot, "observation[0]  2", "step 1")
        await pilot.press("2")
        await until(pilot, "after 2 env steps", "observation[0]  1")


async def test_games_elsewhere_are_watched_or_joined(backend):
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await pilot.press("4")
        await until(pilot, "classic/chess_v6", "human, run:run-a", "agent_2")
        await pilot.press("tab", "enter")
        await until(pilot, "you watch", "no picture yet")
        await pilot.press("escape")
        backend.matches.joins = True
        await pilot.press("tab", "enter")
        await until(pilot, "mosaic/tictactoe · game 1", "You watch.")


async def test_what_cannot_begin_returns_to_the_form_with_the_reason(backend):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(pilot, {"*": "human"}, env="gym/CartPole-v7")
        await until(pilot, "There is no environment named 'gym/CartPole-v7'", "New game")


async def test_the_form_checks_each_field_and_offers_policies(backend):
    app = app_on(backend)
    async with app.run_test(size=(140, 42)) as pilot:
        await pilot.press("4")
        await until(pilot, "agent_10", "human (you)")
        await pilot.press("down", "down", "enter")
        await until(pilot, "Who plays agent_10", "random", "other")
        assert isinstance(app.screen, Choose)
        await pilot.press("end", "enter")
        assert isinstance(app.screen, FieldEditor)
        await pilot.press(*"zz", "enter")
        await until(pilot, "There is no policy named")
        await pilot.press("escape", "down", "enter", *"x", "enter")
        await until(pilot, "Seed", "It should be a whole number")
        await pilot.press("backspace", *"7", "enter")
        await pilot.pause()
        assert app.tab.form.request()["seed"] == 7
        assert app.tab.form.request()["rate_hz"] == 10  # a person plays
        app.tab.form.policies = dict.fromkeys(app.tab.form.policies, "random")
        assert "rate_hz" not in app.tab.form.request()


async def test_quitting_asks_while_a_game_is_played_and_stop_ends_it(backend):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(pilot, {"player_1": "human", "player_2": "human"})
        await until(pilot, "your turn")
        await pilot.press("q")
        assert isinstance(app.screen, Confirm)
        await pilot.press("n", "s")
        await until(pilot, "The game is ended", "New game")
        assert "here: playing" not in text(app)
        await pilot.press("q")
    assert app.return_code == 0


async def test_a_move_is_taken_back(backend):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await begin(pilot, {"player_1": "human", "player_2": "human"})
        await until(pilot, "your turn: player_1", "[·]")
        await pilot.press("backspace")
        await until(pilot, "You have not made a move that could be taken back")
        await pilot.press("enter")
        await until(pilot, "your turn: player_2", "[X]")
        await pilot.press("backspace")
        await until(pilot, "your turn: player_1", "[·]", "step 0")
