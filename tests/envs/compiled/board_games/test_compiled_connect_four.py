"""Connect four as bits: drop by drop what PettingZoo plays."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.board_games.connect_four import read_position, show_games, step_games

AGENTS = ("player_0", "player_1")
GAMES = 300


class Twin:
    """Several games at once, of which the test looks at one; the others must not disturb it."""

    def __init__(self, games=3):
        self.mine, self.taken = np.zeros(games, np.uint64), np.zeros(games, np.uint64)
        self.reward, self.over = np.zeros(games, np.float32), np.zeros(games, np.uint8)
        self.observation, self.legal = np.zeros((games, 6, 7, 2), np.int8), np.zeros((games, 7), np.uint8)
        self.show()

    def drop(self, columns):
        step_games(self.mine, self.taken, np.array(columns), self.reward, self.over)
        self.show()

    def show(self):
        show_games(self.mine, self.taken, self.observation, self.legal)


def play(env, choose):
    """One game in lock-step; how it ended for the last mover."""
    twin, turn, mover = Twin(), env.reset(), 0
    while not turn.over:
        (agent,) = turn.observations
        assert agent == AGENTS[mover]
        seen = turn.observations[agent]
        assert (seen == twin.observation[1]).all()
        assert read_position(seen) == (twin.mine[1], twin.taken[1])
        assert turn.action_masks[agent].tolist() == twin.legal[1].astype(bool).tolist()
        column = choose(np.flatnonzero(twin.legal[1]).tolist())
        turn = env.step({agent: column})
        twin.mine[[0, 2]], twin.taken[[0, 2]] = 0, 0
        twin.drop([3, column, 6])
        reward, waited = float(twin.reward[1]), AGENTS[1 - mover]
        assert turn.rewards == {agent: reward, waited: -reward}
        assert turn.terminated == dict.fromkeys(AGENTS, bool(twin.over[1]))
        assert turn.over == bool(twin.over[1])
        mover = 1 - mover
    assert (turn.final_observations[AGENTS[mover]] == twin.observation[1]).all()
    return reward


def test_random_games_against_the_reference():
    env, random = make_env("classic/connect_four_v3"), Random(3)
    results = [play(env, random.choice) for _ in range(GAMES)]
    assert 1.0 in results


def test_a_full_board_is_a_draw():
    """Pairs of columns filled in step with each other leave no four in a row."""
    order = [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 2, 3, 2, 3, 3, 2, 3, 2, 2, 3, 2, 3]
    order += [4, 5, 4, 5, 5, 4, 5, 4, 4, 5, 4, 5, 6, 6, 6, 6, 6, 6]
    moves = iter(order)

    def choose(legal):
        column = next(moves)
        assert column in legal
        return column

    assert play(make_env("classic/connect_four_v3"), choose) == 0.0
    assert next(moves, None) is None


@pytest.mark.parametrize("columns", [(0, 1, 0, 1, 0, 1, 0), (0, 0, 1, 1, 2, 2, 3), (3, 2, 2, 1, 1, 0, 1, 0, 0, 6, 0)])
def test_four_in_every_direction(columns):
    for mirror in (False, True):
        twin = Twin(1)
        for column in columns[:-1]:
            twin.drop([6 - column if mirror else column])
            assert not twin.over[0]
        twin.drop([6 - columns[-1] if mirror else columns[-1]])
        assert (twin.over[0], twin.reward[0]) == (1, 1.0)


def test_kernels_are_cached_and_release_the_gil():
    for kernel in (step_games, show_games):
        assert kernel.targetoptions["nogil"]
        assert type(kernel._cache).__name__ != "NullCache"
