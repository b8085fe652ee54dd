"""Envs of Gymnasium, compiled and stepped in Python, each beside a plain loop."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import perf_counter
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete
from ppo_rows.measure import gate
from tabular_rows.rows import row, seconds

from mosaic import make_env
from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.adapters.user import adapt
from mosaic.envs.compiled.registry import find_twin
from mosaic.envs.env import EnvFacts
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.resumable import PlayedTraining
from mosaic.learners.tabular.training.twin import TwinTraining


def toy_text(repeats: int) -> None:
    for env_id, best in (("gym/FrozenLake-v1", 0.70), ("gym/Taxi-v3", 7.0), ("gym/CliffWalking-v1", -13.5)):
        mdp = find_twin(EnvironmentConfig(env_id=env_id))
        options = TabularOptions(epsilon=0.5, epsilon_decay=0.9999, epsilon_min=0.0, learning_rate=0.05)
        ours, peers = [], []
        for seed in range(repeats):
            training = TwinTraining(mdp, "q_learning", options, seed)
            training.advance(1000)
            ours.append(10_000_000 / seconds(lambda t=training: t.advance(10_000_000)))
            training.read_statistics()
            training.advance(1_000_000)
            reached = training.read_statistics().return_mean or 0.0
            gate(reached >= best, f"{env_id} reaches {best}, not {reached:.2f}")
            peers.append(_numpy_loop(env_id.removeprefix("gym/"), seed))
        row(env_id, ours, "steps/s", peers, 200, name="NumPy loop")


def _numpy_loop(name: str, seed: int, steps: int = 20_000) -> float:
    env = gymnasium.make(name)
    table = np.zeros((env.observation_space.n, env.action_space.n))  # type: ignore[attr-defined]
    random = np.random.default_rng(seed)
    state, _ = env.reset(seed=seed)
    start = perf_counter()
    for _ in range(steps):
        action = int(random.integers(table.shape[1])) if random.random() < 0.1 else int(table[state].argmax())
        after, reward, terminated, truncated, _ = env.step(action)
        table[state, action] += 0.1 * (reward + 0.99 * (0 if terminated else table[after].max()) - table[state, action])
        state = after
        if terminated or truncated:
            state, _ = env.reset()
    return steps / (perf_counter() - start)


def python_env(repeats: int) -> None:
    """Measure what learning adds to a step of an env in Python: random actions in the same env, with and without it.

    Both sides step Gymnasium's env itself, without its wrappers, with the same limit of steps.
    """
    alone, with_learner = [], []
    for seed in range(repeats):
        env = make_env("gym/FrozenLake-v1")
        learner = TabularLearner(16, 4, seed=seed, epsilon=1.0, epsilon_schedule="constant")
        learner.train(env, steps=500)
        with_learner.append(seconds(lambda e=env, x=learner: x.train(e, steps=20_000)) / 20_000)
        random = Random(seed)

        plain = gymnasium.make("FrozenLake-v1").unwrapped

        def bare(env: Any = plain, random: Random = random) -> None:
            env.reset(seed=0)
            length = 0
            for _ in range(20_000):
                _, _, terminated, _, _ = env.step(random.randrange(4))
                length += 1
                if terminated or length >= 100:
                    env.reset()
                    length = 0

        alone.append(seconds(bare) / 20_000)
    added = [(mine - other) * 1e6 for mine, other in zip(with_learner, alone, strict=True)]
    row("learning in a Python env, added to each step", added, "µs", at_most=3)


class Walk(gymnasium.Env[Any, int]):
    """Twenty places on a ring, noisy moves; the goal is behind the start."""

    observation_space: Any = Discrete(20)
    action_space = Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = self.count = 0
        return self.seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.place = (self.place + (action if self.np_random.random() < 0.9 else 1)) % 20
        return self.seen(), float(self.place == 19), self.place == 19, self.count >= 200, {}

    def seen(self) -> Any:
        return self.place


class DictWalk(Walk):
    observation_space = Dict({"row": Discrete(5), "column": Discrete(4)})

    def seen(self) -> Any:
        return {"row": self.place // 4, "column": self.place % 4}


class OneStep(Walk):
    """An env whose episodes are one step: return the observation as the action."""

    observation_space, action_space = Discrete(2), Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        gymnasium.Env.reset(self, seed=seed)
        self.place = int(self.np_random.integers(2))
        return self.place, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.place, float(action == self.place), True, False, {}


def direct(repeats: int, steps: int = 100_000) -> None:
    """Measure stepped Python envs, as the worker steps them, against a careful NumPy loop in the same minute."""
    cases: tuple[tuple[str, type[Walk], Callable[[Any], int], float], ...] = (
        ("Discrete observations", Walk, int, 1.5),
        ("Dict observations", DictWalk, lambda seen: seen["row"] * 4 + seen["column"], 1.0),
        ("episodes of one step", OneStep, int, 1.5),
    )
    for what, env, code, at_least in cases:
        ours, peers = [], []
        for seed in range(repeats):
            facts = EnvFacts(EnvironmentConfig(env_id=f"python:benchmarks:{env.__name__}"))
            training = PlayedTraining(adapt(env(), facts), "q_learning", TabularOptions(), seed)
            training.advance(1000)
            ours.append(steps / seconds(lambda t=training: t.advance(steps)))
            training.read_statistics()
            training.advance(5000)
            gate((training.read_statistics().return_mean or 0.0) > 0.9, f"{what}: ours learns")
            peers.append(_plain_loop(env(), training.learner.values.shape, code, seed, steps // 4))
        row(f"stepped in Python, {what}", ours, "steps/s", peers, at_least, name="NumPy loop")


def _plain_loop(env: Walk, shape: tuple[int, ...], code: Callable[[Any], int], seed: int, steps: int) -> float:
    table, random = np.zeros(shape), np.random.default_rng(seed)
    state = code(env.reset(seed=seed)[0])
    start = perf_counter()
    for _ in range(steps):
        action = int(random.integers(shape[1])) if random.random() < 0.1 else int(table[state].argmax())
        seen, reward, terminated, truncated, _ = env.step(action)
        after = code(seen)
        table[state, action] += 0.1 * (reward + 0.99 * (0 if terminated else table[after].max()) - table[state, action])
        state = code(env.reset()[0]) if terminated or truncated else after
    return steps / (perf_counter() - start)


def python_engines(repeats: int, steps: int = 50_000) -> None:
    """Measure the engines numpy and list in a Python env against plain loops of their kind, which count no visits."""
    loops = {"numpy": _plain_loop, "list": _list_loop}
    for engine, loop in loops.items():
        ours, peers = [], []
        for seed in range(repeats):
            facts = EnvFacts(EnvironmentConfig(env_id="python:benchmarks:Walk"))
            options = TabularOptions.model_validate({"table_engine": engine})
            training = PlayedTraining(adapt(Walk(), facts), "q_learning", options, seed)
            training.advance(1000)
            ours.append(steps / seconds(lambda t=training: t.advance(steps)))
            training.read_statistics()
            training.advance(5000)
            gate((training.read_statistics().return_mean or 0.0) > 0.9, f"the engine {engine} learns")
            peers.append(loop(Walk(), (20, 4), int, seed, steps))
        row(f"the engine {engine} in Python", ours, "steps/s", peers, 1.0, name="a plain loop")


def _list_loop(env: Walk, shape: tuple[int, ...], code: Callable[[Any], int], seed: int, steps: int) -> float:
    table, random = [[0.0] * shape[1] for _ in range(shape[0])], Random(seed)
    state = code(env.reset(seed=seed)[0])
    start = perf_counter()
    for _ in range(steps):
        values = table[state]
        action = random.randrange(shape[1]) if random.random() < 0.1 else values.index(max(values))
        seen, reward, terminated, truncated, _ = env.step(action)
        after = code(seen)
        ahead = 0.0 if terminated else max(table[after])
        values[action] += 0.1 * (reward + 0.99 * ahead - values[action])
        state = code(env.reset()[0]) if terminated or truncated else after
    return steps / (perf_counter() - start)
