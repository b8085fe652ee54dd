"""Games in real time: held keys, taps, axes, keys of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mosaic.runners.record import episode_from_json
from tests.server.match_kit import open_match, screen
from tests.server.server_kit import app_client


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path) as client:
        yield client


def test_real_time_with_held_keys(client: TestClient) -> None:
    """A paddle goes up as long as its key is held, and rests after."""
    agents = {"paddle_0": "human", "paddle_1": "random"}
    match_id = open_match(client, "butterfly/cooperative_pong", agents, rate_hz=60)
    with screen(client, match_id) as seat:
        assert seat.state["real_time"]
        seat.until_frame(lambda h: h.step >= 2)
        seat.send("key", code="ArrowUp", key="ArrowUp", down=True)
        start = seat.frames[-1].facts.step
        seat.until_frame(lambda h: h.step >= start + 8)
        seat.send("key", code="ArrowUp", key="ArrowUp", down=False)
        end = seat.frames[-1].facts.step
        seat.until_frame(lambda h: h.step >= end + 8)
        seat.send("pause", on=True)
        seat.until(lambda s: s["paused"])
    episode = episode_from_json(client.get(f"/matches/{match_id}/episode").json())
    played = [actions["paddle_0"] for actions in episode.actions]
    ups = [step for step, action in enumerate(played) if action == 1]
    assert set(played) == {0, 1}
    assert len(ups) >= 5
    assert ups == list(range(ups[0], ups[-1] + 1))
    assert played[0] == 0
    assert played[-1] == 0


def test_a_tap_shorter_than_a_step_counts_once(client: TestClient) -> None:
    match_id = open_match(client, "butterfly/cooperative_pong", {"*": "human"}, rate_hz=60)
    with screen(client, match_id) as seat:
        seat.send("pause", on=True)
        seat.until(lambda s: s["paused"])
        seat.send("key", code="KeyS", key="s", down=True)
        seat.send("key", code="KeyS", key="s", down=False)
        before = _settled(client, match_id)
        seat.send("step")
        seat.send("step")
        seat.until_frame(lambda h: h.step == before + 2)
    episode = episode_from_json(client.get(f"/matches/{match_id}/episode").json())
    assert [actions["paddle_0"] for actions in episode.actions].count(2) == 1
    assert {actions["paddle_1"] for actions in episode.actions} == {0}


def _settled(client: TestClient, match_id: str) -> int:
    """The steps of a paused match, once the one under way is done."""
    return len(client.get(f"/matches/{match_id}/episode").json()["actions"])


def test_continuous_actions_by_keys_and_axes(client: TestClient) -> None:
    match_id = open_match(client, "gym/Pendulum-v1", {"*": "human"}, rate_hz=60)
    with screen(client, match_id) as seat:
        assert seat.state["axes"] == 1
        seat.send("pause", on=True)
        seat.until(lambda s: s["paused"])
        before = _settled(client, match_id)
        for number, message in enumerate(
            (
                {"type": "axes", "values": [0.5]},
                {"type": "axes", "values": [-1.0]},
                {"type": "axes", "values": [0.0]},
                {"type": "key", "code": "KeyD", "key": "d", "down": True},
            )
        ):
            seat.send(message.pop("type"), **message)
            seat.send("step")
            seat.until_frame(lambda h, number=number: h.step == before + number + 1)
    episode = episode_from_json(client.get(f"/matches/{match_id}/episode").json())
    played = [float(actions["agent_0"][0]) for actions in episode.actions[before : before + 4]]
    assert played == [1.0, -2.0, 0.0, 2.0]


def test_own_keys_replace_those_of_the_env(client: TestClient) -> None:
    match_id = open_match(client, "gym/FrozenLake-v1", {"*": "human"})
    with screen(client, match_id) as seat:
        assert not seat.state["real_time"]
        assert [spot["label"] for spot in seat.state["spots"]] == ["left", "down", "right", "up"]
        seat.send("key", code="ArrowDown", key="ArrowDown", down=True)
        seat.until(lambda s: s["step"] == 1)
        seat.send("key", code="ArrowDown", key="ArrowDown", down=False)
        seat.send("keys", bindings=[{"keys": ["KeyJ"], "action": 0}])
        seat.until(lambda s: s["own_keys"])
        seat.send("key", code="KeyJ", key="j", down=True)
        seat.until(lambda s: s["step"] == 2)
        assert [move["text"] for move in seat.state["moves"]] == ["down", "left"]
        seat.send("keys", bindings=[{"keys": ["KeyJ"], "action": 9}])
        assert seat.until_refused() == "KeyJ: there is no action 9; actions are 0 to 3."
