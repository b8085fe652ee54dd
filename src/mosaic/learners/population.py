"""Many learners in one process: seeds of one setting, or settings that compete, on as many threads as there are cores.

Compiled rollouts and updates run without the interpreter lock, so that learners on threads are as fast as processes and
start at once. Each is exactly what it would be alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from mosaic.learners.learner import Learner


class Population:
    """Takes the learners over and closes them."""

    def __init__(self, learners: Sequence[Learner], threads: int | None = None) -> None:
        self.learners = tuple(learners)
        workers = min(threads or len(os.sched_getaffinity(0)), len(self.learners))
        self._threads = ThreadPoolExecutor(workers, "learner")

    def advance(self, env_steps: int) -> None:
        """Every learner goes on until it has taken at least so many env steps in all."""

        def go_on(learner: Learner) -> None:
            while learner.env_steps < env_steps:
                learner.iterate()

        for done in self._threads.map(go_on, self.learners):
            assert done is None

    def best(self) -> int:
        """The number of the learner with the highest mean return; those without an episode yet come last."""
        returns = [learner.progress().return_mean for learner in self.learners]
        return max(range(len(returns)), key=lambda k: float("-inf") if (mean := returns[k]) is None else mean)

    def close(self) -> None:
        self._threads.shutdown()
        for learner in self.learners:
            learner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
