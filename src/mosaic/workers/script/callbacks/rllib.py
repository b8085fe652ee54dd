"""Callback for users' own RLlib scripts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ray.rllib.callbacks.callbacks import RLlibCallback

from mosaic.core.errors import InputError
from mosaic.telemetry.events.lines import emit_metric
from mosaic.workers.script.callbacks.tune import result_fields
from mosaic.workers.script.checkpoints import CHECKPOINT_DIR, emit_checkpoint

_FOLDER = "rllib"


class MosaicRllibCallback(RLlibCallback):
    """Callback that reports every `Algorithm.train()` to Mosaic's worker `script`; without that worker it does nothing.

    Pass the class to `config.callbacks(MosaicRllibCallback)`. To save checkpoints from which
    the script can resume (`algorithm.restore_from_path(os.environ["MOSAIC_RESUME_FROM"] + "/rllib")`), pass a class
    derived from it that sets `checkpoint_every`.
    """

    checkpoint_every: int | None = None

    def on_train_result(
        self, *, algorithm: Any, metrics_logger: Any = None, result: dict[str, Any], **kwargs: Any
    ) -> None:
        fields = result_fields(result)
        emit_metric(**fields)
        if self.checkpoint_every is None:
            return
        if self.checkpoint_every < 1:
            raise InputError(f"checkpoint_every is {self.checkpoint_every}; it is at least 1, or None.")
        folder = os.environ.get(CHECKPOINT_DIR)
        if folder and fields.get("training_iteration", 0) % self.checkpoint_every == 0:
            algorithm.save_to_path(str(Path(folder, _FOLDER).absolute()))
            emit_checkpoint(
                env_steps=fields.get("env_steps", 0), reward=fields.get("episode_reward_mean"), files=[_FOLDER]
            )
