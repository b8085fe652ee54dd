"""A trial as Ray Tune sees it: a thin actor that follows a run, which lives in processes of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray.tune import Trainable

from mosaic.runs.trainer import Trainer
from mosaic.runs.tuning.folder import SearchFolder
from mosaic.runs.tuning.ray_env import return_to
from mosaic.runs.tuning.trial import TrialRuns

SCORE, STEPS, RUN, ENDED = "score", "env_steps", "run_id", "ended"  # what is reported to Ray Tune
FOLDER, OPTIONS = "folder", "options"  # what a trial's configuration holds


def number_of(trial_id: str) -> int:
    """Ray Tune's `3f2a1_00004` is the fifth trial."""
    return int(trial_id.rpartition("_")[2]) + 1


class TrialFollower(Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        folder = SearchFolder(Path(config[FOLDER]))
        self._plan = folder.read_plan()
        self._trainer = Trainer(folder.home)
        self._begin(config)

    def step(self) -> dict[str, Any]:
        report = self._trial.next()
        facts = {SCORE: report.score, STEPS: report.env_steps, RUN: report.run_id}
        return {**facts, ENDED: report.done, "done": report.done}  # a scheduler that stops the trial sets `done` too

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        self._trial.save(Path(checkpoint_dir))

    def load_checkpoint(self, checkpoint: Any) -> None:
        self._trial.restore(Path(checkpoint))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """The actor is used again: for another trial, or for this one with other options."""
        self.cleanup()
        self._begin(new_config)
        return True

    def cleanup(self) -> None:
        self._trial.end(f"the search {self._plan.search_id} has no more use for it")

    def _begin(self, config: dict[str, Any]) -> None:
        return_to(self._plan.working_folder)  # every time: Ray Tune moves an actor that it uses again
        self._trial = TrialRuns(self._trainer, self._plan, number_of(self.trial_id), config[OPTIONS])
