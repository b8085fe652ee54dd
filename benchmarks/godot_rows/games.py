"""Several games in one vector env: while one computes, the messages of the others are on their way."""

from __future__ import annotations

from contextlib import ExitStack
from time import perf_counter, process_time

import numpy as np
from godot_rows.orchard import orchard
from ppo_rows.measure import Outcome, Plan, in_turn, show_speed

from mosaic.envs.env import Env
from mosaic.envs.vector.in_process import PythonVector

STEPS = 600


def games(plan: Plan) -> None:
    with ExitStack() as started:  # games that have started are closed if one does not

        def start() -> Env:
            env = orchard()
            started.callback(env.close)
            return env

        vectors = {count: PythonVector([start() for _ in range(count)]) for count in (1, 2, 4)}
        sides = [lambda seed, count=count: _play(vectors[count], count, seed) for count in vectors]
        outcomes = in_turn(plan.repeats, *sides)
    alone = outcomes[0]
    show_speed("1 game", alone, unit="env steps/s")
    for count, seen in zip((2, 4), outcomes[1:], strict=True):
        show_speed(f"{count} games in one vector env", seen, alone, "1 game", unit="env steps/s")


def _play(vector: PythonVector, count: int, seed: int) -> Outcome:
    rows, parts = vector.shape.envs * vector.shape.slots_per_env, vector.shape.parts
    actions = np.random.default_rng(seed).uniform(-1, 1, (STEPS, rows, parts)).astype(np.float32)
    vector.reset(seed)
    wall, cpu = perf_counter(), process_time()
    for action in actions:
        vector.step(action)
    return Outcome(STEPS * count, perf_counter() - wall, process_time() - cpu)
