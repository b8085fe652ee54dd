"""Folders of recorded episodes: none is overwritten, and what they hold is JSON, also of rewards that are not finite."""

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
    (tmp_path / "empty").mkdir()
    assert mosaic(*POLE, "--episodes", "1", "--record", "empty").code == 0


@pytest.mark.parametrize(("given", "named"), [("taken", "taken"), ("taken/games", "{place}/taken")])
def test_a_file_in_the_place_of_a_folder_is_named(mosaic, tmp_path, given, named):
    (tmp_path / "taken").write_text("mine")
    answer = mosaic(*POLE, "--episodes", "1", "--record", given)
    assert answer.code == 2
    assert f"--record: '{named.format(place=tmp_path)}' is not a folder." in " ".join(answer.err.split())
    assert (tmp_path / "taken").read_text() == "mine"
