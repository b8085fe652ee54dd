"""State of an RLlib run in a checkpoint, to resume from."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mosaic.core.errors import InputError
from mosaic.workers.rllib.reporting.metrics import RllibProgress

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

    from mosaic.workers.rllib.self_play import LeagueManager

RLLIB = "rllib"  # RLlib's own checkpoint, which contains pickles: needed only to resume
PROGRESS = "progress.json"  # counters, and the episodes that the mean return is taken over
LEAGUE = "league.safetensors"
_RENAMED = re.compile(r"Can't get attribute '(?P<name>[^']+)' on <module '(?P<module>mosaic(\.\w+)*)'")


def save_state(folder: Path, algo: Algorithm, progress: RllibProgress, self_play: LeagueManager | None) -> None:
    """Write the state of an algorithm and its run. RLlib takes absolute paths only."""
    from safetensors.numpy import save_file

    algo.save_to_path((folder / RLLIB).absolute())
    (folder / PROGRESS).write_text(json.dumps(progress.to_json()))
    if self_play is not None:
        arrays = {name: np.ascontiguousarray(array) for name, array in self_play.state().items()}
        save_file(arrays, folder / LEAGUE)


def load_state(folder: Path, algo: Algorithm, self_play: LeagueManager | None) -> RllibProgress:
    """Restore the state into a newly built algorithm, with its current number of runners and learners.

    The envs' states are lost: they begin new episodes.
    """
    from safetensors.numpy import load_file

    try:
        algo.restore_from_path((folder / RLLIB).absolute())  # type: ignore[no-untyped-call]
    except (ModuleNotFoundError, AttributeError) as error:
        missing = _missing_code(error)
        if missing is None:
            raise
        raise InputError(
            f"{folder.name} was saved by an older version of Mosaic, whose {missing}. Its policies "
            "play, but it cannot be resumed. Start a new run, for example with the same configuration file."
        ) from error
    _send_weights(algo)
    progress = load_progress(folder)
    if algo.learner_group is not None:
        algo.learner_group.foreach_learner(partial(_set_rates, env_steps=progress.env_steps))
    if self_play is not None:
        self_play.restore(algo, load_file(folder / LEAGUE), progress.env_steps)
    return progress


def _send_weights(algo: Algorithm) -> None:
    """Give env runners the learner's weights: RLlib leaves remote ones with those that they were created with."""
    group, learners = algo.env_runner_group, algo.learner_group
    if group is None or learners is None:
        return
    state: Any = learners.get_state(components="learner/rl_module", inference_only=True)
    group.foreach_env_runner(partial(_take_weights, weights=state["learner"]["rl_module"]))


def _take_weights(runner: Any, weights: Any) -> None:
    runner.set_state({"rl_module": weights})  # without a sequence number they are taken in any case


def _set_rates(learner: Any, env_steps: int) -> None:
    """Set the configured learning rates, which may have changed: those of the checkpoint came with its optimizers."""
    for optimizer, schedule in learner._optimizer_lr_schedules.items():
        learner._set_optimizer_lr(optimizer, lr=schedule.update(timestep=env_steps))


def load_progress(folder: Path) -> RllibProgress:
    return RllibProgress.from_json(json.loads((folder / PROGRESS).read_text()))


def _missing_code(error: ModuleNotFoundError | AttributeError) -> str | None:
    """Return what a pickle names that Mosaic does not have any more; None for any other error."""
    if isinstance(error, ModuleNotFoundError):
        is_ours = (error.name or "").partition(".")[0] == "mosaic"
        return f"module {error.name} has moved" if is_ours else None
    found = _RENAMED.match(str(error))  # pickle gives the names in the message only
    return f"class {found['module']}.{found['name']} was renamed" if found else None
