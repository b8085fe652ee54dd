"""LunarLander wrapper that disables particles until the first render (3× faster steps).

If it can render, Gymnasium's LunarLander adds the smoke of its engines to the world as bodies, and a step takes three
times as long. The wrapper therefore sets the render mode only at the first render of an episode; the trajectory does
not depend on it.
"""

from __future__ import annotations

from typing import Any

import gymnasium


class SmokeOnDemand(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._mode = env.render_mode
        self.step = env.step  # type: ignore[method-assign]  # called directly, nothing to add
        env.unwrapped.render_mode = None

    @property
    def render_mode(self) -> str | None:  # type: ignore[override]
        return self._mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.env.unwrapped.render_mode = None
        return self.env.reset(seed=seed, options=options)

    def render(self) -> Any:
        self.env.unwrapped.render_mode = self._mode
        return self.env.render()
