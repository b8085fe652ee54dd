"""Saving pace: when a run saves its next checkpoint, by env steps, iterations or the clock."""

from __future__ import annotations

from collections.abc import Callable

from mosaic.config.sections import CheckpointConfig

LEAST_SAVE_S = 60.0  # between checkpoints if not configured: what a crash costs
SAVE_SHARE = 0.02  # maximum share of time spent on checkpoints, if not configured


class SavingPace:
    """Pace of one attempt, counted from the checkpoint before: a run that is killed and resumed saves where one that
    was left alone does.
    """

    def __init__(self, settings: CheckpointConfig, resumed_at: int, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self.saved_at: int | None = None  # env steps of this attempt's last checkpoint
        self._before = resumed_at  # env steps of the last checkpoint, of any attempt
        self._iterations = 0  # since then
        self._again_s = clock() + self._wait_s(0.0)

    def due(self, env_steps: int, own_steps: int | None = None) -> bool:
        """Count an iteration and return whether to save; `own_steps` is the worker's interval if none is configured."""
        settings = self._settings
        self._iterations += 1
        if settings.every_iterations is not None:
            return self._iterations >= settings.every_iterations
        every = settings.every_steps or (own_steps if settings.every_minutes is None else None)
        if every is not None:
            return env_steps - self._before >= every
        return env_steps > self._before and self._clock() >= self._again_s

    def saved(self, env_steps: int, took_s: float) -> None:
        self.saved_at = self._before = env_steps
        self._iterations = 0
        self._again_s = self._clock() + self._wait_s(took_s)

    def _wait_s(self, took_s: float) -> float:
        minutes = self._settings.every_minutes
        return max(LEAST_SAVE_S, took_s / SAVE_SHARE) if minutes is None else 60.0 * minutes
