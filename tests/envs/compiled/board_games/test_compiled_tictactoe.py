"""Tic-tac-toe as arrays: move by move what PettingZoo plays."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.board_games.tictactoe import cells_of, observation_of, position_of, tictactoe_game

GAMES = 2_000
AGENTS = ("player_1", "player_2")


def test_layout():
    game = tictactoe_game()
    assert [array.dtype.char for array in game[:-1]] == list("ifBB")
    assert all(array.shape == (19_683, 9) and array.flags.c_contiguous for array in game[:-1])
    assert game.start == 0
    assert game.legal[0].all()


def test_positions_are_base_3():
    assert position_of(observation_of(2 * 3**8 + 3)) == 2 * 3**8 + 3
    assert cells_of(2 * 3**8 + 3).tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 2]
    assert all(position_of(observation_of(position)) == position for position in range(0, 19_683, 7))


def test_random_games_against_the_reference():
    env, game, random = make_env("classic/tictactoe_v3"), tictactoe_game(), Random(5)
    ends = {1.0: 0, 0.0: 0}
    for _ in range(GAMES):
        turn, position, mover = env.reset(), game.start, 0
        while not turn.over:
            (agent,) = turn.observations
            assert agent == AGENTS[mover]
            assert position_of(turn.observations[agent]) == position
            assert turn.action_masks[agent].tolist() == game.legal[position].astype(bool).tolist()
            action = random.choice(np.flatnonzero(game.legal[position]).tolist())
            turn = env.step({agent: action})
            reward, over = float(game.reward[position, action]), bool(game.over[position, action])
            position, waited = int(game.next_state[position, action]), AGENTS[1 - mover]
            assert turn.rewards == {agent: reward, waited: -reward}
            assert turn.over == over
            assert turn.terminated == dict.fromkeys(AGENTS, over)
            mover = 1 - mover
        assert position_of(turn.final_observations[AGENTS[mover]]) == position
        assert not game.legal[position].any()
        ends[reward] += 1
    assert min(ends.values()) > GAMES // 20


def test_every_move_of_every_position_that_play_can_reach():
    """The reference takes each position straight onto its board."""
    env, game = make_env("classic/tictactoe_v3"), tictactoe_game()
    raw = env.env.unwrapped
    waiting, seen, moves = [(game.start, 0)], {game.start}, 0
    while waiting:
        position, mover = waiting.pop()
        cells = cells_of(position).tolist()
        marks = {0: 0, 1: mover + 1, 2: 2 - mover}
        for action in range(9):
            assert bool(game.legal[position, action]) == (cells[action] == 0)
            if cells[action]:
                continue
            raw.board.squares = [marks[cell] for cell in cells]
            raw.board.play_turn(mover, action)
            status = raw.board.game_status()
            assert game.reward[position, action] == (status == mover)
            assert bool(game.over[position, action]) == (status != -2)
            following = int(game.next_state[position, action])
            view = np.array(raw.board.squares)
            theirs_first = np.where(view == 0, 0, np.where(view == 2 - mover, 1, 2))
            assert cells_of(following).tolist() == theirs_first.tolist()
            moves += 1
            if not game.over[position, action] and following not in seen:
                seen.add(following)
                waiting.append((following, 1 - mover))
    assert (len(seen), moves) == (4_520, 16_167)


def test_a_taken_cell_may_lose_the_game():
    masked, lost = tictactoe_game("masked"), tictactoe_game("lost")
    going = masked.legal.any(axis=1)
    assert lost.legal[going].all()
    assert not lost.legal[~going].any()
    fine = masked.legal.astype(bool)
    for name in ("next_state", "reward", "over"):
        assert (getattr(masked, name)[fine] == getattr(lost, name)[fine]).all()
    wrong = lost.legal.astype(bool) & ~fine
    assert (lost.reward[wrong] == -1).all()
    assert lost.over[wrong].all()
    positions, _ = np.nonzero(wrong)
    assert (cells_of(lost.next_state[wrong]) == -cells_of(positions) % 3).all()


@pytest.mark.parametrize("position", [1 + 3 + 9, 2 + 3 * 2 + 9 * 2])
def test_nothing_is_legal_once_a_line_stands(position):
    assert not tictactoe_game("lost").legal[position].any()
