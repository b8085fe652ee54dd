"""Positions, references and specs for tests of chess engines."""

from __future__ import annotations

from collections.abc import Callable

import chess
import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo.classic.chess import chess_utils

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.proc import read_stat
from mosaic.core.turn import Turn
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.policies.registry import load_policy
from mosaic.policies.uci import UciPolicyController

AGENTS = ("player_0", "player_1")


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
    return read_stat(pid) is not None


FakeEngine = Callable[..., str]
