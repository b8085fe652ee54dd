"""Hidden information: what viewers of a match are sent while it lasts, and after its end."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from PIL import Image

from mosaic.server.play.episode import CurrentEpisode
from mosaic.testing import SecrecyError, check_secrecy
from tests.server.match_kit import Screen, open_match, screen
from tests.server.server_kit import app_client

LEDUC = "classic/leduc_holdem_v4"
GUESSING = """
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Guessing(ParallelEnv):
    metadata = {"name": "guessing", "hidden_information": True, "render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        self.render_mode, self.possible_agents = render_mode, ["left", "right"]

    def observation_space(self, agent):
        return spaces.Box(0, 1000, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        chance = np.random.default_rng(seed)
        self.agents, self.steps = list(self.possible_agents), 0
        self.secrets = {agent: np.array([chance.integers(1000)], np.float32) for agent in self.agents}
        return dict(self.secrets), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        over, agents = self.steps == 3, self.agents
        self.agents = [] if over else agents
        return (dict(self.secrets), dict.fromkeys(agents, 0.0), dict.fromkeys(agents, over),
                dict.fromkeys(agents, False), {agent: {} for agent in agents})

    def render(self):
        return np.zeros((8, 8, 3), np.uint8)


class Drawn(Guessing):
    metadata = {**Guessing.metadata, "name": "drawn"}

    def render_for(self, agent):
        shade = {None: 10, "left": 20, "right": 30}[agent]
        return np.full((8, 8, 3), shade, np.uint8)


class Careless(Guessing):
    metadata = {"name": "careless"}
"""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with app_client(tmp_path / "home", allow_programs=True) as client:
        yield client


@pytest.fixture
def own_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "guessing_game.py").write_text(GUESSING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "guessing_game", raising=False)
    return "python:guessing_game"


@pytest.mark.parametrize(
    "env",
    ["classic/texas_holdem_v4", "classic/texas_holdem_no_limit_v6", LEDUC, "classic/gin_rummy_v4", "classic/hanabi_v5",
     "classic/rps_v2", "mpe/simple_adversary_v3", "mpe/simple_speaker_listener_v4"],
)  # fmt: skip
def test_viewers_are_sent_what_their_agent_may_see(env: str) -> None:
    assert check_secrecy(env, max_steps=12).messages >= 3


def test_an_own_env_with_hidden_information_is_safe_too(own_env: str) -> None:
    assert check_secrecy(f"{own_env}:Guessing").env_steps == 3
    with pytest.raises(SecrecyError, match="does not declare hidden information"):
        check_secrecy(f"{own_env}:Careless")


def test_an_own_env_draws_a_picture_for_each_agent(client: TestClient, own_env: str) -> None:
    assert check_secrecy(f"{own_env}:Drawn").env_steps == 3
    match_id = open_match(client, f"{own_env}:Drawn", {"*": "human"}, pace="turns")
    with screen(client, match_id) as first, screen(client, match_id) as second, screen(client, match_id) as third:
        shades = []
        for seat in (first, second, third):
            assert seat.state["pictures"]
            seat.until_frame(lambda facts: facts.step == 0)
            shades.append(int(shown(seat).max()))
        assert shades == [20, 30, 10]
        for step in range(3):
            for seat in (first, second):
                seat.until(lambda s, step=step: s["step"] == step and s["chooser"] is not None)
                seat.send("act", action=0)
        third.until(lambda s: s["phase"] == "over")
        third.until_frame(lambda facts: facts.step == 3)
        assert int(shown(third).max()) == 0  # what render() draws, when it is over


def shown(seat: Screen) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(seat.frames[-1].picture)) as picture:
        return np.asarray(picture.convert("RGB"))


def test_the_check_notices_what_is_told(own_env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CurrentEpisode, "is_revealed", property(lambda self: True))
    with pytest.raises(SecrecyError, match=r"At step 0 left is (sent the env's picture|told the seed)"):
        check_secrecy(f"{own_env}:Guessing")


def hand(view: dict[str, Any], agent: str) -> list[str]:
    (seat,) = [seat for seat in view["table"]["seats"] if seat["agent"] == agent]
    return [card["rank"] for row in seat["rows"] for card in row["cards"]]


def play_to_the_end(*seats: Screen) -> None:
    """Call and check until the episode is over."""
    while True:
        seats[0].until(lambda s: s["phase"] == "over" or any(agent["acting"] for agent in s["agents"]))
        step, acting = seats[0].state["step"], [agent["agent"] for agent in seats[0].state["agents"] if agent["acting"]]
        if not acting:
            break
        (mover,) = [seat for seat in seats if seat.state["claims"] == acting]
        mover.until(lambda s, step=step: s["step"] == step and s["chooser"] is not None)
        names = {spot["label"]: spot["id"] for spot in mover.state["spots"]}
        mover.send("press", spot=names.get("call") or names["check"])
        for seat in seats:
            seat.until(lambda s, step=step: s["step"] > step)


def test_two_people_and_a_spectator_until_the_end(client: TestClient) -> None:
    match_id = open_match(client, LEDUC, {"*": "human"})
    with screen(client, match_id) as first, screen(client, match_id) as second, screen(client, match_id) as third:
        assert [seat.state["claims"] for seat in (first, second, third)] == [["player_0"], ["player_1"], []]
        assert hand(first.state, "player_1") == hand(second.state, "player_0") == [""]
        assert hand(first.state, "player_0") != [""]
        assert hand(third.state, "player_0") == hand(third.state, "player_1") == [""]
        assert first.state["seed"] is None
        answer = client.get(f"/matches/{match_id}/episode")
        assert (answer.status_code, "when it is over" in answer.json()["error"]) == (400, True)
        assert client.post("/replays", json={"match_id": match_id}).status_code == 400
        assert client.get(f"/matches/{match_id}").json()["seed"] is None
        assert client.get(f"/matches/{match_id}/position", params={"wait_s": 0}).json()["seed"] is None
        play_to_the_end(first, second)
        third.until(lambda s: s["phase"] == "over")
        assert [rank for agent in ("player_0", "player_1") for rank in hand(third.state, agent)].count("") == 0
        assert third.state["seed"] == client.get(f"/matches/{match_id}/episode").json()["seed"]
        assert first.frames == second.frames == third.frames == []
        seed = third.state["seed"]
        third.send("restart")
        first.until(lambda s: s["episode"] == 1 and s["phase"] == "playing")
        assert first.state["seed"] is None
        assert first.state["table"]["seats"][1]["rows"][0]["cards"][0]["rank"] == ""
        play_to_the_end(first, second)
        assert first.state["seed"] != seed


def test_a_player_who_hands_over_does_not_see_more(client: TestClient) -> None:
    match_id = open_match(client, LEDUC, {"player_0": "human", "player_1": "random"})
    with screen(client, match_id) as seat:
        seat.send("pause", on=True)
        seat.send("assign", agent="player_0", policy="random")
        seat.until(lambda s: not s["agents"][0]["human"])
        assert hand(seat.state, "player_0") == hand(seat.state, "player_1") == [""]
        seat.send("assign", agent="player_0", policy="human")
        seat.until(lambda s: s["agents"][0]["mine"])
        assert hand(seat.state, "player_0") != [""]


def test_who_has_left_is_not_followed_by_a_stranger(client: TestClient) -> None:
    match_id = open_match(client, LEDUC, {"*": "human"})
    with screen(client, match_id) as first:
        key, own = first.agent("player_0")["key"], hand(first.state, "player_0")
    with screen(client, match_id, "player_0") as stranger:
        assert (stranger.agent("player_0")["mine"], stranger.agent("player_0")["key"]) == (False, "")
        assert hand(stranger.state, "player_0") == hand(stranger.state, "player_1") == [""]
    with screen(client, match_id, owner=False) as second:
        assert second.state["claims"] == ["player_1"]
        assert hand(second.state, "player_0") == [""]
    with screen(client, match_id, "player_0") as returned:
        returned.send("identify", key=key)
        returned.until(lambda s: s["agents"][0]["mine"])
        assert hand(returned.state, "player_0") == own != [""]


def test_policies_alone_play_with_open_cards(client: TestClient) -> None:
    match_id = open_match(client, LEDUC, {"*": "random"})
    with screen(client, match_id) as seat:
        seat.until(lambda s: s["table"] is not None)
        assert "" not in hand(seat.state, "player_0") + hand(seat.state, "player_1")
        seat.send("assign", agent="player_1", policy="human")
        seat.until(lambda s: s["phase"] == "over" or s["agents"][1]["mine"])


def test_a_new_match_has_a_seed_of_its_own(client: TestClient) -> None:
    def seed_of(**parts: object) -> int:
        match_id = open_match(client, "classic/tictactoe_v3", {"*": "human"}, **parts)
        found: int = client.get(f"/matches/{match_id}").json()["seed"]
        return found

    assert seed_of(seed=None) != seed_of(seed=None)
    assert seed_of(seed=5) == 5
