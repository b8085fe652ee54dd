"""Compiled kernel of PettingZoo's rock, paper, scissors, for many matches at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.numba_cache import cfunc, njit
from mosaic.core.reference import Options
from mosaic.envs.compiled.vector import BEGIN, CFUNC, STEP, Bytes, CompiledKernel, Floats, Ints, Rows, Words
from mosaic.envs.env import Env
from mosaic.envs.vector.encoding import ActionHead


class RepeatedGame(NamedTuple):
    """A zero-sum game of two simultaneous agents over N rounds; then both are truncated.

    Each observes the other's action of the round before, and A (one more than the last action) before the first.
    """

    payoff: NDArray[np.float32]  # [A, A] to the first agent for (its action, the other's); the other gets its negative
    rounds: int


def rock_paper_scissors(num_actions: int = 3, max_cycles: int = 15) -> RepeatedGame:
    """Return PettingZoo's rps_v2 with its options.

    The higher number wins if one is odd and one even, else the lower.
    """
    if num_actions < 3 or num_actions % 2 == 0:
        raise InputError(f"num_actions should be odd and at least 3 (got {num_actions}).")
    if max_cycles < 1:
        raise InputError(f"max_cycles should be at least 1 (got {max_cycles}).")
    mine, theirs = np.indices((num_actions, num_actions))
    higher = np.sign(mine - theirs)
    return RepeatedGame(np.where((mine + theirs) % 2, higher, -higher).astype(np.float32), max_cycles)


_ACTIONS, _ROUNDS, _PAYOFF = 0, 1, 2  # in `facts`; the payoff table starts at the last
_ROUND, _CHOSEN = 0, 1  # in `ints`; from the last on, both agents' choices of the latest rounds, newest first
_KEPT = 10  # choices, as many as the reference renders
_NOTHING = -1


def _odd(number: int) -> int:
    if number % 2 == 0:
        raise ValueError("should be odd")
    return number


class RpsOptions(Options):
    model_config = ConfigDict(strict=True)

    num_actions: Annotated[int, Field(ge=3), AfterValidator(_odd)] = 3
    max_cycles: Annotated[int, Field(ge=1)] = 15
    screen_height: int = 800  # rendering only
    render_mode: Literal["rgb_array"] | None = None


def find_rps(config: EnvironmentConfig) -> CompiledKernel | None:
    if config.wrappers or config.api_type not in ("auto", "parallel"):
        return None
    try:
        options = RpsOptions.model_validate(config.options)
    except ValidationError:
        return None
    game = rock_paper_scissors(options.num_actions, options.max_cycles)
    return CompiledKernel(
        step=_step,
        begin=_begin,
        facts=np.array([options.num_actions, game.rounds, *game.payoff.ravel()], np.float64),
        state_width=0,
        ints_width=1 + _KEPT,
        agents=("player_0", "player_1"),
        widths=(options.num_actions + 1,) * 2,
        heads=(ActionHead("categorical", (options.num_actions,)),) * 2,
        load=_load,
    )


def _load(env: Env, state: Floats, ints: Ints) -> None:
    raw: Any = env.env.unwrapped  # type: ignore[attr-defined]
    raw.num_moves = int(ints[_ROUND])
    raw.history = ints[_CHOSEN:].tolist()
    first, second = (raw._none if action == _NOTHING else action for action in raw.history[:2])
    raw.state = dict(zip(raw.possible_agents, (first, second), strict=True))
    raw.observations = dict(zip(raw.possible_agents, (second, first), strict=True))


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_match(ints: Ints, env: int) -> None:
    ints[env, _ROUND] = 0
    for place in range(_CHOSEN, _CHOSEN + _KEPT):
        ints[env, place] = _NOTHING


@njit(cache=True, nogil=True, error_model="numpy")
def _show(ints: Ints, env: int, out: Rows) -> None:
    """Write for each agent the other's choice; the last column means no choice yet."""
    for agent in range(2):
        chosen = ints[env, _CHOSEN + 1 - agent]
        for place in range(out.shape[1]):
            out[2 * env + agent, place] = 0.0
        out[2 * env + agent, out.shape[1] - 1 if chosen == _NOTHING else chosen] = 1.0


@cfunc(STEP, **CFUNC)
def _step(
    facts: Floats,
    state: Floats,
    ints: Ints,
    rng: Words,
    act: Rows,
    obs: Rows,
    mask: Bytes,
    who: Ints,
    rew: Rows,
    term: Bytes,
    trunc: Bytes,
    fin: Rows,
) -> None:
    actions, rounds = int(facts[_ACTIONS]), int(facts[_ROUNDS])
    for env in range(ints.shape[0]):
        first, second = np.int64(act[2 * env, 0]), np.int64(act[2 * env + 1, 0])
        paid = facts[_PAYOFF + actions * first + second]
        rew[2 * env] = paid
        rew[2 * env + 1] = 0.0 - paid
        ints[env, _ROUND] += 1
        for place in range(_CHOSEN + _KEPT - 1, _CHOSEN + 1, -1):
            ints[env, place] = ints[env, place - 2]
        ints[env, _CHOSEN] = first
        ints[env, _CHOSEN + 1] = second
        cut = ints[env, _ROUND] >= rounds
        for agent in range(2):
            term[2 * env + agent] = 0
            trunc[2 * env + agent] = cut
        if cut:
            _show(ints, env, fin)
            _begin_match(ints, env)
        _show(ints, env, obs)


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    for env in range(ints.shape[0]):
        who[2 * env], who[2 * env + 1] = 0, 1
        _begin_match(ints, env)
        _show(ints, env, obs)
