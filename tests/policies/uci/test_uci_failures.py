"""Chess engines that fail, and the time for which their processes live."""

from __future__ import annotations

import gc
import re

import chess
import pytest

from mosaic.core.errors import InputError
from mosaic.policies.controller import PolicyError, PolicyTimeoutError, Remembers
from mosaic.policies.uci import controller as client
from tests.policies.uci.uci_kit import AGENTS, FakeEngine, exists, turn_of, uci

# What goes wrong


@pytest.mark.parametrize(
    ("go", "kind", "text"),
    [
        (
            "pass",
            PolicyTimeoutError,
            "did not respond to 'go depth 10' within 0.1 s and was terminated. Its last output: ",
        ),
        (
            "while True: say('info nodes 1')",
            PolicyTimeoutError,
            "within 0.1 s and was terminated. Its last output: info nodes 1",
        ),
        ("say('sorry'); sys.exit(3)", PolicyError, "exited (status 3) on the command 'go depth 10'."),
        ("raise KeyError('net')", PolicyError, "KeyError: 'net'"),
        (
            "say('bestmove e2e5')",
            PolicyError,
            f"answered with the illegal move 'e2e5' in the position '{chess.STARTING_FEN}'.",
        ),
        (
            "say('bestmove h9')",
            PolicyError,
            f"answered 'h9', which is not a move, in the position '{chess.STARTING_FEN}'.",
        ),
        ("say('bestmove (none)')", PolicyError, "answered '(none)', which is not a move,"),
    ],
)
def test_an_engine_that_fails_is_named_and_ended(fake: FakeEngine, go: str, kind: type[PolicyError], text: str) -> None:
    reference = fake(go)
    limit_s = 0.1 if kind is PolicyTimeoutError else 60.0
    controller = uci(reference, limit_s)
    controller.begin(AGENTS, 0)
    pid = controller.engine_pid
    assert exists(pid)
    with pytest.raises(kind, match=f"^{re.escape(reference.removeprefix('uci:'))} .*{re.escape(text)}"):
        controller.act(turn_of())
    assert not exists(pid)
    assert controller.engine_pid is None


@pytest.mark.parametrize(
    ("introduction", "text"), [("pass", "did not respond to 'uci' within 0.1 s"), ("sys.exit(0)", "exited (status 0)")]
)
def test_an_engine_that_does_not_introduce_itself_is_ended(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch, introduction: str, text: str
) -> None:
    monkeypatch.setattr(client, "START_LIMIT_S", 0.1 if introduction == "pass" else 60.0)
    controller = uci(fake(uci=introduction))
    with pytest.raises(PolicyError, match=re.escape(text)):
        controller.begin(AGENTS, 0)
    assert controller.engine_pid is None


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({}, "needs the position of 'player_0' as infos['fen'], which is missing"),
        ({"fen": f"{chess.STARTING_FEN}\nquit"}, "is not a chess position in FEN"),
    ],
)
def test_without_a_position_nothing_is_played(fake: FakeEngine, info: dict[str, str], text: str) -> None:
    controller = uci(fake())
    controller.begin(AGENTS, 0)
    pid = controller.engine_pid
    with pytest.raises((PolicyError, InputError), match=re.escape(text)):
        controller.act(turn_of()._replace(infos={"player_0": info}))
    assert not exists(pid)


def test_an_interrupt_ends_the_engine(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    controller = uci(fake())
    controller.begin(AGENTS, 0)
    pid = controller.engine_pid
    monkeypatch.setattr(client.UciEngine, "best_move", interrupt)
    with pytest.raises(KeyboardInterrupt):
        controller.act(turn_of())
    assert not exists(pid)


# When the process lives


def test_the_process_lives_from_begin_to_close(fake: FakeEngine) -> None:
    controller = uci(fake())
    assert controller.engine_pid is None
    controller.begin(AGENTS, 0)
    first = controller.engine_pid
    controller.begin(AGENTS, 1)
    second = controller.engine_pid
    assert not exists(first)
    assert exists(second)
    controller.close()
    controller.close()
    assert not exists(second)


def test_the_process_ends_with_the_last_of_its_agents_and_comes_back_when_needed(fake: FakeEngine) -> None:
    controller = uci(fake())
    assert isinstance(controller, Remembers)
    controller.begin(AGENTS, 0)
    first = controller.engine_pid
    controller.forget("player_0")
    assert exists(first)
    controller.forget("player_1")
    assert not exists(first)
    controller.act(turn_of())
    second = controller.engine_pid
    assert exists(second)
    controller.forget("player_0")
    assert not exists(second)


def test_a_controller_nobody_holds_leaves_no_process(fake: FakeEngine) -> None:
    controller = uci(fake())
    controller.begin(AGENTS, 0)
    pid = controller.engine_pid
    del controller
    gc.collect()
    assert not exists(pid)
