"""Do chess engines play as policies, and fail loudly?"""

from __future__ import annotations

import re
from pathlib import Path

import chess
import pytest
from pettingzoo.classic.chess import chess_utils

from mosaic.core.errors import InputError, MissingExtraError
from mosaic.envs.chess import action_of
from mosaic.policies.registry import is_reproducible, load_policy, parse_policy
from mosaic.policies.uci import options as programs
from mosaic.policies.uci.controller import Offer, parse_best_move, parse_offer
from mosaic.policies.uci.options import INSTALL_STOCKFISH, find_program
from tests.policies.uci.uci_kit import AGENTS, FakeEngine, exists, spec_of, turn_of, uci

# What is asked and what is refused


@pytest.mark.parametrize(
    ("reference", "reproducible"),
    [
        ("stockfish", True),
        ("stockfish:depth=3", True),
        ("stockfish:nodes=500,depth=9", True),
        ("uci:/usr/games/stockfish,depth=3", True),
        ("stockfish:elo=1500", False),
        ("stockfish:skill=5,depth=4", False),
        ("stockfish:time_s=0.1", False),
        ("uci:stockfish,time_s=0.1", False),
    ],
)
def test_only_limits_without_chance_and_clock_are_reproducible(reference: str, reproducible: bool) -> None:
    assert is_reproducible(reference) is reproducible


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("stockfish:elo=1500,skill=3", "elo and skill both set the strength: give only one of them"),
        ("stockfish:skill=21", "skill: it should be at most 20 (got '21')."),
        ("stockfish:depth=0", "depth: it should be at least 1 (got '0')."),
        ("stockfish:time=1", "there is no option 'time'. Did you mean 'time_s'?"),
        ("uci", "the option 'path' is missing."),
        ("uci:depth=3", "the option 'path' is missing."),
    ],
)
def test_options_that_make_no_sense_are_refused(reference: str, text: str) -> None:
    with pytest.raises(InputError, match=re.escape(text)):
        parse_policy(reference)


@pytest.mark.parametrize("reference", ["stockfish", "uci:stockfish"])
def test_only_chess_is_played(reference: str) -> None:
    with pytest.raises(InputError, match=f"^'{reference}' plays classic/chess_v6 only, not classic/go_v5.$"):
        load_policy(reference, spec_of("classic/go_v5"))


def test_thinking_longer_than_the_time_limit_is_refused() -> None:
    with pytest.raises(InputError, match="thinks for 60 s, but a move may take 60 s at most: make time_s smaller"):
        uci("stockfish:time_s=60")


def test_without_stockfish_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "FURTHER_FOLDERS", ())
    with pytest.raises(
        MissingExtraError, match=rf"no program 'stockfish' on the PATH, in /usr/games .*Type: {INSTALL_STOCKFISH}"
    ):
        uci("stockfish")
    assert parse_policy("stockfish")[0].missing() == INSTALL_STOCKFISH
    with pytest.raises(
        InputError, match=r"There is no engine 'stockfish'.*Type for example: uci:/usr/games/stockfish,depth=8"
    ):
        uci("uci:stockfish")


def test_programs_are_found_by_path_on_the_path_and_beside_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    for folder in (near, far):
        folder.mkdir()
        (folder / "engine").write_text("#!/bin/sh\n")
    (far / "engine").chmod(0o755)
    monkeypatch.setattr(programs, "FURTHER_FOLDERS", (str(far),))
    monkeypatch.setenv("PATH", str(near))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_program("engine") == far / "engine"
    (near / "engine").chmod(0o755)
    assert find_program("engine") == near / "engine"
    assert find_program("~/far/engine") == far / "engine"


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "engine").write_text("")
    with pytest.raises(InputError, match=r"cannot be run: an engine is an executable program\. Type: chmod \+x /"):
        uci(f"uci:{tmp_path}/engine")


# What engines say and are told


def test_option_lines_are_understood() -> None:
    line = "option name UCI_Elo type spin default 1350 min 1350 max 2850"
    assert parse_offer(line) == Offer("UCI_Elo", 1350, 2850)
    assert parse_offer("option name Debug Log File type string default ") == Offer("Debug Log File")
    assert parse_offer("option name Clear Hash type button") == Offer("Clear Hash")
    assert parse_offer("option name Book type string default min 1 max 2") == Offer("Book")
    assert parse_offer("id name Stockfish 15.1") is None


def test_the_best_move_is_found_in_its_line() -> None:
    assert parse_best_move("bestmove e2e4 ponder e7e5") == "e2e4"
    assert parse_best_move("bestmove a7a8q") == "a7a8q"
    assert parse_best_move("info depth 1 pv e2e4") is None
    assert parse_best_move("") is None


STRENGTHS = (
    "option name UCI_Elo type spin default 1000 min 1000 max 2000\noption name Threads type spin default 8 min 1 max 9"
)


@pytest.mark.parametrize(
    ("options", "settings", "go"),
    [
        ("", [], "go depth 10"),
        (",nodes=300,depth=4", [], "go depth 4 nodes 300"),
        (",time_s=0.25", [], "go movetime 250"),
        (",elo=1500", ["UCI_LimitStrength value true", "UCI_Elo value 1500"], "go depth 10"),
    ],
)
def test_an_engine_is_told_exactly_what_was_asked(
    fake: FakeEngine, tmp_path: Path, options: str, settings: list[str], go: str
) -> None:
    controller = uci(fake(offers=STRENGTHS) + options)
    controller.begin(AGENTS, 0)
    assert controller.act(turn_of()) == {"player_0": action_of("e2e4", True)}
    controller.close()
    assert (tmp_path / "heard").read_text().splitlines() == [
        "uci",
        "setoption name Threads value 1",
        *(f"setoption name {setting}" for setting in settings),
        "ucinewgame",
        "isready",
        f"position fen {chess.STARTING_FEN}",
        go,
    ]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("elo=2500", "this engine's elo ranges from 1000 to 2000, not 2500."),
        ("skill=5", "this engine has no option skill. Leave 'skill=5' out."),
    ],
)
def test_strength_an_engine_does_not_have_is_refused(fake: FakeEngine, tmp_path: Path, option: str, text: str) -> None:
    controller = uci(f"{fake(offers=STRENGTHS)},{option}")
    with pytest.raises(InputError, match=re.escape(text)) as caught:
        controller.begin(AGENTS, 0)
    assert not exists(int((tmp_path / "pid").read_text()))
    del caught  # it held every frame until here: the process was ended, not merely lost


SPECIAL_MOVES = [
    ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1g1"),
    ("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", "e8c8"),
    ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", "e5d6"),
    ("4k3/8/8/8/3PpP2/8/8/4K3 b - f3 0 1", "e4f3"),
    ("1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7b8q"),
    ("4k3/8/8/8/8/8/p7/1N2K3 b - - 0 1", "a2b1n"),
    ("4k3/8/8/8/8/8/p7/1N2K3 b - - 0 1", "a2a1r"),
]


@pytest.mark.parametrize(("fen", "move"), SPECIAL_MOVES)
def test_special_moves_reach_the_env(fake: FakeEngine, fen: str, move: str) -> None:
    controller = uci(fake(f"say('bestmove {move}')"))
    turn = turn_of(fen)
    controller.begin(AGENTS, 0)
    ((agent, action),) = controller.act(turn).items()
    controller.close()
    board = chess.Board(fen)
    assert chess_utils.action_to_move(board, action, AGENTS.index(agent)) == chess.Move.from_uci(move)
