"""Whether a worker meets the resources that it declares, and refuses the others."""

from __future__ import annotations

from typing import Any

from mosaic.core.errors import MosaicError
from mosaic.testing.worker.promises import Proof
from mosaic.testing.worker.stage import Stage
from mosaic.workers.api import ResourceName

NOWHERE = "127.0.0.1:1"  # no cluster listens here
_TOO_MANY_GPUS = 1024
_ASKED: dict[ResourceName, tuple[dict[str, Any], ...]] = {
    "num_envs": ({"num_envs": 2},),
    "num_workers": ({"num_workers": 2},),
    "num_cpus": ({"num_cpus": 2},),
    "num_gpus": ({"num_gpus": 1.0},),
    "runtime": ({"runtime": "parallel"}, {"runtime": "ray"}, {"runtime": "mpi"}),
    "ray_address": ({"ray_address": NOWHERE},),
}
_PROMISE = "resources are met, or refused before there is a run"


def check_resources(stage: Stage) -> list[Proof]:
    declared = stage.info.resources
    for name, settings in _ASKED.items():
        for asked in settings if name not in declared else ():
            section = "environment" if name == "num_envs" else "resources"
            stage.refusal(stage.config, f"resources: {name}", {section: asked}, _PROMISE)
    for asked in ({"num_gpus": float(_TOO_MANY_GPUS)}, {"ray_address": NOWHERE, "runtime": "ray"}):
        stage.refusal(stage.config, "resources", {"resources": asked}, _PROMISE, MosaicError)
    refused = [name for name in _ASKED if name not in declared]
    return [Proof("resources", f"refused: {', '.join(refused) or 'none'}, GPUs and a cluster that are not there")]
