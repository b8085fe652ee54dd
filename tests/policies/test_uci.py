"""Do chess engines play as policies, and fail loudly?"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable
from pathlib import Path

import chess
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from pettingzoo.classic.chess import chess_utils

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.chess import action_of, uci_of
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.policies.controller import PolicyController, PolicyError, PolicyTimeoutError, Remembers
from mosaic.policies.registry import is_reproducible, load_policy, parse_policy
from mosaic.policies.uci import UciPolicyController, engine
from mosaic.policies.uci import options as programs
from mosaic.policies.uci.engine import Offer, parse_best_move, parse_offer
from mosaic.policies.uci.options import find_program

AGENTS = ("player_0", "player_1")
needs_stockfish = pytest.mark.skipif(
    find_program("stockfish") is None, reason="Stockfish is not installed: apt install stockfish"
)


def spec_of(env_id: str = "classic/chess_v6") -> EnvSpec:
    looks = {agent: Box(0, 1, (8, 8, 111), dtype=np.bool_) for agent in AGENTS}
    acts = {agent: Discrete(4672) for agent in AGENTS}
    return EnvSpec(EnvFacts(EnvironmentConfig(env_id=env_id)), AGENTS, looks, acts)


def turn_of(fen: str = chess.STARTING_FEN) -> Turn:
    """The side to move must act."""
    board = chess.Board(fen)
    agent = AGENTS[0] if board.turn else AGENTS[1]
    mask = np.zeros(4672, np.bool_)
    mask[chess_utils.legal_moves(board)] = True
    look = np.zeros((8, 8, 111), np.bool_)
    quiet = dict.fromkeys(AGENTS, False)
    return Turn({agent: look}, {agent: mask}, dict.fromkeys(AGENTS, 0.0), quiet, quiet, {}, {agent: {"fen": fen}})


def uci(reference: str, time_limit_s: float | None = 60.0) -> UciPolicyController:
    controller = load_policy(reference, spec_of(), time_limit_s=time_limit_s)
    assert isinstance(controller, UciPolicyController)
    return controller


def exists(pid: int | None) -> bool:
    assert pid is not None
    return Path(f"/proc/{pid}").exists()


FakeEngine = Callable[..., str]


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    """Writes an engine that answers `go` as told, and notes what it is told in `heard`."""

    def write(go: str = "say('bestmove e2e4')", offers: str = "", uci: str = "say('uciok')") -> str:
        path = tmp_path / "engine"
        path.write_text(
            f"#!{sys.executable} -I\n"
            "import os, sys\n"
            "def say(text): print(text, flush=True)\n"
            f"with open({str(tmp_path / 'pid')!r}, 'w') as pid: pid.write(str(os.getpid()))\n"
            "for line in sys.stdin:\n"
            f"    with open({str(tmp_path / 'heard')!r}, 'a') as heard: heard.write(line)\n"
            "    match line.split()[0]:\n"
            f"        case 'uci':\n            say('id name Fake'); say({offers!r}); {uci}\n"
            "        case 'isready': say('readyok')\n"
            f"        case 'go':\n            {go}\n"
        )
        path.chmod(0o755)
        return f"uci:{path}"

    return write


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
        MissingExtraError, match=r"no program 'stockfish' on the PATH, in /usr/games .*Type: apt install stockfish"
    ):
        uci("stockfish")
    assert parse_policy("stockfish")[0].missing() == "apt install stockfish"
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
    monkeypatch.setattr(engine, "START_LIMIT_S", 0.1 if introduction == "pass" else 60.0)
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
    monkeypatch.setattr(engine.UciEngine, "best_move", interrupt)
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


# Stockfish itself


def play(controllers: dict[str, PolicyController], seed: int) -> tuple[dict[str, float], list[str]]:
    """A whole game of classic/chess_v6: returns and moves."""
    env = make_env("classic/chess_v6")
    turn, returns, moves = env.reset(seed), dict.fromkeys(AGENTS, 0.0), []
    for controller in {id(c): c for c in controllers.values()}.values():
        controller.begin(tuple(agent for agent in AGENTS if controllers[agent] is controller), seed)
    while not turn.over:
        (agent,) = turn.observations
        actions = controllers[agent].act(turn)
        moves.append(uci_of(actions[agent], turn.infos[agent]["fen"]))
        turn = env.step(actions)
        for name, reward in turn.rewards.items():
            returns[name] += reward
    for controller in controllers.values():
        controller.close()
    env.close()
    return returns, moves


@needs_stockfish
@pytest.mark.parametrize("seat", AGENTS)
@pytest.mark.parametrize(
    "reference", ["stockfish:depth=3", "stockfish:elo=1500,nodes=500", "uci:stockfish,skill=3,time_s=0.005"]
)
def test_stockfish_beats_random_play(reference: str, seat: str) -> None:
    won = {agent: 1.0 if agent == seat else -1.0 for agent in AGENTS}
    drawn = dict.fromkeys(AGENTS, 0.0)
    for seed in range(1, 6):  # a weak one with a time limit gives a stalemate now and then
        env = make_env("classic/chess_v6")
        player = {agent: reference if agent == seat else "random" for agent in AGENTS}
        controllers = {agent: load_policy(player[agent], env.spec, (agent,)) for agent in AGENTS}
        env.close()
        returns, _ = play(controllers, seed)
        if returns != drawn:
            break
    assert returns == won


@needs_stockfish
def test_stockfish_plays_the_same_game_again() -> None:
    games = []
    for _ in range(2):
        shared = uci("stockfish:depth=4")
        games.append(play(dict.fromkeys(AGENTS, shared), seed=0))
        assert shared.engine_pid is None
    assert games[0] == games[1]


@needs_stockfish
@pytest.mark.parametrize(
    ("fen", "mates"),
    [
        ("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1", {"a1a8"}),
        ("r5k1/8/8/8/8/8/5PPP/6K1 b - - 0 1", {"a8a1"}),
        ("6k1/P4ppp/8/8/8/8/8/6K1 w - - 0 1", {"a7a8q", "a7a8r"}),
        ("6k1/8/8/8/8/8/p4PPP/6K1 b - - 0 1", {"a2a1q", "a2a1r"}),
        ("6nr/5Ppk/6pp/8/8/8/8/6K1 w - - 0 1", {"f7f8n"}),
        ("6k1/8/8/8/8/6PP/5pPK/6NR b - - 0 1", {"f2f1n"}),
    ],
)
def test_stockfish_mates_in_one(fen: str, mates: set[str]) -> None:
    controller = uci("stockfish")
    controller.begin(AGENTS, 0)
    ((_, action),) = controller.act(turn_of(fen)).items()
    controller.close()
    assert uci_of(action, fen) in mates


@needs_stockfish
def test_stockfish_says_how_weak_and_strong_it_can_be() -> None:
    with pytest.raises(InputError, match=r"^'stockfish:elo=500': this engine's elo ranges from \d+ to \d+, not 500\.$"):
        uci("stockfish:elo=500").begin(AGENTS, 0)


@needs_stockfish
def test_stockfish_is_cut_off_in_thought() -> None:
    controller = uci("stockfish:depth=200", time_limit_s=0.1)
    controller.begin(AGENTS, 0)
    pid = controller.engine_pid
    with pytest.raises(
        PolicyTimeoutError, match=r"did not respond to 'go depth 200' within 0\.1 s.*Its last output: info"
    ):
        controller.act(turn_of())
    assert not exists(pid)


def test_our_chess_env_tells_the_position() -> None:
    env = make_env("classic/chess_v6")
    turn = env.reset(0)
    assert turn.infos["player_0"]["fen"] == chess.STARTING_FEN
    turn = env.step({"player_0": action_of("e2e4", True)})
    assert turn.infos["player_1"]["fen"] == "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
    env.close()
