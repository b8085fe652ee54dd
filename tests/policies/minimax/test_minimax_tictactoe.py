"""Tic-tac-toe: every value, and play that never loses."""

from functools import cache

import numpy as np
import pytest

from mosaic import load_policy, make_env
from mosaic.policies.minimax.tictactoe import (
    EMPTY,
    TicTacToeBoard,
    best_moves,
    is_over,
    judge,
    moves,
    place,
    read_board,
    solve,
    value,
)

ROWS = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def has_row(stones):
    return any(all(stones[cell] for cell in row) for row in ROWS)


@cache
def brute(mine, theirs, depth=9):
    """The value for the player to move, by trying everything: mine and theirs are tuples of booleans."""
    if has_row(theirs):
        return -1
    empty = [cell for cell in range(9) if not (mine[cell] or theirs[cell])]
    if not empty or depth == 0:
        return 0
    return max(-brute(theirs, (*mine[:cell], True, *mine[cell + 1 :]), depth - 1) for cell in empty)


def unpacked(stones):
    return tuple(bool(stones >> cell & 1) for cell in range(9))


def board_of(picture):
    """`xx.o.o...` with x to move."""
    return TicTacToeBoard(*(sum(1 << cell for cell, stone in enumerate(picture) if stone == who) for who in "xo"))


def test_every_position_has_the_value_that_brute_force_finds():
    values = solve()
    assert len(values) == 5478  # the number of legal positions of the game
    for board, found in values.items():
        assert found == brute(unpacked(board.mine), unpacked(board.theirs)), board
    assert values[EMPTY] == 0


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_limited_search_takes_unfinished_lines_for_draws(depth):
    seen = set()
    for board in solve():
        found = value(board, depth)
        assert found == brute(unpacked(board.mine), unpacked(board.theirs), depth), board
        seen.add((found, value(board)))
    assert (0, 1) in seen  # some wins lie behind the horizon


def test_the_best_moves_are_all_that_keep_the_value():
    for board, found in solve().items():
        if not is_over(board):
            expected = tuple(cell for cell in moves(board) if -value(place(board, cell)) == found)
            assert judge(board) == (found, expected)


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (".........", tuple(range(9))),  # every first move draws
        ("xx.oo....", (2,)),  # wins at once; 5 only draws
        ("x..oo..x.", (5,)),  # the only defence
        ("o........", (4,)),  # a corner is answered in the middle
    ],
)
def test_known_positions(picture, expected):
    assert best_moves(board_of(picture)) == expected


def test_only_legal_cells_are_weighed():
    board = board_of("o........")
    assert judge(board, [1, 2]).value == -1
    assert judge(board, [4, 2]).moves == (4,)


def test_symmetric_positions_have_equal_values():
    values = solve()
    for board, found in values.items():
        grids = [np.array(unpacked(stones)).reshape(3, 3) for stones in board]
        for turned in ([np.rot90(grid) for grid in grids], [grid.T for grid in grids]):
            image = TicTacToeBoard(*(sum(1 << cell for cell in np.flatnonzero(grid).tolist()) for grid in turned))
            assert values[image] == found


@pytest.mark.parametrize("ours", [0, 1])
def test_no_line_of_any_opponent_beats_it(ours):
    """All best moves on one side, all moves on the other."""
    endings = set()
    waiting, seen = [(EMPTY, 0)], set()
    while waiting:
        board, player = waiting.pop()
        if (board, player) in seen:
            continue
        seen.add((board, player))
        if is_over(board):
            endings.add("full" if not has_row(unpacked(board.theirs)) else "won" if player != ours else "lost")
            continue
        choices = best_moves(board) if player == ours else moves(board)
        waiting += [(place(board, cell), 1 - player) for cell in choices]
    assert endings == {"full", "won"}


def test_the_board_is_read_as_pettingzoo_shows_it():
    env = make_env("classic/tictactoe_v3")
    turn = env.reset(0)
    board = EMPTY
    for cell in (1, 4, 3, 0, 8):
        ((agent, observation),) = turn.observations.items()
        assert read_board(observation) == board
        assert np.flatnonzero(turn.action_masks[agent]).tolist() == moves(board)
        turn, board = env.step({agent: cell}), place(board, cell)
    env.close()


def play(env, controllers, seed):
    for agent, controller in controllers.items():
        controller.begin((agent,), seed * 2 + (agent == "player_2"))
    turn, game = env.reset(0), []
    while not turn.over:
        (agent,) = turn.observations
        action = controllers[agent].act(turn.only([agent]))[agent]
        game.append(action)
        turn = env.step({agent: action})
    return tuple(game), dict(turn.rewards)


@pytest.fixture
def perfect_pair():
    env = make_env("classic/tictactoe_v3")
    yield env, {agent: load_policy("minimax", env.spec, (agent,)) for agent in env.possible_agents}
    env.close()


def test_two_perfect_players_always_draw_and_do_not_repeat_one_game(perfect_pair):
    results = [play(*perfect_pair, seed) for seed in range(200)]
    assert {tuple(rewards.values()) for _, rewards in results} == {(0.0, 0.0)}
    assert len({game for game, _ in results}) > 100


def test_a_game_depends_on_the_seed_alone(perfect_pair):
    first = play(*perfect_pair, 11)
    for seed in (3, 4):
        play(*perfect_pair, seed)
    assert play(*perfect_pair, 11) == first
    env, _ = perfect_pair
    fresh = {agent: load_policy("minimax", env.spec, (agent,)) for agent in env.possible_agents}
    assert play(env, fresh, 11) == first
