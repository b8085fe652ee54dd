"""Callback for users' own SB3 scripts: metrics, checkpoints and stops."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any, SupportsFloat

from stable_baselines3.common.callbacks import BaseCallback

from mosaic.core.errors import InputError
from mosaic.telemetry.events.info_numbers import InfoNumbers
from mosaic.telemetry.events.lines import emit_metric
from mosaic.workers.script.checkpoints import CHECKPOINT_DIR, emit_checkpoint

_WINDOW = 100  # episodes of the means, as in SB3's own log
_LEARNER = "train/"  # prefix of SB3's names for losses
_NAMES = {"policy_gradient_loss": "policy_loss"}  # SB3's name → the one of all workers
_POLICY = "policy"


class MosaicCallback(BaseCallback):
    """Callback that reports `model.learn` to Mosaic's worker `script`; without that worker it does nothing.

    Reports are printed between two rollouts, at most every `every_s` seconds, and at the end. `checkpoint_every` env
    steps, and at the end, the model is saved as `policy.zip` in $MOSAIC_CHECKPOINT_DIR and announced, so that
    `run:` plays it. A stop or Ctrl-C ends `learn` after the current step, with a last report and checkpoint.
    """

    def __init__(self, *, every_s: float = 2.0, checkpoint_every: int | None = None, verbose: int = 0) -> None:
        if every_s < 0 or (checkpoint_every is not None and checkpoint_every < 1):
            raise InputError(
                f"MosaicCallback(every_s={every_s}, checkpoint_every={checkpoint_every}): every_s is at least 0 and "
                "checkpoint_every at least 1, or None to save at the end only."
            )
        super().__init__(verbose)
        self._every_s, self._checkpoint_every = every_s, checkpoint_every
        self._returns: deque[float] = deque(maxlen=_WINDOW)
        self._lengths: deque[float] = deque(maxlen=_WINDOW)
        self._numbers = InfoNumbers()
        self._episodes, self._reports, self._rollouts = 0, 0, 0
        self._reported_at, self._saved_steps = 0.0, 0
        self._stopped = threading.Event()
        self._handler: Any = None

    def _on_training_start(self) -> None:
        self._saved_steps, self._reported_at = self.num_timesteps, monotonic()
        if os.environ.get(CHECKPOINT_DIR) and threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGINT, lambda *_: self._stopped.set())

    def _on_rollout_start(self) -> None:
        """Report the rollout before, with the losses of the training that followed it."""
        self._rollouts += 1
        if self._rollouts > 1 and monotonic() - self._reported_at >= self._every_s:
            self._report()
        if self._checkpoint_every and self.num_timesteps - self._saved_steps >= self._checkpoint_every:
            self._save()

    def _on_step(self) -> bool:
        for info in self.locals.get("infos", ()):
            ended: Mapping[str, Any] | None = info.get("episode")
            if ended is not None:  # of SB3's Monitor, which make_vec_env and every model add
                self._episodes += 1
                self._returns.append(float(ended["r"]))
                self._lengths.append(float(ended["l"]))
                self._numbers.add(info)
        return not self._stopped.is_set()

    def _on_training_end(self) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self._handler = None
        self._report()
        self._save()

    def _report(self) -> None:
        self._reports += 1
        self._reported_at = monotonic()
        returns = self._returns
        known = {
            "episode_reward_mean": fmean(returns),
            "episode_reward_min": min(returns),
            "episode_reward_max": max(returns),
            "episode_len_mean": fmean(self._lengths),
        } if returns else {}  # fmt: skip
        custom, alert = self._numbers.take()
        emit_metric(
            training_iteration=self._reports,
            env_steps=self.num_timesteps,
            episodes_total=self._episodes,
            **known,
            policies={
                _POLICY: {
                    **({"reward_mean": known["episode_reward_mean"]} if known else {}),
                    "learner": self._losses(),
                    "custom_metrics": custom,
                }
            },
        )
        if alert:
            emit_metric(kind="alert", env_steps=self.num_timesteps, message=alert)

    def _losses(self) -> dict[str, float]:
        logged: Mapping[str, object] = self.logger.name_to_value  # SB3 says floats, but anything may be logged
        numbers = {
            name.removeprefix(_LEARNER): float(value)
            for name, value in logged.items()
            if name.startswith(_LEARNER) and isinstance(value, SupportsFloat)
        }
        if "entropy_loss" in numbers:
            numbers["entropy"] = -numbers.pop("entropy_loss")
        return {_NAMES.get(name, name): value for name, value in numbers.items() if isfinite(value)}

    def _save(self) -> None:
        folder = os.environ.get(CHECKPOINT_DIR)
        if not folder or self._saved_steps == self.num_timesteps:
            return
        self._saved_steps = self.num_timesteps
        self.model.save(Path(folder, "policy.zip"))
        files = []
        if (normalised := self.model.get_vec_normalize_env()) is not None:
            normalised.save(str(Path(folder, "vecnormalize.pkl")))
            files = ["vecnormalize.pkl"]
        emit_checkpoint(
            env_steps=self.num_timesteps,
            reward=fmean(self._returns) if self._returns else None,
            policy="policy.zip",
            stochastic=not hasattr(self.model, "exploration_rate"),
            files=files,
        )
