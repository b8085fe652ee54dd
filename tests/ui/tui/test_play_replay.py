"""Replays on the Play tab: recorded episodes step by step, what policies said, demonstrations."""

import json

import pytest

import mosaic
from mosaic.core.episode import DecisionReport, StepReport, TranscriptLine
from mosaic.core.errors import InputError, MosaicError
from mosaic.runners.record import episode_to_json
from mosaic.server.client.replays import ProcessReplay
from mosaic.server.play.replay_views import ReplayAsked
from mosaic.store.demos.kept import KeptDemos
from mosaic.store.demos.recording import record_demo
from mosaic.telemetry.pictures.message import decoded
from mosaic.ui.tui.widgets.dialogs import Confirm
from tests.ui.tui.fake_backend import FakeBackend
from tests.ui.tui.test_tui_app import app_on, text, until

GAME = "mosaic/tictactoe"


@pytest.fixture
def episode():
    played = mosaic.play_episode(mosaic.make_env(GAME), {"*": "random"}, seed=1)
    said = (TranscriptLine("user", "Your move?", ""), TranscriptLine("assistant", "cell 5", "0.8 s"))
    played.reports.append(StepReport(2, "player_1", DecisionReport({"tokens": 120}, said)))
    return played


@pytest.fixture
def backend(episode, tmp_path):
    backend = FakeBackend()
    backend.replays.kept["noughts-1"], backend.demos = episode, KeptDemos(tmp_path)
    return backend


@pytest.mark.asyncio
async def test_a_recorded_episode_is_stepped_and_played(backend, episode):
    last = episode.env_steps
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await until(pilot, "o replay")
        await pilot.press("o")
        await until(pilot, "noughts-1")
        await pilot.press("enter")
        await until(pilot, f"step 0 of {last}", "same as recorded", "▀", "1 player_1: cell", "player_1  0 of")
        await pilot.press("right", "right")
        await until(pilot, f"step 2 of {last}", "tokens 120", "⏎ shows what was said")
        await pilot.press("enter")
        await until(pilot, "Your move?", "cell 5", "0.8 s")
        await pilot.press("escape", "right", "up")  # back to the decision that was reported on
        await until(pilot, f"step 2 of {last}")
        await pilot.press("left", "enter")
        await until(pilot, "No policy reported on a decision in this position")
        await pilot.press(*["greater_than_sign"] * 9, "p")
        await until(pilot, f"step {last} of {last}", "30 steps/s, paused")
        await pilot.press("escape")
        await until(pilot, "New game")
        assert app.tab.NAME == "play"
    assert backend.replays.opened[0].closed


@pytest.mark.asyncio
async def test_a_game_is_played_on_from_a_position_of_a_replay(backend, episode):
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await until(pilot, "o replay")
        await pilot.press("o")
        await until(pilot, "noughts-1")
        await pilot.press("enter")
        await until(pilot, "same as recorded", "t play on")
        await pilot.press("right", "right", "t")
        await until(pilot, "Play on from step 2", "start with these players", "player_1: random")
        await pilot.press("down", "enter")
        await until(pilot, "Who plays player_1", "human")
        await pilot.press("home", "enter")
        await until(pilot, "Play on from step 2", "player_1: human")
        await pilot.press("home", "enter")
        await until(pilot, "step 2", "your turn: player_1", "2 player_2")
        await pilot.press("escape")  # back to the replay, then to the form
        await until(pilot, f"step 2 of {episode.env_steps}")
        await pilot.press("escape")
        await until(pilot, "New game", "here: playing")
    match = backend.replays.opened[0].played_on
    assert match.asked[0] == {"type": "rate", "hz": 10.0}


class Lessons(KeptDemos):
    """Demonstrations whose last episodes cannot be replayed."""

    def details(self, name):
        demo = super().details(name)
        last = demo.episode_rows[-1].model_copy(update={"replayable": False})
        return demo.model_copy(update={"episode_rows": [*demo.episode_rows[:-1], last]})


@pytest.mark.asyncio
async def test_a_demonstration_is_trimmed_filtered_and_deleted(backend, tmp_path):
    mosaic.evaluate(
        GAME, {"player_1": "minimax", "player_2": "random"}, episodes=4, recorder=record_demo("lessons", tmp_path)
    )
    backend.demos = demos = Lessons(tmp_path)
    least = demos.details("lessons").episode_rows[3].returns["player_1"]
    app = app_on(backend)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("4")
        await until(pilot, "o replay")
        await pilot.press("o")
        await until(pilot, "lessons  demonstration, 4 episodes")
        await pilot.press("down", "enter")
        await until(pilot, "episode 0 ", "trim an episode", "keep the good ones", "drop its last episode")
        await pilot.press("enter")
        await until(pilot, "was imported from a dataset without a record")

        await pilot.press("o", "down", "enter", *["down"] * 4, "enter")
        await until(pilot, "Trim an episode of lessons")
        await pilot.press("1", "enter", "enter", "2", "enter")
        await until(pilot, "Keep only steps 0 to 1 of episode 1 of lessons?")
        await pilot.press("y")
        await until(pilot, "lessons has 4 episodes now", "episode 0 ")
        assert demos.details("lessons").episode_rows[1].agent_steps == 2

        await pilot.press(*["down"] * 5, "enter")
        await until(pilot, "Keep the good episodes of lessons", "player_1")
        await pilot.press("enter", *f"{least:g}", "enter", "enter")
        await until(pilot, "Drop the episodes of lessons with other returns?")
        await pilot.press("y")
        await until(pilot, "has 3 episodes now")
        await pilot.press("end", "enter")
        await until(pilot, "Delete lessons?")
        assert isinstance(app.screen, Confirm)
        await pilot.press("y")
        await until(pilot, "lessons is deleted")
        assert "lessons  demonstration" not in text(app)
    assert demos.rows() == ([], [])


@pytest.mark.slow
def test_a_replay_has_a_process_of_its_own(episode):
    link = ProcessReplay(ReplayAsked(episode=episode_to_json(episode)))
    try:
        assert link.show().env_steps == episode.env_steps
        assert decoded(link.picture(episode.env_steps)).ndim == 3
        assert [line.text for line in link.reports()[0].transcript] == ["Your move?", "cell 5"]
        with pytest.raises(InputError, match="There is no step 99"):
            link.picture(99)
    finally:
        link.close()
    played = link.play_on(2, {"*": "human"})
    try:
        view = json.loads(played.receive())
        assert (view["step"], [move["step"] for move in view["moves"]]) == (2, [1, 2])
    finally:
        played.close()
    late = link.play_on(episode.env_steps, {"*": "human"})
    try:
        with pytest.raises(MosaicError, match="The game is over at step"):
            late.receive()
    finally:
        late.close()
    refused = ProcessReplay(ReplayAsked(name="nothing"))
    try:
        with pytest.raises(MosaicError, match="There is no recorded episode named 'nothing'"):
            refused.show()
    finally:
        refused.close()
