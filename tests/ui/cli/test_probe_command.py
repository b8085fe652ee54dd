"""`mosaic probe` on the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mosaic.learners import probes
from mosaic.learners.probes import ProbeAnswer


@pytest.fixture
def few(monkeypatch):
    """Two probes are enough here; the others have tests of their own."""
    kept = probes.PROBES[0], probes.PROBES[3]
    monkeypatch.setattr(probes, "PROBES", kept)
    return kept


@pytest.fixture
def wrong(monkeypatch, few):
    kept = few[0], replace(few[1], answers=(ProbeAnswer(0, 1.0, 0),))
    monkeypatch.setattr(probes, "PROBES", kept)


def test_a_sound_learner(mosaic, few):
    answer = mosaic("probe")
    assert answer.code == 0
    for words in ("native ppo", "one_value", "advantage or", "V(0) = 1.00", "ppo gets all 2 right"):
        assert words in answer.out
    assert "NO" not in answer.out


def test_a_broken_learner_ends_with_1(mosaic, wrong):
    answer = mosaic("probe", "--algo", "dqn")
    assert answer.code == 1
    assert answer.out.count("NO") == 1
    assert "right." not in answer.out


def test_json(mosaic, wrong):
    answer = mosaic("probe", "--json")
    assert answer.code == 1
    assert answer.err == ""
    document = json.loads(answer.out)
    assert (document["worker"], document["algorithm"], document["ok"]) == ("native", "ppo", False)
    one, other = document["probes"]
    assert one == {
        "name": "one_value",
        "finds": "value loss or optimiser",
        "expected": ["V(0) = 1.00"],
        "got": ["V(0) = 1.00"],
        "ok": True,
    }
    assert not other["ok"]
    assert other["got"][0].endswith("plays 1 (100%)")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--worker", "sb3"], "'sb3' is not one of 'native'"),
        (["--algo", "pp0"], "is not one of 'ppo', 'a2c', 'dqn', 'sac', 'td3'. Did you mean 'ppo'?"),
        (["--algo", "dqn", "--engine", "torch"], "dqn has one engine"),
        (["--engine", "jax"], "--engine"),
    ],
)
def test_wrong_words(mosaic, words, message):
    answer = mosaic("probe", *words)
    assert answer.code == 2
    assert message in answer.err
