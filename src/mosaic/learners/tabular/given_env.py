"""Envs that a table is given by name, as an object or as a class, and how large a table they need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.codes import space_code
from mosaic.envs.env import Env
from mosaic.envs.objects import Environment


@contextmanager
def borrowed(env: Environment) -> Iterator[Env]:
    """An Env for the block; it is closed afterwards unless it is the caller's own object."""
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
