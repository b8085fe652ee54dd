"""Best policy of a DQN run, found by tests of greedy play in envs of its own.

Action values forget and recover, so that the last net may play worse than an earlier one. Training returns do not tell
which was best: they are of random actions too, and of nets that changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorArrays, VectorEnv
from mosaic.models.engine import StateArrays

LONGEST = 10_000  # steps of a test, for an env that a greedy policy never leaves


class Decides(Protocol):
    """Net that plays."""

    def decide(self, env: VectorArrays, epsilon: float, act: NDArray[np.float32]) -> None: ...

    def weights(self) -> NDArray[np.float32]: ...


class BestPolicy:
    """Weights with the highest mean return tested so far; ties go to the newest."""

    def __init__(self, vector: VectorEnv, every_steps: int, episodes: int, seed: int) -> None:
        """Each test plays `episodes` new ones in the vector env, which is closed with this."""
        self.weights: NDArray[np.float32] | None = None
        self.score, self.env_steps = -np.inf, 0
        self._vector, self._every, self._episodes, self._seed = vector, every_steps, episodes, seed

    def is_due(self, before: int, now: int, last: int | None) -> bool:
        """Return whether a multiple of the interval, or the last step of the run, was reached since `before`."""
        return now // self._every > before // self._every or (last is not None and before < last <= now)

    def test(self, net: Decides, env_steps: int, stop: Callable[[], bool]) -> float | None:
        """Return the mean return of greedy play, and keep the weights if none was higher; None if `stop` said so."""
        seed = child_seed(self._seed, "tests", env_steps)
        score = mean_greedy_return(net, self._vector, self._episodes, seed, stop)
        if score is not None and score >= self.score:
            self.weights, self.score, self.env_steps = net.weights(), score, env_steps
        return score

    def to_arrays(self) -> StateArrays:
        if self.weights is None:
            return {}
        found = np.array([self.score, self.env_steps], np.float64)
        return {"best.weights": self.weights.copy(), "best.found": found}

    def load_arrays(self, state: StateArrays) -> None:
        if "best.weights" in state:
            self.weights = state["best.weights"].copy()
            self.score, self.env_steps = float(state["best.found"][0]), int(state["best.found"][1])

    def close(self) -> None:
        self._vector.close()


def mean_greedy_return(
    net: Decides, vector: VectorEnv, episodes: int, seed: int, stop: Callable[[], bool] = lambda: False
) -> float | None:
    """Play new episodes without exploration; return their mean return per agent, or None if `stop` says so."""
    shape = vector.shape
    env = VectorArrays(
        vector.obs, vector.mask, vector.who, vector.active, vector.rew, vector.term, vector.trunc, vector.fin
    )
    act, agents = np.zeros((shape.slots, shape.parts), np.float32), len(shape.agents)
    returns: list[NDArray[np.float64]] = []
    for number in range(-(-episodes // shape.envs)):
        vector.reset(child_seed(seed, number))
        total, alive = np.zeros(shape.rows), np.ones(shape.rows, bool)
        for _ in range(LONGEST):
            net.decide(env, 0.0, act)
            vector.step(act)
            total += alive * vector.rew
            alive &= (vector.term | vector.trunc) == 0
            if stop():
                return None
            if not alive.any():
                break
        returns.append(total[: (episodes - number * shape.envs) * agents])
    return float(np.concatenate(returns).mean())
