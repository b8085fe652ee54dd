"""Stockfish as a policy."""

from __future__ import annotations

import chess
import pytest

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.chess import action_of, uci_of
from mosaic.policies.controller import PolicyController, PolicyTimeoutError
from mosaic.policies.registry import load_policy
from mosaic.policies.uci.options import INSTALL_STOCKFISH, find_program
from tests.policies.uci.uci_kit import AGENTS, exists, turn_of, uci

needs_stockfish = pytest.mark.skipif(
    find_program("stockfish") is None, reason=f"Stockfish is not installed: {INSTALL_STOCKFISH}"
)


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
