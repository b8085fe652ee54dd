"""How a table learns in an env that is played in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gymnasium.spaces import Discrete

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Turn
from mosaic.envs.codes import SpaceCode, space_code
from mosaic.envs.env import Env
from mosaic.learners.tabular.statistics import TrainingStatistics

if TYPE_CHECKING:
    from mosaic.learners.tabular.learner import TabularLearner


# Called between two env steps: steps of the episode so far, the first agent's last reward, all agents' returns so far.
Glance: TypeAlias = Callable[[int, float, Mapping[AgentID, float]], None]


class Seat(NamedTuple):
    """The one agent of an env, and how its observations become rows and columns become actions."""

    agent: AgentID
    row: Callable[[Any], int]
    action: Callable[[int], Any]


def train(
    learner: TabularLearner,
    env: Env,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    glance: Glance | None = None,
) -> TrainingStatistics:
    """Play and learn.

    The first episode is seeded by the learner's seed and the number of its episodes so far, the others go on with the
    env's own stream. An episode that `steps` leaves unfinished is truncated to the table and in no mean.
    """
    most_episodes, most_steps = _limits(episodes, steps)
    seat = _seat(learner, env)
    statistics = TrainingStatistics()
    seed: int | None = child_seed(learner.seed, "tabular", "train", learner.episodes)
    done, began = 0, perf_counter()
    while statistics.total_episodes < most_episodes and done < most_steps:
        done += _episode(learner, env, seat, env.reset(seed), most_steps - done, statistics, glance)
        seed = None
    statistics.add_time(done, perf_counter() - began)
    return statistics


def _episode(
    learner: TabularLearner,
    env: Env,
    seat: Seat,
    turn: Turn,
    most: float,
    statistics: TrainingStatistics,
    glance: Glance | None,
) -> int:
    """Env steps of the episode, at most `most`. A final observation has no mask: all its actions count."""
    agent, row, to_action = seat
    select, update, step = learner.select_action, learner.update, env.step
    state, mask = row(turn.observations[agent]), turn.action_masks.get(agent)
    length, total = 0, 0.0
    while length < most:
        action = select(state, mask)
        turn = step({agent: to_action(action)})
        length += 1
        reward = turn.rewards[agent]
        total += reward
        if glance is not None:
            glance(length, reward, {agent: total})
        if not turn.observations:
            terminated = turn.terminated[agent]
            final = row(turn.final_observations[agent])
            update(state, action, reward, final, terminated, truncated=not terminated)
            statistics.add_episode(total, length)
            break
        next_state, mask = row(turn.observations[agent]), turn.action_masks.get(agent)
        update(state, action, reward, next_state, False, mask, truncated=length >= most)
        state = next_state
    return length


def _limits(episodes: int | None, steps: int | None) -> tuple[float, float]:
    if (episodes is None) == (steps is None):
        raise InputError("Say how long to train, in one way: train(env, episodes=1000) or train(env, steps=100_000).")
    for what, amount in (("episodes", episodes), ("steps", steps)):
        if amount is not None and amount < 0:
            raise InputError(f"{what} is {amount}; it should be at least 0.")
    return math.inf if episodes is None else episodes, math.inf if steps is None else steps


def _seat(learner: TabularLearner, env: Env) -> Seat:
    if len(env.possible_agents) != 1:
        raise InputError(
            f"{env.spec.env_id} has {len(env.possible_agents)} agents; TabularLearner.train plays envs of one. "
            "Train games of several agents with: mosaic train --worker tabular"
        )
    (agent,) = env.possible_agents
    rows, columns = space_code(env.observation_spaces[agent]), space_code(env.action_spaces[agent])
    if (rows.size, columns.size) != (learner.states, learner.actions):
        raise InputError(
            f"{env.spec.env_id} has {rows.size:,} states and {columns.size:,} actions, the table has "
            f"{learner.states:,} and {learner.actions:,}. Make one that fits: "
            f"TabularLearner({rows.size}, {columns.size})"
        )
    row = int if _counts_from_0(rows) else rows.encode  # the table checks its rows anyway
    return Seat(agent, row, int if _counts_from_0(columns) else columns.decode)


def _counts_from_0(code: SpaceCode) -> bool:
    return isinstance(code.space, Discrete) and int(code.space.start) == 0
