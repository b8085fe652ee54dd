"""Errors say what was asked, what is nearest, what exists."""

from mosaic.core.errors import InputError, MosaicError, describe_error, nearest, unknown


def test_unknown_names_the_nearest_and_the_known():
    error = unknown("worker", "sb4", ["native", "rllib", "sb3"])
    assert str(error) == "There is no worker named 'sb4'. Did you mean 'sb3'? Known: native, rllib, sb3."
    assert isinstance(error, InputError)
    assert error.exit_code == 2
    assert MosaicError.exit_code == 1


def test_unknown_guesses_nothing_when_nothing_is_near():
    assert "Did you mean" not in str(unknown("worker", "zzz", ["native"]))


def test_nearest_ignores_case():
    assert nearest("cartpole-v1", ["CartPole-v1", "Taxi-v3"]) == "CartPole-v1"


def test_long_lists_are_cut():
    assert str(unknown("env", "q", [f"n{i:02}" for i in range(40)])).endswith("n29 and 10 more.")


def test_an_error_without_a_message_is_described_by_its_cause():
    empty = RuntimeError()
    empty.__cause__ = ValueError("the game is gone")
    assert describe_error(empty) == "ValueError: the game is gone"
    assert describe_error(KeyError("x")) == "KeyError: 'x'"
    assert describe_error(RuntimeError()) == "RuntimeError: "
