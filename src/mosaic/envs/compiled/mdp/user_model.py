"""Arrays of a user's own small env: from its transition table `P`, or by trying every action in every state.

The result is used only if it is verified: the env and the arrays are then played side by side, and every observation,
reward and end must agree. A stochastic env without a table cannot be verified, since no number of trials shows all
possible outcomes. All bounds count states and steps, so that the same env is compiled either on every machine or on
none.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.codes import SpaceCode, space_code
from mosaic.envs.compiled.mdp.gym_table import compile_mdp
from mosaic.envs.compiled.mdp.mdp import Mdp, Outcome, probabilities, shorter, tabulate
from mosaic.envs.env import Env
from mosaic.envs.wrappers.limits import TimeLimit as OwnTimeLimit
from mosaic.envs.wrappers.transform import Named
from mosaic.telemetry.events.info_numbers import numbers_in

MOST_ROWS = 1 << 16  # members of the observation space; each gets a row, reached or not
MOST_PAIRS = 20_000  # reached states × actions
RANDOM_STEPS, LONG_STEPS = 2_000, 10_000  # verification steps: with random actions, and avoiding the end of the episode
_RESETS = 32  # with different seeds: does the env always start in the same state?
_SURPRISE = 6.0  # standard deviations between expected and observed frequencies


class OwnModel(NamedTuple):
    mdp: Mdp
    how: str  # how it was found and verified


class _RefusedError(Exception):
    """Reason why an env cannot be compiled."""


class _Steps:
    """The env below the wrappers that only check or truncate, with encoded states and actions."""

    def __init__(self, raw: gymnasium.Env[Any, Any], states: SpaceCode, actions: SpaceCode, limit: int) -> None:
        self.raw, self.states, self.actions, self.limit = raw, states, actions, limit

    def reset(self, seed: int | None = None) -> int:
        return self.states.encode(self.raw.reset(seed=seed)[0])

    def step(self, action: int, raw: gymnasium.Env[Any, Any] | None = None) -> tuple[int, float, bool, bool]:
        seen, reward, terminated, truncated, info = (raw or self.raw).step(self.actions.decode(action))
        if info and (terminated or truncated or self.limit) and numbers_in(info):
            raise _RefusedError(f"its info has numbers ({', '.join(numbers_in(info))}), which arrays do not have")
        return self.states.encode(seen), float(reward), bool(terminated), bool(truncated)


@cache
def own_model(config_json: str) -> OwnModel | str:
    """Return the model of the env that this configuration (as JSON) makes, or the reason why there is none."""
    from mosaic.envs.shared_env import described_env

    config = EnvironmentConfig.model_validate_json(config_json)
    try:
        with described_env(config) as env, closing(_to_step(env, config)) as copied:
            return _compile(copied)
    except _RefusedError as reason:
        return str(reason)


def _to_step(env: Env, config: EnvironmentConfig) -> Env:
    """Return a copy of the env that may be stepped: the env itself may train later, and must not have been."""
    has_table = getattr(_open(env).raw.unwrapped, "P", None) is not None
    try:
        return copy.deepcopy(env)
    except Exception as error:  # any exception of a user's objects means that they cannot be copied
        if has_table:  # which is read without copies
            from mosaic.envs.catalog import make_env

            return make_env(config)
        raise _cannot_be_copied(error) from error


def _compile(env: Env) -> OwnModel:
    steps = _open(env)
    if getattr(steps.raw.unwrapped, "P", None) is not None:
        return _from_table(env, steps)
    mdp = _explore(steps)
    checked, mdp = _prove(steps, mdp, certain=True)
    reached = int((mdp.legal.any(axis=1) & (mdp.terminated == 0).any(axis=(1, 2))).sum())
    return OwnModel(
        mdp, f"every action was tried in each of {reached:,} states, then {checked:,} steps agreed with the env"
    )


def _open(env: Env) -> _Steps:
    inner: Any = env
    limit = 0
    while isinstance(inner, OwnTimeLimit | Named):
        if isinstance(inner, OwnTimeLimit):
            limit = shorter(limit, inner.max_steps)
        inner = inner.env
    if not isinstance(inner, GymnasiumEnv):
        raise _RefusedError("it is not a Gymnasium env, or a wrapper changes it")
    if not inner.plain:
        raise _RefusedError("it masks actions, or is rebuilt for every episode")
    raw: gymnasium.Env[Any, Any] = inner.env
    while isinstance(raw, TimeLimit | OrderEnforcing | PassiveEnvChecker):
        if isinstance(raw, TimeLimit):
            limit = shorter(limit, int(raw._max_episode_steps))
        raw = raw.env
    try:
        states, actions = space_code(raw.observation_space), space_code(raw.action_space)
    except InputError:
        raise _RefusedError("its spaces have no numbered members") from None
    if states.size > MOST_ROWS:
        raise _RefusedError(f"it has {states.size:,} possible observations, and {MOST_ROWS:,} is the most")
    return _Steps(raw, states, actions, limit)


def _from_table(env: Env, steps: _Steps) -> OwnModel:
    raw: Any = steps.raw.unwrapped
    if getattr(raw, "initial_state_distrib", None) is None and isinstance(steps.states.space, Discrete):
        starts = np.zeros(steps.states.size)
        starts[_start(steps)] = 1.0
        raw.initial_state_distrib = starts  # of this copy, which is closed after reading
    try:
        mdp = compile_mdp(env)
    except InputError as error:
        raise _RefusedError(f"its table `P` cannot be used: {error}") from None
    checked, mdp = _prove(steps, mdp, certain=False)
    return OwnModel(mdp, f"its table `P` was read, and {checked:,} steps of the env agreed with it")


def _start(steps: _Steps) -> int:
    starts = {steps.reset(seed) for seed in range(_RESETS)}
    if len(starts) > 1:
        raise _RefusedError("it starts in different states, and nothing says how likely each is")
    return starts.pop()


def _explore(steps: _Steps) -> Mdp:
    """Explore breadth first through copies of the env; each pair is tried twice, with different random numbers."""
    start = _start(steps)
    copies: dict[int, gymnasium.Env[Any, Any] | None] = {start: _copied(steps.raw)}
    waiting = deque([start])
    rows: dict[int, list[list[Outcome]]] = {}
    while waiting:
        state = waiting.popleft()
        if (len(rows) + 1) * steps.actions.size > MOST_PAIRS:
            raise _RefusedError(f"more than {MOST_PAIRS:,} pairs of state and action can be reached")
        rows[state], here = [], copies[state]
        assert here is not None, "a state is explored once"
        for action in range(steps.actions.size):
            trial = 2 * (len(rows) * steps.actions.size + action)
            there = _copied(here, trial)
            after, reward, ended, _ = first = _tried(steps, action, there)
            if first != _tried(steps, action, _copied(here, trial + 1)):
                raise _RefusedError("it is stochastic and has no transition table `P`")
            if not math.isfinite(reward):
                raise _RefusedError(f"its reward is {reward}")
            rows[state].append([(1.0, after, reward, ended)])
            if not ended and after not in copies:
                copies[after] = there
                waiting.append(after)
        copies[state] = None  # explored; release its memory
    size, actions = steps.states.size, steps.actions.size
    outcomes = [rows.get(state) or [[(1.0, state, 0.0, True)]] * actions for state in range(size)]
    starts = np.zeros(size)
    starts[start] = 1.0
    return tabulate(outcomes, starts.tolist(), np.ones((size, actions), np.uint8), steps.limit, name="The env")


def _tried(steps: _Steps, action: int, raw: gymnasium.Env[Any, Any]) -> tuple[int, float, bool, bool]:
    try:
        return steps.step(action, raw)
    except _RefusedError:
        raise
    except Exception as error:  # if it is the env's own fault, training in the env itself reports it
        raise _RefusedError(f"a copy of it raised {type(error).__name__}: {error}") from error


def _copied(raw: gymnasium.Env[Any, Any], seed: int | None = None) -> gymnasium.Env[Any, Any]:
    try:
        twin = copy.deepcopy(raw)
    except Exception as error:
        raise _cannot_be_copied(error) from error
    if seed is not None:
        twin.unwrapped.np_random = np.random.default_rng(seed)
    return twin


def _cannot_be_copied(error: Exception) -> _RefusedError:
    return _RefusedError(f"it cannot be copied ({type(error).__name__}: {error})")


def _prove(steps: _Steps, mdp: Mdp, *, certain: bool) -> tuple[int, Mdp]:
    """Play env and arrays side by side; return the number of steps and the arrays with the env's own time limit.

    `certain`: every action has one outcome; otherwise, observed outcomes must be possible, and about as frequent as
    expected.
    """
    random = np.random.default_rng(0)
    own_limit, surplus, variance, done = 0, 0.0, 0.0, 0
    for avoid_end, most in ((False, RANDOM_STEPS), (True, LONG_STEPS)):
        goal, seed, choices = done + most, 0, _Choices(mdp, avoid_end)
        while done < goal:
            state, length = steps.reset(seed if seed < _RESETS else None), 0
            seed += 1
            if state not in mdp.start_state:
                raise _RefusedError(f"it started in state {state}, where the model never starts")
            while True:
                action = int(random.choice(choices[state]))
                after, reward, terminated, truncated = steps.step(action)
                done, length = done + 1, length + 1
                probability, likeliest, top = _probability(mdp, state, action, (after, reward, terminated))
                if probability == 0.0 or (certain and probability < 1.0):
                    raise _RefusedError(
                        f"action {action} in state {state} led to {after} with reward {reward:g}, which the model "
                        "does not say: it is stochastic, or has state that no observation shows"
                    )
                surplus, variance = surplus + (likeliest - top), variance + top * (1.0 - top)
                if truncated and not terminated:
                    if own_limit not in (0, length):
                        raise _RefusedError(f"it truncates after {own_limit} steps and after {length}")
                    own_limit = length
                if terminated or truncated or (own_limit and length > own_limit):
                    break
                if (steps.limit and length >= steps.limit) or done >= goal:
                    break
                state = after
            if own_limit and length > own_limit:
                raise _RefusedError(f"it truncates after {own_limit} steps, but not always")
    if variance > 0.0 and abs(surplus) > _SURPRISE * math.sqrt(variance):
        raise _RefusedError("outcomes are not as frequent as its table `P` says")
    return done, mdp._replace(time_limit=shorter(mdp.time_limit, own_limit))


class _Choices(dict[int, Any]):
    """The legal actions by state, without those that may end the episode if others do not."""

    def __init__(self, mdp: Mdp, avoid_end: bool) -> None:
        super().__init__()
        self._mdp, self._avoid_end = mdp, avoid_end

    def __missing__(self, state: int) -> Any:
        legal = np.flatnonzero(self._mdp.legal[state])
        ends = (self._mdp.terminated[state] == 1) & (probabilities(self._mdp.threshold[state]) > 0)
        safe = legal[~ends[legal].any(axis=1)]
        self[state] = legal = safe if self._avoid_end and len(safe) else legal
        return legal


def _probability(mdp: Mdp, state: int, action: int, seen: tuple[int, float, bool]) -> tuple[float, bool, float]:
    """Return the probability of what was seen, whether it was the likeliest outcome, and that one's probability."""
    odds: dict[tuple[int, float, bool], float] = {}
    for place, probability in enumerate(probabilities(mdp.threshold[state])[action]):
        if probability > 0.0:
            outcome = (
                int(mdp.next_state[state, action, place]),
                float(mdp.reward[state, action, place]),
                bool(mdp.terminated[state, action, place]),
            )
            odds[outcome] = odds.get(outcome, 0.0) + float(probability)
    likeliest = max(odds, key=lambda outcome: odds[outcome])
    return odds.get(seen, 0.0), seen == likeliest, odds[likeliest]
