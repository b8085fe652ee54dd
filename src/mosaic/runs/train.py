"""Training in one call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.ctrl_c import ctrl_c_kept
from mosaic.core.errors import MosaicError
from mosaic.core.ids import EnvID
from mosaic.runs.run import Run
from mosaic.runs.trainer import Asked, Trainer, read_config
from mosaic.store.state import State

_FILES = (".json", ".yaml", ".yml", ".toml")


class RunFailedError(MosaicError):
    """Training ended before it was done, and nobody asked for that."""


def train(
    asked: Asked | EnvID,
    *,
    worker: str | None = None,
    algorithm: str | None = None,
    total_timesteps: int | None = None,
    episodes: int | None = None,
    stop_reward: float | None = None,
    params: Mapping[str, Any] | None = None,
    seed: int | None = None,
    name: str | None = None,
    home: Path | None = None,
) -> Run:
    """Trains until it is done, in an env or as a configuration says; what is given here counts more than that.

    Ctrl-C stops the run and saves; `run.resume()` goes on with it.
    """
    training = {
        "worker": worker,
        "algorithm": algorithm,
        "total_timesteps": total_timesteps,
        "episodes": episodes,
        "stop_reward": stop_reward,
        "params": None if params is None else dict(params),
    }
    config = _with(_config(asked), training, {"seed": seed, "name": name})
    run = Trainer(home).submit(config, start=False)
    try:
        with ctrl_c_kept():
            run.start()
            state = run.wait()
    except KeyboardInterrupt:
        run.stop(reason="Ctrl-C")
        raise
    if state in (State.FAILED, State.LOST):
        raise RunFailedError(f"The run {run.id} {state}: {run.reason or 'see its log'}. Its log: {run.folder.log}")
    return run


def _config(asked: Asked | EnvID) -> RunConfig:
    """A text that does not end like a settings file is an env's id."""
    if isinstance(asked, str) and not asked.lower().endswith(_FILES):
        return parse_run_config({"environment": {"env_id": asked}})
    return read_config(asked)


def _with(config: RunConfig, training: Mapping[str, Any], top: Mapping[str, Any]) -> RunConfig:
    document = dump_run_config(config)
    document["training"] |= {key: value for key, value in training.items() if value is not None}
    return parse_run_config(document | {key: value for key, value in top.items() if value is not None})
