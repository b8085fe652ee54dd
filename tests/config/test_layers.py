"""Layers of settings: which one wins, where a value comes from, and relative paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.config.layers import absolute_settings, env_of, merge_settings, setting_sources, without_other_env

BELOW = {
    "seed": 1,
    "tags": ["below"],
    "environment": {"env_id": "gym/CartPole-v1", "options": {"a": 1, "b": 1}, "num_envs": 4},
    "training": {"worker": "native", "params": {"gamma": 0.9, "learning_rate": 1e-3}},
    "checkpoint": {"every_minutes": 5.0, "keep_last": 2},
    "agents": {"red_*": "random", "blue": "learner"},
}


def test_the_upper_layer_wins_setting_by_setting():
    above = {"seed": 2, "training": {"params": {"gamma": 0.5}}, "environment": {"options": {"b": 2}}}
    merged = merge_settings(BELOW, above)
    assert merged["seed"] == 2
    assert merged["tags"] == ["below"]
    assert merged["training"] == {"worker": "native", "params": {"gamma": 0.5, "learning_rate": 1e-3}}
    assert merged["environment"] == {"env_id": "gym/CartPole-v1", "options": {"a": 1, "b": 2}, "num_envs": 4}


def test_options_of_an_env_do_not_reach_another_env():
    merged = merge_settings(BELOW, {"environment": {"env_id": "gym/Acrobot-v1"}})
    assert merged["environment"] == {"env_id": "gym/Acrobot-v1"}
    assert merged["training"] == BELOW["training"]
    assert without_other_env(BELOW, "gym/CartPole-v1") == BELOW


def test_two_spellings_of_one_env_are_the_same_env():
    merged = merge_settings(BELOW, {"environment": {"family": "gym", "env_id": "CartPole-v1"}})
    assert merged["environment"] == {
        "family": "gym", "env_id": "CartPole-v1", "options": {"a": 1, "b": 1}, "num_envs": 4
    }  # fmt: skip
    assert env_of(merged) == "gym/CartPole-v1"
    assert env_of({"environment": {"options": {}}}) is None


def test_rules_and_intervals_are_replaced_as_a_whole():
    merged = merge_settings(BELOW, {"agents": {"*": "random"}, "checkpoint": {"every_steps": 10}})
    assert merged["agents"] == {"*": "random"}
    assert merged["checkpoint"] == {"keep_last": 2, "every_steps": 10}
    assert merge_settings(BELOW, {"checkpoint": {"keep_last": 9}})["checkpoint"] == {
        "every_minutes": 5.0,
        "keep_last": 9,
    }


def test_sources_name_the_highest_layer_that_set_a_value():
    file = {"seed": 3, "training": {"params": {"gamma": 0.7}}}
    typed = {"training": {"params": {"gamma": 0.5}}}
    merged = merge_settings(merge_settings(BELOW, file), typed)
    sources = setting_sources(merged, [("typed", typed), ("file", file), ("preset", BELOW)])
    assert sources["training.params.gamma"] == "typed"
    assert sources["seed"] == "file"
    assert sources["training.params.learning_rate"] == "preset"
    assert sources["agents"] == "preset"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"environment": {"env_id": "godot/bin/game.x86_64"}}, {"environment": {"env_id": "godot//p/bin/game.x86_64"}}),
        (
            {"environment": {"family": "godot", "env_id": "game"}},
            {"environment": {"family": "godot", "env_id": "/p/game"}},
        ),
        ({"environment": {"env_id": "godot/debug"}}, {"environment": {"env_id": "godot/debug"}}),
        ({"environment": {"env_id": "python:env.py:make"}}, {"environment": {"env_id": "python:/p/env.py:make"}}),
        (
            {"environment": {"family": "python", "env_id": "../env.py:make"}},
            {"environment": {"family": "python", "env_id": "/env.py:make"}},
        ),
        ({"agents": {"a": "checkpoint:old,trust=1"}}, {"agents": {"a": "checkpoint:/p/old,trust=1"}}),
        ({"agents": {"a": "onnx:/abs/x.onnx", "b": "random"}}, {"agents": {"a": "onnx:/abs/x.onnx", "b": "random"}}),
        ({"checkpoint": {"folder": "saved"}}, {"checkpoint": {"folder": "/p/saved"}}),
        ({"training": {"params": {"k": ["python:os:f"]}}}, {"training": {"params": {"k": ["python:os:f"]}}}),
    ],
)  # fmt: skip
def test_paths_are_relative_to_the_folder(given, expected):
    assert absolute_settings(given, Path("/p")) == expected


def test_a_module_beside_the_file_is_found_from_any_folder(tmp_path):
    (tmp_path / "my_env.py").write_text("")
    found = absolute_settings({"environment": {"env_id": "python:my_env:make"}}, tmp_path)
    assert found == {"environment": {"env_id": f"python:{tmp_path}/my_env.py:make"}}
