"""Folders of recorded episodes: none is overwritten, and they hold JSON also where rewards are not finite."""

import json

import pytest

POLE = ("evaluate", "gym/CartPole-v1", "--agent", "*=random", "--seed", "3")


def test_recordings_are_not_mixed_with_earlier_ones(mosaic, tmp_path):
    assert mosaic(*POLE, "--episodes", "3", "--record", "my games").code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "my games").iterdir()}
    again = mosaic(*POLE, "--episodes", "1", "--record", "my games")
    assert again.code == 2
    said = " ".join(again.err.split())
    assert "--record: 'my games' already holds 3 recorded episodes (*.json)" in said
    assert "Type: --record 'my games-2'" in said
    assert {path.name: path.read_bytes() for path in (tmp_path / "my games").iterdir()} == before
    (tmp_path / "note.json").write_text("{}")
    assert "Type: --record episodes" in mosaic(*POLE, "--episodes", "1", "--record", ".").err
    (tmp_path / "empty").mkdir()
    assert mosaic(*POLE, "--episodes", "1", "--record", "empty").code == 0


@pytest.mark.parametrize(("given", "named"), [("taken", "taken"), ("taken/games", "{place}/taken")])
def test_a_file_in_the_place_of_a_folder_is_named(mosaic, tmp_path, given, named):
    (tmp_path / "taken").write_text("mine")
    answer = mosaic(*POLE, "--episodes", "1", "--record", given)
    assert answer.code == 2
    assert f"--record: '{named.format(place=tmp_path)}' is not a folder." in " ".join(answer.err.split())
    assert (tmp_path / "taken").read_text() == "mine"


NAN_ENV = """
import gymnasium

class Broken(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(9), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        self.at += 1
        reward = {3: float("nan"), 4: float("inf"), 5: -float("inf")}.get(self.at, 1.0)
        return self.at, reward, self.at == 6, False, {}
"""


def _refuse(word):
    raise AssertionError(f"{word} is not JSON")


@pytest.fixture
def recorded(mosaic, tmp_path, monkeypatch):
    """The file of an episode with rewards that are not finite."""
    monkeypatch.setenv("MOSAIC_TRUST", "0")  # and afterwards what it was, whatever --trust made of it
    (tmp_path / "nan_env.py").write_text(NAN_ENV)
    played = mosaic(
        "evaluate", "python:nan_env.py:Broken", "--agent", "*=random", "--episodes", "1", "--record", "kept"
    )
    assert played.code == 0, played.err
    return tmp_path / "kept" / "000000.json"


def test_an_episode_with_rewards_that_are_not_finite_is_json_and_replayed(mosaic, recorded):
    document = json.loads(recorded.read_text(), parse_constant=_refuse)
    assert [rewards["agent_0"] for rewards in document["rewards"]] == [1.0, 1.0, "nan", "inf", "-inf", 1.0]
    again = mosaic("replay", str(recorded), "--quiet", "--trust")
    assert again.code == 0, again.err
    assert "bit for bit the same" in again.out
    told = mosaic("replay", str(recorded), "--json", "--trust")
    assert told.code == 0, told.err
    answer = json.loads(told.out, parse_constant=_refuse)
    assert (answer["same"], answer["returns"]) == (True, {"agent_0": None})


def test_files_with_the_words_of_python_are_still_read_and_other_rewards_differ(mosaic, recorded):
    text = recorded.read_text()
    recorded.write_text(text.replace('"nan"', "NaN").replace('"inf"', "Infinity").replace('"-inf"', "-Infinity"))
    assert "NaN" in recorded.read_text()
    assert mosaic("replay", str(recorded), "--quiet", "--trust").code == 0
    recorded.write_text(text.replace('"nan"', "2.0"))
    differs = mosaic("replay", str(recorded), "--json", "--trust")
    assert differs.code == 1
    assert json.loads(differs.out, parse_constant=_refuse)["differs_at"] == 3


def test_an_evaluation_says_which_returns_were_not_finite(mosaic, recorded):
    words = ("evaluate", "python:nan_env.py:Broken", "--agent", "*=random", "--episodes", "4")
    said = "the return of agent_0 was not finite in 4 of 4 episodes"
    assert said in mosaic(*words).err
    cut = mosaic(*words, "--json", "--max-steps", "2")
    assert (json.loads(cut.out)["notes"], cut.err) == ([], "")
    assert said in json.loads(mosaic(*words, "--json", "--max-steps", "3").out)["notes"]
