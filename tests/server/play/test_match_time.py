"""Time in a match: a real-time game waits for people, clocks of a game in turns run down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mosaic.core.episode import EpisodeNote
from mosaic.core.errors import InputError
from mosaic.runners.record import episode_from_json
from mosaic.server.play.match import Match
from mosaic.server.play.messages import MatchRequest
from mosaic.server.play.pace import ClockConfig, GameClocks, Start
from mosaic.server.play.participants import Viewer
from mosaic.server.play.requests import MoveRequest, UndoRequest, make_move, undo
from tests.server.match_kit import open_match, screen
from tests.server.server_kit import app_client


class _Time:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path) as client:
        yield client


def test_one_person_starts_at_once_and_several_after_a_countdown() -> None:
    time, one, two = _Time(), Viewer(print), Viewer(print)
    start = Start(time)
    assert start.wait_s([one]) == 0.0
    start.begin(waiting=True)
    assert start.wait_s([]) == start.wait_s([one]) == float("inf")
    start.press(one)
    assert start.wait_s([one, two]) == float("inf")
    assert start.view(one, [one, two]) == {"mine": True, "ready": 1, "people": 2, "starts_in_s": None}
    start.press(two)
    assert start.wait_s([one, two]) == 3.0
    time.now_s += 2
    assert start.view(two, [one, two]) == {"mine": True, "ready": 2, "people": 2, "starts_in_s": 1.0}
    time.now_s += 1
    assert start.wait_s([one, two]) == 0.0
    assert start.view(one, [one, two]) is None
    start.begin(waiting=True)
    start.press(one)
    assert start.wait_s([one]) == 0.0


def test_clocks_run_from_the_second_move_on_and_stop_in_a_pause() -> None:
    time = _Time()
    clocks = GameClocks(ClockConfig(initial_s=10, increment_s=2), time)
    clocks.begin(["white", "black"])
    clocks.move((), ["white"], first=True)
    time.now_s += 50  # before the first move no clock runs
    assert clocks.until_flag_s() == float("inf")
    clocks.move(["white"], ["black"], first=False)
    time.now_s += 4
    assert clocks.until_flag_s() == 6.0
    clocks.move(["black"], ["white"], first=False)
    assert clocks.view() == {"left_s": {"white": 10.0, "black": 8.0}, "running": ["white"]}
    clocks.stop(True)
    time.now_s += 100
    clocks.stop(False)
    time.now_s += 9
    assert clocks.flag() is None
    time.now_s += 1
    assert clocks.flag() == "white"
    clocks.move(["white"], ["black"], first=False)  # too late: no increment
    assert clocks.view()["left_s"] == {"white": 0.0, "black": 8.0}


def test_a_move_that_is_taken_back_gives_no_time_back() -> None:
    time = _Time()
    request = MatchRequest.model_validate(
        {"environment": {"env_id": "classic/connect_four_v3"}, "agents": {"*": "human"}, "clock": {"initial_s": 60}}
    )
    match = Match("clocked", request, clock=time)
    match.open()
    for column in (1, 2):
        make_move(match, MoveRequest(move=f"column {column}", wait_s=20))
    time.now_s += 25
    assert undo(match, UndoRequest(wait_s=20)).step == 1
    clocks = match.state.pace.clocks
    assert clocks is not None
    assert clocks.view() == {"left_s": {"player_0": 35.0, "player_1": 60.0}, "running": ["player_1"]}
    time.now_s += 60
    with pytest.raises(InputError, match="Black has lost on time: no move can be taken back"):
        undo(match, UndoRequest(wait_s=20))
    match.end("the test is over.")


def test_a_fallen_flag_loses_and_the_record_says_so(client: TestClient) -> None:
    clock = {"initial_s": 0.2}
    match_id = open_match(client, "classic/connect_four_v3", {"*": "human"}, clock=clock, record=True)
    with screen(client, match_id) as seat:
        seat.move("column1")
        state = seat.until(lambda s: s["phase"] == "over")
        assert (state["verdict"], state["reason"]) == ("Red won", "Black lost on time.")
        seat.until(lambda s: s["kept"])
        record = episode_from_json(client.get(f"/episodes/{seat.state['kept'][0]}").json())
        assert record.notes == [EpisodeNote(1, "player_1", "lost_on_time")]
        assert record.cut


def test_a_real_time_game_waits_for_the_first_key(client: TestClient) -> None:
    match_id = open_match(client, "gym/CartPole-v1", {"*": "human"}, ready_screen=True)
    with screen(client, match_id) as seat:
        seat.until_frame(lambda h: h.step == 0)
        assert seat.state["ready"] == {"mine": False, "ready": 0, "people": 1, "starts_in_s": None}
        assert seat.state["step"] == 0
        seat.send("key", code="ArrowLeft", key="ArrowLeft", down=True)
        seat.until(lambda s: s["ready"] is None and s["step"] > 0)


def test_several_people_are_counted_down(client: TestClient) -> None:
    match_id = open_match(client, "butterfly/cooperative_pong", {"*": "human"}, ready_screen=True)
    with screen(client, match_id) as one, screen(client, match_id, "paddle_1") as two:
        one.until(lambda s: s["ready"]["people"] == 2)
        one.send("ready")
        two.until(lambda s: s["ready"]["ready"] == 1 and s["ready"]["starts_in_s"] is None)
        two.send("ready")
        for each in (one, two):
            each.until(lambda s: s["ready"]["starts_in_s"] is not None)
        assert one.state["step"] == 0
