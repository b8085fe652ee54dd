"""Tables of Gymnasium envs with a transition table `P`; envs that it does not describe completely are refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.toy_text.blackjack import BlackjackEnv
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import EnvID
from mosaic.envs.compiled.mdp.blackjack import blackjack_mdp
from mosaic.envs.compiled.mdp.mdp import Mdp, Outcomes, refuse_size, shorter, tabulate
from mosaic.envs.compiled.reference import bare_env
from mosaic.envs.env import Env

_ADVICE = "Train on the env itself instead, or give its model to mosaic.envs.compiled.mdp.mdp.enumerate_mdp."


class GymTable(NamedTuple):
    outcomes: Outcomes
    start: list[float]
    legal: NDArray[np.uint8]
    time_limit: int


def read_table(env: Env, memory_limit: int | None = None) -> GymTable | Mdp:
    """Return the table of the env below the wrappers, or its Mdp if that is known."""
    env_id = env.spec.env_id
    raw, time_limit = _unwrapped(env)
    mdp = getattr(raw, "mdp", None)
    if isinstance(mdp, Mdp):
        return mdp._replace(time_limit=shorter(mdp.time_limit, time_limit))
    if type(raw) is BlackjackEnv:
        return blackjack_mdp(natural=raw.natural, sab=raw.sab)._replace(time_limit=time_limit)
    table, start = getattr(raw, "P", None), getattr(raw, "initial_state_distrib", None)
    if table is None:
        raise InputError(f"{env_id} has no transition table `P`, so there is nothing to compile. {_ADVICE}")
    if start is None:
        raise InputError(
            f"{env_id} has a table `P` but no `initial_state_distrib` that says where it starts. {_ADVICE}"
        )
    if getattr(raw, "fickle_passenger", False):
        raise InputError(
            f"{env_id} with fickle_passenger has hidden state that its table `P` and its observations "
            f"do not contain. {_ADVICE}"
        )
    states, actions = _size(raw.observation_space, env_id), _size(raw.action_space, env_id)
    refuse_size(states, actions, 1, memory_limit, env_id)  # before lists larger than the arrays are made
    try:
        outcomes = [[[_plain(each) for each in table[s][a]] for a in range(actions)] for s in range(states)]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            f"The table `P` of {env_id} is not {states} states × {actions} actions × "
            f"[(probability, next state, reward, terminated)]: {error!r}"
        ) from error
    return GymTable(outcomes, np.asarray(start, np.float64).tolist(), _legal(env, raw, states, actions), time_limit)


def find_table(config: EnvironmentConfig) -> Mdp:
    """Return the tables of the configured env."""
    from mosaic.envs.shared_env import described_env

    with described_env(config) as env:
        return compile_mdp(env)


def find_frozen_lake(config: EnvironmentConfig) -> Mdp | None:
    options = config.options
    if options.get("desc") is None and options.get("map_name", "") is None:  # a new random map at every creation
        return None
    return find_table(config)


def find_taxi(config: EnvironmentConfig) -> Mdp | None:
    return None if config.options.get("fickle_passenger") else find_table(config)


def compile_mdp(env: Env, *, memory_limit: int | None = None) -> Mdp:
    """Compile a Gymnasium env with a table `P` (FrozenLake, CliffWalking, Taxi, a user's own), or Blackjack."""
    table = read_table(env, memory_limit)
    if isinstance(table, Mdp):
        return table
    return tabulate(*table, name=env.spec.env_id, memory_limit=memory_limit)


def _unwrapped(env: Env) -> tuple[Any, int]:
    """Return the inner env, and the wrappers' time limit; a wrapper that changes more is refused."""
    inner, limit = bare_env(env)
    if isinstance(inner, gymnasium.Wrapper):
        raise InputError(
            f"{env.spec.env_id} is wrapped in {type(inner).__name__}, which its table `P` does not cover. {_ADVICE}"
        )
    if not isinstance(inner, gymnasium.Env):
        raise InputError(
            f"{env.spec.env_id} is a {type(inner).__name__}, not a bare Gymnasium env: its observations are "
            f"not the states of a table `P`. Leave out wrappers other than time_limit. {_ADVICE}"
        )
    return inner, limit


def _size(space: Any, env_id: EnvID) -> int:
    if not isinstance(space, spaces.Discrete) or space.start != 0:
        raise InputError(
            f"{env_id} has the space {space}; a table `P` needs Discrete spaces that start at 0. {_ADVICE}"
        )
    return int(space.n)


def _plain(outcome: Any) -> tuple[float, int, float, bool]:
    p, state, reward, terminated = outcome
    return float(p), int(state), float(reward), bool(terminated)


def _legal(env: Env, raw: Any, states: int, actions: int) -> NDArray[np.uint8]:
    """Return the action masks; Gymnasium accepts masked actions, so masks are enforced only with `info_masks`."""
    if not env.spec.facts.config.options.get("info_masks"):
        return np.ones((states, actions), np.uint8)
    if not hasattr(raw, "action_mask"):
        raise InputError(
            f"{env.spec.env_id} was made with info_masks, but has no method action_mask(state) that says what is legal "
            "where. Leave out info_masks."
        )
    return np.array([raw.action_mask(state) for state in range(states)], np.uint8)
