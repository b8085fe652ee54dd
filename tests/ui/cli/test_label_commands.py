"""The commands that label runs."""

import json

import pytest

from mosaic.config.loading import parse_run_config
from mosaic.store.store import Store


@pytest.fixture
def named(mosaic):
    config = {"environment": {"env_id": "gym/CartPole-v1"}, "name": "first", "tags": ["a"]}
    return Store().create(parse_run_config(config)).run_id


def test_a_run_is_renamed_tagged_and_noted(mosaic, named):
    assert mosaic("runs", "rename", "first", "second").code == 0
    assert mosaic("runs", "tag", "second", "b", "c", "--remove", "a").code == 0
    answer = mosaic("runs", "note", "second", "learning rate too high", "--json")
    assert json.loads(answer.out) == {
        "run_id": named, "name": "second", "tags": ["b", "c"], "note": "learning rate too high", "hidden": False,
    }  # fmt: skip
    assert "note: learning rate too high" in mosaic("runs", "note", "second").out
    assert "note: learning rate too high" in mosaic("runs", "show", "second").out
    (row,) = json.loads(mosaic("runs", "compare", "second", "--json").out)["groups"]
    assert row["label"] == "second"
    assert "second" in mosaic("runs", "compare", named).out


def test_a_hidden_run_is_listed_on_request(mosaic, named):
    assert mosaic("runs", "hide", "first").code == 0
    assert json.loads(mosaic("runs", "list", "--json").out) == []
    assert [row["name"] for row in json.loads(mosaic("runs", "list", "--hidden", "--json").out)] == ["first"]
    assert mosaic("runs", "hide", "first", "--undo").code == 0
    assert [row["name"] for row in json.loads(mosaic("runs", "list", "--json").out)] == ["first"]


def test_a_wrong_label_says_what_is_right(mosaic, named):
    answer = mosaic("runs", "rename", "first", "a/b")
    assert answer.code == 2
    assert "without '@' and '/'" in answer.err
    answer = mosaic("runs", "tag", "first", "--remove", "z")
    assert answer.code == 2
    assert "Known: a." in answer.err
