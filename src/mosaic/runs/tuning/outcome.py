"""What a search leaves: the best configuration as a file, and everything about its trials."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mosaic.config.loading import dump_run_config
from mosaic.config.toml import write_toml
from mosaic.runs.trainer import Trainer
from mosaic.runs.tuning.folder import SearchFolder
from mosaic.runs.tuning.plan import SearchPlan
from mosaic.runs.tuning.standing import Standing, best_of
from mosaic.store.atomic import write_atomic

_OF_THE_RUN = ("run_id", "name", "tags")


def write_outcome(folder: SearchFolder, plan: SearchPlan, standings: Sequence[Standing]) -> dict[str, Any]:
    """The document that `mosaic tune --json` prints."""
    metric, mode = plan.settings.metric, plan.settings.mode
    best = best_of(standings, mode)
    document = {
        "search_id": plan.search_id,
        "env": plan.config.environment.id,
        "worker": plan.config.training.worker,
        "algorithm": plan.config.training.algorithm,
        "scheduler": plan.settings.scheduler,
        "metric": metric,
        "mode": mode,
        "trials": [standing.document(metric) for standing in standings],
        "best": None if best is None else {**best.document(metric), "config": str(folder.best)},
    }
    if best is not None and best.run_id is not None:
        write_atomic(folder.best, _best_config(folder, best.run_id, metric, best.score))
    write_atomic(folder.result, json.dumps(document, indent=1) + "\n")
    return document


def _best_config(folder: SearchFolder, run_id: str, metric: str, score: float | None) -> str:
    config = dump_run_config(Trainer(folder.home).run(run_id).config)
    kept = {key: value for key, value in config.items() if key not in _OF_THE_RUN}
    kept["training"]["preset"] = False  # its options are already here
    return f"# {metric} {score:.6g} in the run {run_id}\n{write_toml(kept)}"
