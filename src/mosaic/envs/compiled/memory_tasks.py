"""Compiled kernel of the memory tasks, for many episodes at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import cfunc, njit
from mosaic.envs.compiled.random import next_below
from mosaic.envs.compiled.reference import load_state
from mosaic.envs.compiled.vector import BEGIN, CFUNC, STEP, Bytes, CompiledKernel, Floats, Ints, Rows, Words
from mosaic.envs.toys.memory_tasks import COUNT, MEMORY_TASKS, NOT_ASKED, RECALL, REPEAT, REVERSE
from mosaic.envs.vector.encoding import ActionHead

_KIND, _SYMBOLS, _SPAN, _STEPS, _QUESTIONS = range(5)  # in `facts`


def find_memory_task(config: EnvironmentConfig) -> CompiledKernel | None:
    from mosaic.envs.families.mosaic import read_options

    if config.wrappers or config.api_type not in ("auto", "gym"):
        return None
    rules = read_options(config, MEMORY_TASKS[config.env_id]).rules()
    return CompiledKernel(
        step=_step,
        begin=_begin,
        facts=np.array(rules[: _QUESTIONS + 1], np.float64),
        state_width=1 + rules.drawn,  # the time, then all that chance decides
        ints_width=0,
        widths=(rules.width,),
        heads=(ActionHead("categorical", (rules.actions,)),),
        load=load_state,
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _draw(facts: Floats, state: Floats, rng: Words, env: int) -> None:
    """Begin an episode."""
    symbols, steps = int(facts[_SYMBOLS]), int(facts[_STEPS])
    drawn = state[env, 1:]
    state[env, 0] = 0.0
    for place in range(drawn.shape[0]):
        drawn[place] = next_below(rng, env, symbols)
    if facts[_KIND] == COUNT:  # a shuffled deck, then the symbols that are asked for
        for place in range(steps):
            drawn[place] = place // int(facts[_SPAN])
        for place in range(steps - 1, 0, -1):
            other = next_below(rng, env, place + 1)
            drawn[place], drawn[other] = drawn[other], drawn[place]


@njit(cache=True, nogil=True, error_model="numpy")
def _answer(facts: Floats, time: int, drawn: NDArray[np.float64]) -> int:
    """Return the right action, or NOT_ASKED."""
    kind, span = int(facts[_KIND]), int(facts[_SPAN])
    if kind == RECALL:
        return int(drawn[0]) if time == span + 1 else NOT_ASKED
    if kind == COUNT:
        asked, count = drawn[int(facts[_STEPS]) + time], 0
        for place in range(time + 1):
            count += drawn[place] == asked
        return count
    if time < span:
        return NOT_ASKED
    return int(drawn[time - span] if kind == REPEAT else drawn[2 * span - 1 - time])


@njit(cache=True, nogil=True, error_model="numpy")
def _show(facts: Floats, state: Floats, env: int, out: Rows) -> None:
    kind, symbols, steps = int(facts[_KIND]), int(facts[_SYMBOLS]), int(facts[_STEPS])
    time, drawn = int(state[env, 0]), state[env, 1:]
    for column in range(out.shape[1]):
        out[env, column] = 0.0
    if time == steps:
        return
    shows = 1 if kind == RECALL else (int(facts[_SPAN]) if kind == REVERSE else steps)
    if time < shows:
        out[env, int(drawn[time])] = 1.0
    if kind == COUNT:
        out[env, symbols + int(drawn[steps + time])] = 1.0
    elif kind != REPEAT and _answer(facts, time, drawn) != NOT_ASKED:
        out[env, symbols] = 1.0


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
    for env in range(state.shape[0]):
        right = np.int64(act[env, 0]) == _answer(facts, int(state[env, 0]), state[env, 1:])
        rew[env] = 1.0 / facts[_QUESTIONS] if right else 0.0
        state[env, 0] += 1.0
        over = state[env, 0] == facts[_STEPS]
        term[env], trunc[env] = over, 0
        if over:
            _show(facts, state, env, fin)
            _draw(facts, state, rng, env)
        _show(facts, state, env, obs)


@cfunc(BEGIN, **CFUNC)
def _begin(facts: Floats, state: Floats, ints: Ints, rng: Words, obs: Rows, mask: Bytes, who: Ints) -> None:
    who[:] = 0
    for env in range(state.shape[0]):
        _draw(facts, state, rng, env)
        _show(facts, state, env, obs)
