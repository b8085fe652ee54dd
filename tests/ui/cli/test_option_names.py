"""Names of options: earlier ones are still understood."""

from __future__ import annotations

import json
import subprocess
import sys

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


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("train", "--worker", ""), ["native", "rllib", "sb3", "script", "tabular", "toy"]),
        (("tune", "--worker", "t"), ["tabular", "toy"]),
        (("train", "--worker", "sb3", "--algo", "q"), ["qrdqn"]),
        (("train", "--algo", "q_"), ["q_learning", "q_lambda"]),
        (("train", "--worker", "nothing", "--algo", "sar"), ["sarsa"]),
        (("probe", "--algo", "d"), ["dqn"]),
        (("export", "--target", "g"), ["godot"]),
    ],
)
def test_the_shell_completes_workers_algorithms_and_choices(mosaic, monkeypatch, words, found):
    monkeypatch.setenv("_MOSAIC_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(("mosaic", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    answer = mosaic()
    assert (answer.code, answer.out.split(), answer.err) == (0, found, "")


def test_listing_algorithms_imports_nothing_heavy():
    code = (
        "import sys\nfrom types import SimpleNamespace\nfrom mosaic.ui.cli.setting_help import complete_algorithm\n"
        "assert list(complete_algorithm(SimpleNamespace(params={}), 'pp')) == ['ppo']\n"
        "print([name for name in ('torch', 'ray', 'numba', 'stable_baselines3', 'pygame') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_help_of_export_shows_the_defaults_of_its_settings(mosaic):
    words = " ".join(mosaic("export", "--help").out.split())
    for text in (
        "Policies to export; may be repeated. [default: (all)]",
        "Version of ONNX's operators. [default: (17); x>=1]",
        "Maximum allowed difference of outputs and actions. [default: (0.0001)]",
        "Replace files that exist. --detach",
    ):
        assert text in words
    assert "[default" not in " ".join(mosaic("runs", "resume", "--help").out.split()).partition("2h).")[2][:30]
