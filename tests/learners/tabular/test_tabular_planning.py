"""Exact answers: known optima of known worlds."""

from __future__ import annotations

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.mdp.gym_table import compile_mdp
from mosaic.envs.compiled.mdp.mdp import GameTables, Mdp, probabilities
from mosaic.learners.tabular.optimal import game_values, value_iteration


def mdp_of(env_id: str, **options: object) -> Mdp:
    env = make_env(env_id, **options)
    try:
        return compile_mdp(env)
    finally:
        env.close()


def corridor(length: int) -> Mdp:
    """Left or right; the right end pays 1 and is the end; at the left wall only right is legal."""
    here = np.arange(length)
    next_state = np.stack([np.maximum(here - 1, 0), np.minimum(here + 1, length - 1)], axis=1)[:, :, None]
    arrives = (next_state == length - 1) & (here[:, None, None] != length - 1)
    legal = np.ones((length, 2), np.uint8)
    legal[0, 0] = 0
    legal[-1] = 0
    return Mdp(
        next_state.astype(np.int32),
        np.full((length, 2, 1), 2.0),
        arrives.astype(np.float64),
        arrives.astype(np.uint8),
        np.zeros(1, np.int32),
        np.full(1, 2.0),
        legal,
        0,
    )


def policy_iteration(mdp: Mdp, discount_factor: float) -> np.ndarray:
    """Reference: alternate solving for the values of a policy and improving it, until nothing improves."""
    chances, goes_on = probabilities(mdp.threshold), discount_factor * (mdp.terminated == 0)
    everywhere, playable = np.arange(len(mdp.legal)), mdp.legal.any(axis=1)
    policy = mdp.legal.argmax(axis=1)
    while True:
        chance = np.where(playable[:, None], chances[everywhere, policy], 0.0)
        matrix = np.eye(len(policy))
        follow = chance * goes_on[everywhere, policy]
        np.subtract.at(matrix, (everywhere[:, None], mdp.next_state[everywhere, policy]), follow)
        values = np.linalg.solve(matrix, (chance * mdp.reward[everywhere, policy]).sum(axis=1))
        worth = np.where(chances > 0, chances * (mdp.reward + goes_on * values[mdp.next_state]), 0.0).sum(axis=2)
        worth = np.where(mdp.legal != 0, worth, -np.inf)
        better = playable & (worth.max(axis=1) > worth[everywhere, policy] + 1e-9)  # not by rounding alone
        if not better.any():
            return values
        policy = np.where(better, worth.argmax(axis=1), policy)


def test_a_corridor_by_hand() -> None:
    plan = value_iteration(corridor(5), 0.5)
    assert plan.values.tolist() == pytest.approx([0.125, 0.25, 0.5, 1.0, 0.0])
    assert plan.policy[:4].tolist() == [1, 1, 1, 1]
    assert np.isneginf(plan.action_values[0, 0])


def test_frozen_lake_is_crossed_14_times_out_of_17() -> None:
    plan = value_iteration(mdp_of("gym/FrozenLake-v1"), 1.0)
    assert plan.values[0] == pytest.approx(14 / 17, abs=1e-8)


def test_the_cliff_is_passed_in_13_steps() -> None:
    assert value_iteration(mdp_of("gym/CliffWalking-v1"), 1.0).values[36] == -13.0


@pytest.mark.parametrize("env_id", ["gym/FrozenLake-v1", "gym/CliffWalking-v1", "gym/Taxi-v3"])
def test_both_iterations_agree(env_id: str) -> None:
    mdp = mdp_of(env_id)
    assert np.abs(value_iteration(mdp, 0.95).values - policy_iteration(mdp, 0.95)).max() < 1e-9


def test_values_without_a_limit_are_refused() -> None:
    endless = corridor(3)._replace(reward=np.ones((3, 2, 1)), terminated=np.zeros((3, 2, 1), np.uint8))
    with pytest.raises(
        InputError, match=r"^Values still change by 1 after 50 sweeps: with discount_factor=1.0 they may"
    ):
        value_iteration(endless._replace(legal=np.ones((3, 2), np.uint8)), 1.0, most_sweeps=50)


def nim(stones: int) -> GameTables:
    """Take 1, 2 or 3; who takes the last one wins."""
    here, take = np.arange(stones + 1)[:, None], np.arange(1, 4)[None, :]
    legal = take <= here
    return GameTables(
        np.where(legal, here - take, 0).astype(np.int32),
        (take == here).astype(np.float32),
        (take == here).astype(np.uint8),
        legal.astype(np.uint8),
        stones,
    )


def test_nim_is_lost_on_multiples_of_four() -> None:
    values, moves = game_values(nim(13))
    assert values[1:].tolist() == [-1.0 if n % 4 == 0 else 1.0 for n in range(1, 14)]
    assert moves[5].tolist() == [1.0, -1.0, -1.0]
    assert np.isneginf(moves[2, 2])


def test_tic_tac_toe_is_a_draw() -> None:
    from mosaic.envs.compiled.board_games.tictactoe import tictactoe_game

    game = tictactoe_game()
    values, moves = game_values(game)
    assert values[game.start] == 0.0
    assert (moves[game.start] == 0.0).all()


def test_a_game_in_circles_is_refused() -> None:
    circle = nim(2)._replace(next_state=np.full((3, 3), 2, np.int32), over=np.zeros((3, 3), np.uint8))
    with pytest.raises(InputError, match=r"^2 of 3 positions repeat forever: the game has no end.$"):
        game_values(circle)
