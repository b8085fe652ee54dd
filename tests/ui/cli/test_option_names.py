"""Names of options: earlier ones are still understood."""

from __future__ import annotations

import json

import pytest

TRAIN = ("train", "gym/CartPole-v1", "--worker", "toy", "--dry-run", "--json")
RUNNERS = ("--num-env-runners", "3")
EARLIER = ("--num-workers", "3")


@pytest.mark.parametrize("words", [RUNNERS, EARLIER, (*RUNNERS, *EARLIER), ("--set", "resources.num_workers=3")])
def test_env_runners_by_any_name_are_stored_under_one(mosaic, words):
    stored = json.loads(mosaic(*TRAIN, *words).out)["resources"]
    assert (stored["num_env_runners"], "num_workers" in stored) == (3, False)


@pytest.mark.parametrize("command", [TRAIN, ("tune", "gym/CartPole-v1"), ("runs", "resume", "latest")])
def test_two_names_with_different_numbers_are_refused(mosaic, command):
    refused = mosaic(*command, *RUNNERS, "--num-workers", "4")
    assert refused.code == 2
    assert "--num-workers is the earlier name of --num-env-runners, and they differ: 4 and 3." in " ".join(
        refused.err.split()
    )


@pytest.mark.parametrize("command", [("train",), ("tune",), ("runs", "resume"), ("evaluate",), ("tournament",)])
def test_help_shows_the_current_name_alone(mosaic, command):
    text = mosaic(*command, "--help").out
    assert "--num-env-runners" in text
    assert "--num-workers" not in text


def test_names_are_understood_in_any_case(mosaic):
    words = (
        "train",
        "classic/tictactoe_v3",
        "--worker",
        "Tabular",
        "--algo",
        "SARSA",
        "--runtime",
        "Single",
        "--dry-run",
    )
    stored = json.loads(mosaic(*words, "--policies", "SELF_PLAY", "--set", "environment.api_type=AEC", "--json").out)
    assert (stored["training"]["worker"], stored["training"]["algorithm"]) == ("tabular", "sarsa")
    assert (stored["resources"]["runtime"], stored["environment"]["api_type"]) == ("single", "aec")
    assert mosaic("schema", "Tabular", "SARSA").out == mosaic("schema", "tabular", "sarsa").out
