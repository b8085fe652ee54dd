"""Contract of a compiled game that tree search can play: its states can be copied, read and mapped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.random import streams
from mosaic.envs.compiled.vector import (
    UNKNOWN,
    CompiledKernel,
    CompiledVector,
    SearchRules,
    copy_state,
    features_at,
    make_kernel_data,
    outlook_at,
)
from mosaic.envs.contract.report import CheckPosition, ContractError

GAMES, FUTURE = 32, 3  # games that are played at once; steps in which a copy is compared with its original


def check_search_rules(kernel: CompiledKernel, steps: int = 60, seed: int = 0) -> int:
    """Play random games and compare copies, readings and images of every position; return the games that ended.

    Raise ContractError with the broken promise of `SearchRules`.
    """
    rules = kernel.search
    _require(rules is not None, "the kernel declares no search rules")
    assert rules is not None
    _require(len(kernel.agents) == 2 and kernel.turn_based, "search rules are for two agents that act in turns")
    random, vector = np.random.default_rng(seed), CompiledVector(kernel, GAMES)
    vector.reset(seed)
    ended = 0
    for step in range(steps):
        _check_reading(vector, rules)
        _check_features(vector, rules)
        if step % FUTURE == 1:
            _check_copies(vector, random)
        for symmetry in rules.symmetries:
            _check_image(vector, rules, symmetry.observation, symmetry.actions, random)
        proofs = _outlook(vector, rules)
        act, mover = random_actions(vector, random), vector.who.copy()
        vector.step(act)
        ended += _check_rewards(vector, mover, proofs[np.arange(GAMES), act[:, 0].astype(int)])
    _require(ended > 0, f"no game ended within {steps} random moves")
    return ended


def random_actions(vector: CompiledVector, random: np.random.Generator) -> NDArray[np.float32]:
    """Draw a legal action for every game."""
    actions = vector.kernel.heads[0].width
    legal = vector.mask if len(vector.mask) else np.ones((GAMES, actions), np.uint8)
    drawn: NDArray[np.int64] = np.argmax(random.random(legal.shape) * (legal != 0), axis=1)
    return drawn.astype(np.float32)[:, None]


def _check_copies(vector: CompiledVector, random: np.random.Generator) -> None:
    """Compare the next steps of every game with those of its copy, whose place and random numbers are others."""
    original, copied, order = _copy(vector), CompiledVector(vector.kernel, GAMES), random.permutation(GAMES)
    for env, place in enumerate(order):
        copy_state(vector.data, env, copied.data, int(place))
    copied.data.rng[:] = streams(int(random.integers(1 << 30)), GAMES)
    for _ in range(FUTURE):
        act = random_actions(original, random)
        original.step(act)
        copied.step(act[np.argsort(order)])
        for name in ("obs", "mask", "who"):
            mine, theirs = getattr(original, name), getattr(copied, name)
            _require(
                not len(mine) or bool((mine == theirs[order]).all()), f"a copy has another {name} than its original"
            )
        for name in ("rew", "term", "trunc"):
            mine, theirs = (getattr(each, name).reshape(GAMES, 2) for each in (original, copied))
            _require(bool((mine == theirs[order]).all()), f"a copy has another {name} than its original")


def _copy(vector: CompiledVector) -> CompiledVector:
    made = CompiledVector(vector.kernel, GAMES)
    for name in ("state", "ints", "rng", "obs", "mask", "who"):
        getattr(made, name)[:] = getattr(vector, name)
    return made


def _check_reading(vector: CompiledVector, rules: SearchRules) -> None:
    found = make_kernel_data(vector.kernel, GAMES)
    for env in range(GAMES):
        rules.read(vector.obs[env], int(vector.who[env]), found.state[env], found.ints[env])
    equal = (found.state == vector.state).all() and (found.ints == vector.ints).all()
    _require(bool(equal), "`read` finds another state than the one that was observed")


def _check_features(vector: CompiledVector, rules: SearchRules) -> None:
    """Compare what the machine code writes with the declared sums of units."""
    features = rules.features
    if features is None:
        return
    rows, units = np.full((GAMES, features.width), np.nan, np.float32), vector.obs @ features.weight + features.bias
    _write_features(features.write.address, vector.data.facts, vector.state, vector.ints, rows)
    sums = np.maximum(units, 0) @ np.eye(features.width, dtype=np.float32)[features.feature]
    _require(bool((rows == sums).all()), "the machine code of `features` writes other numbers than its units have")


def _check_image(
    vector: CompiledVector,
    rules: SearchRules,
    observation: NDArray[np.int64],
    actions: NDArray[np.int64],
    random: np.random.Generator,
) -> None:
    """Compare a step with the same step of the mapped games."""
    original, image = _copy(vector), CompiledVector(vector.kernel, GAMES)
    image.obs[:], image.who[:] = vector.obs[:, observation], vector.who
    for env in range(GAMES):
        rules.read(image.obs[env], int(image.who[env]), image.state[env], image.ints[env])
    act = random_actions(vector, random)
    original.step(act)
    image.step(np.argsort(actions)[act.astype(int)].astype(np.float32))
    _require(bool((image.obs == original.obs[:, observation]).all()), "a symmetry does not map observations")
    masked = not len(image.mask) or bool((image.mask == original.mask[:, actions]).all())
    _require(masked, "a symmetry does not map the legal actions")
    for name in ("rew", "term"):
        same = bool((getattr(image, name) == getattr(original, name)).all())
        _require(same, f"a symmetry changes {name}")


def _check_rewards(vector: CompiledVector, mover: NDArray[np.int64], proofs: NDArray[np.int8]) -> int:
    """Check who was paid what, and the outlook where it said that the action wins or draws at once."""
    paid, over = vector.rew.reshape(GAMES, 2), vector.term.reshape(GAMES, 2) != 0
    own = paid[np.arange(GAMES), mover]
    _require(bool((paid.sum(axis=1) == 0).all()), "the rewards of a step do not sum to 0")
    _require(bool(np.isin(paid, (-1, 0, 1)).all()), "a reward is none of 1, 0 and -1")
    _require(bool((over[:, 0] == over[:, 1]).all()), "one agent's game ended before the other's")
    _require(not vector.trunc.any(), "a game was truncated")
    _require(not paid[~over].any(), "a reward was paid before the end")
    _require(
        not (over & (own[:, None] != proofs[:, None]) & (proofs[:, None] != UNKNOWN)).any(), "the outlook is wrong"
    )
    return int(over[:, 0].sum())


def _outlook(vector: CompiledVector, rules: SearchRules) -> NDArray[np.int8]:
    proofs = np.full((GAMES, vector.kernel.heads[0].width), UNKNOWN, np.int8)
    if rules.outlook is not None:
        _call(rules.outlook.address, vector.data.facts, vector.state, vector.ints, proofs)
    return proofs


@njit(cache=True, nogil=True, error_model="numpy")
def _call(address: int, facts: object, state: object, ints: object, proofs: object) -> None:
    outlook_at(address)(facts, state, ints, proofs)


@njit(cache=True, nogil=True, error_model="numpy")
def _write_features(address: int, facts: object, state: object, ints: object, rows: object) -> None:
    features_at(address)(facts, state, ints, rows)


def _require(met: bool, broken: str) -> None:
    if not met:
        raise ContractError(
            CheckPosition("compiled game"), broken, "what SearchRules declares holds", "correct the kernel's `search`"
        )
