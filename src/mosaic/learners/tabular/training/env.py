"""Training in a Python env for a given number of episodes or steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.catalog import make_env
from mosaic.envs.codes import space_code
from mosaic.envs.env import Env
from mosaic.envs.objects import Environment
from mosaic.learners.tabular.statistics import TrainingStatistics
from mosaic.learners.tabular.training.rollout import Glance, TabularRollout

if TYPE_CHECKING:
    from mosaic.learners.tabular.learner import TabularLearner


def train(
    learner: TabularLearner,
    env: Env,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    glance: Glance | None = None,
) -> TrainingStatistics:
    """Play and learn.

    The first episode is seeded by the learner's seed and the number of its episodes so far, the others continue with
    the env's own stream. An episode that `steps` leaves unfinished is truncated for the table and not part of any mean.
    """
    most_episodes, most_steps = _limits(episodes, steps)
    rollout = TabularRollout(learner, env, lambda: child_seed(learner.seed, "tabular", "train", learner.episodes))
    statistics = TrainingStatistics()
    began = perf_counter()
    done = rollout.run(most_steps, most_episodes, statistics, glance, cut=True)
    statistics.add_time(done, perf_counter() - began)
    return statistics


def _limits(episodes: int | None, steps: int | None) -> tuple[float, float]:
    if (episodes is None) == (steps is None):
        raise InputError("Give either episodes or steps: train(env, episodes=1000) or train(env, steps=100_000).")
    for what, amount in (("episodes", episodes), ("steps", steps)):
        if amount is not None and amount < 0:
            raise InputError(f"{what} is {amount}; it should be at least 0.")
    return math.inf if episodes is None else episodes, math.inf if steps is None else steps


@contextmanager
def borrowed(env: Environment) -> Iterator[Env]:
    """Yield an Env for the block; close it afterwards unless it is the caller's own object."""
    made = make_env(env)
    own = not isinstance(env, type | str) and hasattr(env, "reset")
    try:
        yield made
    finally:
        if not own:
            made.close()


def env_sizes(env: Env) -> tuple[int, int]:
    """Return the number of states and of actions of the one agent."""
    if len(env.possible_agents) != 1:
        raise InputError(
            f"{env.spec.env_id} has {len(env.possible_agents)} agents; TabularLearner.for_env is for envs of one. "
            "Train games of several agents with: mosaic train --worker tabular"
        )
    (agent,) = env.possible_agents
    spaces: tuple[Any, Any] = env.observation_spaces[agent], env.action_spaces[agent]
    states, actions = (space_code(space).size for space in spaces)
    return states, actions
