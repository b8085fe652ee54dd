"""How much time and memory a run may take, and what is said when it takes more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mosaic.runs.lifecycle import LimitExceeded


@dataclass(frozen=True, slots=True)
class Limits:
    """None: as much as there is."""

    max_wall_s: float | None = None
    max_memory_mb: int | None = None

    def exceeded(self, elapsed_s: float, memory_mb: Callable[[], float], now_s: float) -> LimitExceeded | None:
        """Memory is only measured where it is limited. Time is that of this attempt, by a clock that nobody sets."""
        if self.max_wall_s is not None and elapsed_s >= self.max_wall_s:
            return LimitExceeded("wall time", f"its {self.max_wall_s:g} s (resources.max_wall_s) are over", now_s)
        if self.max_memory_mb is None:
            return None
        used_mb = memory_mb()
        if used_mb <= self.max_memory_mb:
            return None
        detail = f"its processes took {used_mb:.0f} MB, {self.max_memory_mb} MB are allowed (resources.max_memory_mb)"
        return LimitExceeded("memory", detail, now_s)
