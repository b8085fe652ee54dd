"""The search that counts open lines at its leaves."""

from __future__ import annotations

import random

import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.policies.minimax.connect_four import EMPTY, ConnectFourBoard, best_moves, drop, landings, value
from mosaic.policies.minimax.connect_four_lines import judge_lines, open_lines
from mosaic.policies.registry import load_policy


def play(columns: str) -> ConnectFourBoard:
    board = EMPTY
    for column in columns:
        board = drop(board, int(column))
    return board


def plain(board: ConnectFourBoard, depth: int) -> int:
    """The definition, without cutting anything off."""
    if not landings(board):
        return 0
    if depth == 0:
        return int(open_lines(board.mine, board.theirs))
    if value(board, 1) == 1:
        return 100_000 + depth
    return max(-plain(drop(board, column), depth - 1) for column in landings(board))


def test_an_empty_board_is_worth_nothing_and_the_middle_most():
    assert open_lines(0, 0) == 0
    assert judge_lines(EMPTY, None, 1).moves == (3,)


def test_a_line_counts_for_its_only_owner():
    board = play("33")
    assert open_lines(board.mine, board.theirs) == -open_lines(board.theirs, board.mine)
    assert open_lines(board.mine, 0) > 0


def test_a_win_is_taken_and_a_threat_parried():
    assert judge_lines(play("010101"), None, 2).moves == (0,)
    assert judge_lines(play("01010"), None, 2).moves == (0,)


def test_cutting_off_changes_no_answer():
    generator = random.Random(3)
    for _ in range(60):
        board = EMPTY
        for _ in range(generator.randrange(4, 30)):
            if value(board, 1) == 1 or not landings(board):
                break
            board = drop(board, generator.choice(list(landings(board))))
        if not landings(board) or value(board, 1) == 1:
            continue
        worth = {column: -plain(drop(board, column), 2) for column in landings(board)}
        best = max(worth.values())
        assert judge_lines(board, None, 3).moves == tuple(c for c in sorted(worth) if worth[c] == best)


def test_it_needs_a_depth_and_connect_four():
    for env_id, reference in (
        ("classic/connect_four_v3", "minimax:leaf=lines"),
        ("classic/tictactoe_v3", "minimax:depth=2,leaf=lines"),
    ):
        env = make_env(EnvironmentConfig(env_id=env_id))
        with pytest.raises(InputError, match=r"Type: minimax:depth=4,leaf=lines"):
            load_policy(reference, env.spec)
        env.close()


def test_only_legal_columns_are_judged():
    assert judge_lines(EMPTY, [0, 6], 2).moves in ((0,), (6,), (0, 6))
    assert set(best_moves(EMPTY, 2)) >= {3}
