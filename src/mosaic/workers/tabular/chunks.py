"""Chunks of a tabular training: the steps between two reports, in pieces between which it can be stopped.

The configuration alone decides where a chunk ends, so that the same seed gives the same curve on every machine. Pieces
follow the clock; every training can be interrupted after a multiple of its grain with a bit-identical result.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from mosaic.workers.context import WorkerContext

if TYPE_CHECKING:
    from mosaic.workers.tabular.frames import WatchedTraining
    from mosaic.workers.tabular.training import TableTraining

PIECE_S = 0.25
_FIRST_STEPS = 16
_FASTEST_GROWTH = 8


class Chunks:
    """Driver of a training from report to report; `live` holds the counters after the last piece."""

    def __init__(
        self, context: WorkerContext, training: TableTraining, seen: WatchedTraining, report_every: int | None
    ) -> None:
        from mosaic.workers.tabular.frames import grain_of

        self._context, self._training, self._seen = context, training, seen
        settings = context.config
        self._evaluates = settings.evaluation.every_steps is not None
        chunk = report_every or _chunk(settings.training.total_timesteps)
        self._chunk = min(chunk, settings.evaluation.every_steps or chunk)
        self._grain = grain_of(training)
        self._piece = _FIRST_STEPS
        self.live: dict[str, Any] = self._counters()

    def advance(self) -> None:
        """Train until the next report: a chunk of agent steps, or the remainder if that is less than two chunks.

        In a short last chunk perhaps no episode would end, and there would be no reward. Evaluations keep their own
        interval.
        """
        training, settings = self._training, self._context.config.training
        most = self._chunk if self._evaluates else 2 * self._chunk - 1
        goal = training.agent_steps + self._chunk
        if settings.total_timesteps is not None and _steps_left(settings.total_timesteps, training) <= most:
            goal = training.agent_steps + most
        episodes = settings.episodes or 0
        while training.agent_steps < goal and not self._context.inbox.stop_asked():
            steps = goal - training.agent_steps
            if settings.total_timesteps is not None:
                if training.env_steps >= settings.total_timesteps:
                    return
                steps = min(steps, _steps_left(settings.total_timesteps, training))
            self._take(steps, episodes)
            if episodes and training.episodes >= episodes:
                return

    def _take(self, most: int, episodes: int) -> None:
        """Train one piece. A training that cannot be interrupted takes all steps at once."""
        steps = most if self._grain is None else min(most, -(-self._piece // self._grain) * self._grain)
        began_s = perf_counter()
        with self._context.iteration():
            self._seen.advance(steps, episodes)
        factor = PIECE_S / max(perf_counter() - began_s, 1e-6)
        self._piece = max(1, int(steps * min(factor, _FASTEST_GROWTH)))
        self.live = self._counters()

    def _counters(self) -> dict[str, Any]:
        from mosaic.workers.tabular.frames import mean_return

        training = self._training
        counted = {
            "env_steps": training.env_steps,
            "agent_steps": training.agent_steps,
            "episodes_total": training.episodes,
        }
        reward = mean_return(training)
        return counted if reward is None else {**counted, "episode_reward_mean": reward}


def _chunk(total_timesteps: int | None) -> int:
    """Return the agent steps between two reports: the same for the same configuration, whatever the machine."""
    return 1_000_000 if total_timesteps is None else min(5_000_000, max(10_000, total_timesteps // 50))


def _steps_left(total_timesteps: int, training: TableTraining) -> int:
    """Return the agent steps until the total is reached, at least 1; a random opponent's replies are env steps too."""
    per_step = training.env_steps / training.agent_steps if training.agent_steps else 1.0
    return max(1, int((total_timesteps - training.env_steps) / max(1.0, per_step)))
