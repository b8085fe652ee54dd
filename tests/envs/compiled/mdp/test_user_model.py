"""A user's own small env becomes arrays where they are proven equal to it, and a reason where they are not."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.mdp.user_model import OwnModel, own_model
from mosaic.learners.tabular.optimal import value_iteration

WALLS = {(1, 1), (1, 2), (3, 2)}


class Maze(gymnasium.Env):
    """Five by five; the goal is in the far corner."""

    observation_space, action_space = MultiDiscrete([5, 5]), Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = (0, 0), 0
        return np.array(self.place), {}

    def step(self, action):
        row, column = self.place
        step = ((0, 1), (1, 0), (0, -1), (-1, 0))[action]
        there = (min(max(row + step[0], 0), 4), min(max(column + step[1], 0), 4))
        self.place, self.count = self.place if there in WALLS else there, self.count + 1
        ended = self.place == (4, 4)
        return np.array(self.place), 1.0 if ended else -0.01, ended, False, {}


class Hurried(Maze):
    """Truncates by a clock of its own."""

    def step(self, action):
        seen, reward, ended, _, info = super().step(action)
        return seen, reward, ended, self.count == 60, info


class Slippery(Maze):
    def step(self, action):
        return super().step(int(self.np_random.integers(4)) if self.np_random.random() < 0.2 else action)


class Anywhere(Maze):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = (int(self.np_random.integers(3)), 0)
        return np.array(self.place), {}


class Keyed(Maze):
    """The goal pays only with a key, which no observation shows."""

    def reset(self, *, seed=None, options=None):
        self.key = False
        return super().reset(seed=seed)

    def step(self, action):
        seen, reward, ended, truncated, info = super().step(action)
        self.key = self.key or self.place == (0, 4)
        return seen, reward if self.key or not ended else 0.0, ended, truncated, info


class Open(Maze):
    """What it holds cannot be copied."""

    def __init__(self):
        self.file = sys.stdout


class Walk(gymnasium.Env):
    """A table `P`, and steps that follow it, or not."""

    observation_space, action_space = Discrete(4), Discrete(2)
    P = {  # noqa: RUF012
        s: {a: [(0.8, min(s + 1, 3), float(s == 2), s >= 2), (0.2, s, 0.0, False)] if a else [(1.0, 0, 0.0, False)]
            for a in range(2)}
        for s in range(4)
    }  # fmt: skip
    honest = True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return 0, {}

    def step(self, action):
        outcomes = self.P[self.s][action]
        first = 0.8 if self.honest else 0.5
        _, self.s, reward, ended = outcomes[0 if len(outcomes) == 1 or self.np_random.random() < first else 1]
        return self.s, reward, ended, False, {}


class Liar(Walk):
    honest = False


class Continuous(Maze):
    observation_space = Box(0.0, 1.0, (2,))


def model_of(name, **settings):
    return own_model(EnvironmentConfig(env_id=f"python:{__name__}:{name}", **settings).model_dump_json())


def test_a_deterministic_env_is_enumerated_and_has_the_rows_of_its_space():
    model = model_of("Maze")
    assert isinstance(model, OwnModel)
    assert model.mdp.legal.shape == (25, 4)
    assert "every action was tried in each of 21 states" in model.how
    plan = value_iteration(model.mdp, 1.0)
    assert plan.values[0] == pytest.approx(1.0 - 7 * 0.01)  # eight steps to the goal


def test_a_clock_of_its_own_and_a_wrapper_become_the_time_limit():
    assert model_of("Maze").mdp.time_limit == 0
    assert model_of("Hurried").mdp.time_limit == 60
    assert model_of("Hurried", wrappers=("time_limit:max_steps=30",)).mdp.time_limit == 30


def test_a_table_of_ones_own_is_read_and_checked():
    model = model_of("Walk")
    assert isinstance(model, OwnModel)
    assert "its table `P` was read" in model.how
    assert model.mdp.next_state.shape == (4, 2, 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Slippery", "it is stochastic and has no transition table `P`"),
        ("Anywhere", "it starts in different states, and nothing says how likely each is"),
        ("Keyed", "it is stochastic, or has state that no observation shows"),
        ("Open", "it cannot be copied"),
        ("Liar", "outcomes are not as frequent as its table `P` says"),
        ("Continuous", "its spaces have no numbered members"),
    ],
)
def test_what_cannot_be_proven_is_not_compiled(name, text):
    model = model_of(name)
    assert isinstance(model, str)
    assert text in model
