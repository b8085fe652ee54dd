"""Compiled envs alone, with random actions, against Gymnasium's vector envs, VMAS and Pgx."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from ppo_rows.measure import Outcome, Plan, gate, in_turn, show_speed, timed

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.numba_cache import function_at, njit
from mosaic.envs.compiled.vector import STEP, CompiledVector, make_compiled_vector

_step_at = function_at(STEP)


def _vector(env_id: str, envs: int, seed: int) -> CompiledVector:
    vector = make_compiled_vector(EnvironmentConfig(env_id=env_id), envs)
    assert vector is not None
    vector.reset(seed)
    return vector


def _play(step: Callable[[Any], Any], actions: Any, envs: int, steps: int) -> Outcome:
    """Time vector steps with actions drawn in advance."""
    with timed() as clock:
        for number in range(steps):
            step(actions[number % len(actions)])
    return Outcome(steps * envs, clock.wall_s, clock.cpu_s)


def _episode_length(step: Callable[[Any], Any], actions: Any, ends: Callable[[], int]) -> float:
    """Return the mean over all envs, after a warm-up: otherwise short first episodes would be overrepresented."""
    for number in range(200):
        step(actions[number % len(actions)])
    ended, steps = 0, max(400, 60_000 // actions.shape[1])
    for number in range(steps):
        step(actions[number % len(actions)])
        ended += ends()
    return float(steps * actions.shape[1] / max(1, ended))


def cartpole(plan: Plan) -> None:
    """Measure CartPole. Gate: a random episode lasts 20 to 25 steps on both sides (true mean: 22.2)."""
    import gymnasium
    from gymnasium.vector import AutoresetMode

    in_python, in_numpy = "sync", "vector_entry_point"

    def ours(envs: int) -> Callable[[int], Outcome]:
        def play(seed: int) -> Outcome:
            vector = _vector("gym/CartPole-v1", envs, seed)
            actions = np.random.default_rng(seed).integers(2, size=(2048, envs, 1)).astype(np.float32)
            steps = 4_000_000 // envs // (10 if plan.quick else 1)
            outcome = _play(vector.step, actions, envs, steps)
            length = _episode_length(vector.step, actions, lambda: int(vector.term.sum() + vector.trunc.sum()))
            gate(20 < length < 25, f"a random CartPole episode lasts {length:.1f} steps in ours")
            return outcome

        return play

    def peer(envs: int, mode: str) -> Callable[[int], Outcome]:
        def play(seed: int) -> Outcome:
            same = {} if mode == in_numpy else {"autoreset_mode": AutoresetMode.SAME_STEP}
            vector = gymnasium.make_vec("CartPole-v1", envs, vectorization_mode=mode, vector_kwargs=same or None)
            vector.reset(seed=seed)
            actions = np.random.default_rng(seed).integers(2, size=(2048, envs))
            last: list[Any] = []

            def step(action: Any) -> None:
                last[:] = vector.step(action)

            steps = 40_000 // envs if mode == in_python else 5_000
            outcome = _play(step, actions, envs, steps)
            length = _episode_length(step, actions, lambda: int((last[2] | last[3]).sum()))
            vector.close()
            gate(20 < length < 25, f"a random CartPole episode lasts {length:.1f} steps in Gymnasium ({mode})")
            return outcome

        return play

    _play(_vector("gym/CartPole-v1", 8, 0).step, np.zeros((1, 8, 1), np.float32), 8, 1)  # compiles
    for envs, mode in ((8, in_python), (64, in_python), (8, in_numpy), (64, in_numpy), (1024, in_numpy)):
        name = "Gymnasium sync" if mode == in_python else "Gymnasium in NumPy"
        mine, other = in_turn(plan.repeats, ours(envs), peer(envs, mode))
        goal = 20 if envs < 1024 else 8  # arithmetic to the last bit, beside float32: docs/decisions/0005-native.md
        show_speed(f"compiled CartPole, {envs:,} envs", mine, other, name, goal)


def spread(plan: Plan) -> None:
    """Measure simple_spread. Gate: a random episode returns -22 to -30 to each agent (true mean: -26)."""
    envs = 1024

    def ours(seed: int) -> Outcome:
        vector = _vector("mpe/simple_spread_v3", envs, seed)
        actions = np.random.default_rng(seed).integers(5, size=(50, envs * 3, 1)).astype(np.float32)
        paid = 0.0
        for action in actions:
            vector.step(action)
            paid += float(vector.rew.sum())
        mean = paid / (envs * 3) / (len(actions) / 25)
        gate(-30 < mean < -22, f"a random episode of simple_spread pays {mean:.1f}")
        steps = 200 if plan.quick else 2000
        return _play(vector.step, actions, envs, steps)

    def peer(seed: int) -> Outcome:
        from ppo_peers.own_place import ask

        asked = {"envs": envs, "seed": seed, "steps": 100 if plan.quick else 500}
        return ask("own/vmas_spread.py", json.dumps(asked), place="vmas")

    ours(0)
    _beside(plan, f"compiled simple_spread, {envs:,} envs", ours, peer, "vmas", 10)


def tictactoe(plan: Plan) -> None:
    """Measure tic-tac-toe, legal moves drawn in both loops. Gate: a random game has 7 to 8 moves (true mean: 7.6)."""
    envs = 1024

    def ours(seed: int) -> Outcome:
        vector = _vector("classic/tictactoe_v3", envs, seed)
        act, chance = np.zeros((envs, 1), np.float32), np.array([seed + 88_172_645_463_325_252], np.uint64)
        steps, kernel = (2_000 if plan.quick else 20_000), vector.kernel
        with timed() as clock:
            ended = _moves(
                kernel.step.address, kernel.facts, vector.state, vector.ints, vector.rng, act, vector.obs, vector.mask,
                vector.who, vector.rew, vector.term, vector.trunc, vector.fin, chance, steps,
            )  # fmt: skip
        length = steps * envs / max(1, ended)
        gate(7 < length < 8.2, f"a random game of tic-tac-toe has {length:.2f} moves")
        return Outcome(steps * envs, clock.wall_s, clock.cpu_s)

    def peer(seed: int) -> Outcome:
        from ppo_peers.own_place import ask

        asked = {"envs": envs, "seed": seed, "steps": 1000 if plan.quick else 10_000}
        outcome = ask("own/pgx_tictactoe.py", json.dumps(asked), place="jax")
        gate(7 < outcome.reward < 8.2, f"a random game of tic-tac-toe has {outcome.reward:.2f} moves in Pgx")
        return outcome

    ours(0)
    _beside(plan, f"compiled tic-tac-toe, {envs:,} envs", ours, peer, "pgx", 5)


def _beside(
    plan: Plan, what: str, ours: Callable[[int], Outcome], peer: Callable[[int], Outcome], package: str, at_least: float
) -> None:
    from ppo_peers.own_place import pinned, wanted

    if wanted(plan, what, pinned(package)):
        mine, other = in_turn(plan.repeats, ours, peer)
        show_speed(what, mine, other, pinned(package), at_least)
    else:
        show_speed(what, in_turn(plan.repeats, ours)[0])


@njit(nogil=True, error_model="numpy")
def _moves(
    address: Any, facts: Any, state: Any, ints: Any, rng: Any, act: Any, obs: Any, mask: Any, who: Any, rew: Any,
    term: Any, trunc: Any, fin: Any, chance: Any, steps: int,
) -> int:  # fmt: skip
    """Play random legal moves in all envs; return how many games ended."""
    ended = 0
    agents = term.shape[0] // act.shape[0]
    for _ in range(steps):
        for env in range(act.shape[0]):
            legal = 0
            for action in range(mask.shape[1]):
                legal += mask[env, action]
            word = chance[0]
            word ^= word << np.uint64(13)
            word ^= word >> np.uint64(7)
            word ^= word << np.uint64(17)
            chance[0] = word
            left = np.int64(((word >> np.uint64(32)) * np.uint64(legal)) >> np.uint64(32))
            chosen = 0
            for action in range(mask.shape[1]):  # without branches, which random moves would mispredict
                free = np.int64(mask[env, action])
                chosen += action * (free & np.int64(left == 0))
                left -= free
            act[env, 0] = chosen
        _step_at(address)(facts, state, ints, rng, act, obs, mask, who, rew, term, trunc, fin)
        for env in range(act.shape[0]):
            ended += term[env * agents]
    return ended
