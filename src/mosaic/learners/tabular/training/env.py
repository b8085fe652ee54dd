"""Env of one agent as a table sees it: rows for observations, columns for actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import index as as_int
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeAlias

import gymnasium
from gymnasium.spaces import Discrete
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from mosaic.core.errors import InputError
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.catalog import make_env
from mosaic.envs.codes import SpaceCode, flatten_mask, space_code
from mosaic.envs.env import Env
from mosaic.envs.objects import Environment
from mosaic.envs.wrappers.limits import TimeLimit as OwnTimeLimit
from mosaic.envs.wrappers.transform import Named
from mosaic.learners.tabular.options import checked_mask

if TYPE_CHECKING:
    from mosaic.learners.tabular.learner import TabularLearner

Extra: TypeAlias = Any  # info of a plain Gymnasium env, else the Turn
EnvStep: TypeAlias = tuple[Observation, SupportsFloat, bool, bool, Extra]  # reward, terminated and truncated


class CodedEnv:
    """Env of one agent with the codes of a table; raises where env and table differ in size.

    A plain Gymnasium env is stepped without our adapter and without wrappers that only check or count: together they
    cost more than a step of learning. Then there are no masks, and `time_limit` is to be enforced by the caller (0:
    none).
    """

    def __init__(self, env: Env, learner: TabularLearner) -> None:
        if len(env.possible_agents) != 1:
            raise _several_agents(env, "train plays")
        (self.agent,) = env.possible_agents
        self.env = env
        self.rows, self.columns = _codes(env)
        if (self.rows.size, self.columns.size) != (learner.states, learner.actions):
            raise InputError(
                f"{env.spec.env_id} has {self.rows.size:,} states and {self.columns.size:,} actions, the table has "
                f"{learner.states:,} and {learner.actions:,}. Create a matching "
                f"one: TabularLearner({self.rows.size}, {self.columns.size})"
            )
        self.row: Callable[[Observation], int] = as_int if _counts_from_0(self.rows) else self.rows.encode
        self.decode: Callable[[int], Action] | None = None if _counts_from_0(self.columns) else self.columns.decode
        self.step: Callable[[Action], EnvStep] = self._step_turn
        self.reset: Callable[[], Any] = env.reset
        self.masked, self.time_limit = True, 0
        plain, limit = _plain_gymnasium(env)
        if plain is not None:
            self.step, self.reset, self.masked, self.time_limit = plain.step, plain.reset, False, limit

    def _step_turn(self, action: Action) -> EnvStep:
        agent = self.agent
        turn = self.env.step({agent: action})
        if turn.observations:
            return turn.observations[agent], turn.rewards[agent], False, False, turn
        ended = turn.terminated[agent]
        return turn.final_observations[agent], turn.rewards[agent], ended, not ended, turn

    def first_row(self, turn: Turn) -> int:
        return self.rows.encode(turn.observations[self.agent])

    def mask(self, turn: Turn) -> Mask | None:
        """Return which columns are legal; None if all are."""
        mask = turn.action_masks.get(self.agent)
        if mask is None:
            return None
        flat = mask if len(self.columns.counts) == 1 else flatten_mask(self.columns, mask)
        return checked_mask(flat, self.columns.size)


def _counts_from_0(code: SpaceCode) -> bool:
    return isinstance(code.space, Discrete) and int(code.space.start) == 0


def _plain_gymnasium(env: Env) -> tuple[gymnasium.Env[Any, Any] | None, int]:
    """Return the Gymnasium env inside, if there is nothing else, and the time limit of the wrappers left out."""
    inner: Env = env
    limits: list[int] = []
    while isinstance(inner, OwnTimeLimit | Named):
        if isinstance(inner, OwnTimeLimit):
            limits.append(inner.max_steps)
        inner = inner.env
    if not (isinstance(inner, GymnasiumEnv) and inner.plain):
        return None, 0
    raw: gymnasium.Env[Any, Any] = inner.env
    while isinstance(raw, TimeLimit | OrderEnforcing | PassiveEnvChecker):
        if isinstance(raw, TimeLimit):
            limits.append(int(raw._max_episode_steps))
        raw = raw.env
    return raw, min(limits, default=0)


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
        raise _several_agents(env, "for_env is for")
    rows, columns = _codes(env)
    return rows.size, columns.size


def _codes(env: Env) -> tuple[SpaceCode, SpaceCode]:
    (agent,) = env.possible_agents
    return space_code(env.observation_spaces[agent]), space_code(env.action_spaces[agent])


def _several_agents(env: Env, method: str) -> InputError:
    return InputError(
        f"{env.spec.env_id} has {len(env.possible_agents)} agents; TabularLearner.{method} envs of one. "
        "Train games of several agents with: mosaic train --worker tabular"
    )
