"""Memory env: a cue is shown once and asked for later; solvable only with memory."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Sight = NDArray[np.float32]

_SIDE = 64  # pixels of a cell of the image
_DARK, _LIT, _ASKED = (51, 65, 85), (249, 115, 22), (56, 189, 248)


class Recall(gymnasium.Env[Sight, int]):
    """Env that shows one of `cues` in the first step, then nothing for `delay` steps, then the question.

    Naming the cue at the question pays 1, anything else 0; earlier actions have no effect. The question looks the same
    for all cues, so a policy without memory is right at most once in `cues` on average.
    """

    def __init__(self, delay: int = 4, cues: int = 2) -> None:
        self.delay, self.cues = delay, cues
        self.observation_space = spaces.Box(0, 1, (cues + 1,), np.float32)  # the cue, one-hot, and the question
        self.action_space = spaces.Discrete(cues)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 4}
        self.render_mode = "rgb_array"
        self._cue = self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Sight, dict[str, object]]:
        super().reset(seed=seed)
        self._cue, self._time = int(self.np_random.integers(self.cues)), 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[Sight, SupportsFloat, bool, bool, dict[str, object]]:
        answered = self._time == self.delay + 1
        self._time += 1
        return self._seen(), float(answered and action == self._cue), answered, False, {}

    def render(self) -> Any:
        from mosaic.envs.compiled.drawing import enlarge

        cells = np.empty((1, self.cues + 1, 3), np.uint8)
        cells[:] = _DARK
        seen = self._seen()
        cells[0, :-1][seen[:-1] > 0] = _LIT
        if seen[-1]:
            cells[0, -1] = _ASKED
        return enlarge(cells, _SIDE)

    def _seen(self) -> Sight:
        seen = np.zeros(self.cues + 1, np.float32)
        if self._time == 0:
            seen[self._cue] = 1
        elif self._time == self.delay + 1:
            seen[-1] = 1
        return seen
