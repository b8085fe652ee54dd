"""Camera scene of a native run: the envs of the first rollout worker."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.compiled.vector import CompiledVector
from mosaic.learners.base import Viewable
from mosaic.runners.screen import Shot


class NativeScene:
    def __init__(self, learner: Viewable) -> None:
        self._learner, self._vector = learner, learner.vector
        self.envs = self._vector.shape.envs
        self.freezes = isinstance(self._vector, CompiledVector)

    def shoot(self, index: int) -> Shot:
        vector, tally = self._vector, self._learner.tally
        agents = vector.shape.agents
        first = index * len(agents)
        returns = tally.returns[first : first + len(agents)].tolist()
        return Shot(
            draw=self._draw(index),
            env=index,
            env_steps=self._learner.env_steps,
            episode=int(tally.finished[-1]),
            reward=float(vector.rew[first]),
            returns=dict(zip(agents, returns, strict=True)),
        )

    def _draw(self, index: int) -> Callable[[], NDArray[np.uint8] | None]:
        if isinstance(self._vector, CompiledVector):
            return self._vector.freeze(index)
        return lambda: self._vector.render(index)
