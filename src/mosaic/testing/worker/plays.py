"""Whether what a worker saves can play."""

from __future__ import annotations

from mosaic.evaluation.evaluate import evaluate
from mosaic.store.checkpoints import find_checkpoint
from mosaic.testing.worker.promises import Proof
from mosaic.testing.worker.rehearsal import Rehearsal
from mosaic.testing.worker.stage import Stage
from mosaic.workers.api import MakesPolicies

_MAX_STEPS = 200


def check_plays(stage: Stage, rehearsal: Rehearsal) -> list[Proof]:
    if not isinstance(stage.worker, MakesPolicies):
        return []
    policy = f"run:{rehearsal.run.id}"
    if not find_checkpoint(rehearsal.run.folder).manifest.policies:
        raise rehearsal.broken(
            "run: policies",
            "its checkpoint names no policies",
            "a worker with controller(…) saves policies that play",
            "give context.checkpoint(…, policies={NAME: PolicyEntry(…)})",
        )
    try:
        played = evaluate(stage.config.environment, {"*": policy}, episodes=1, max_steps=_MAX_STEPS)
    except Exception as error:
        raise rehearsal.broken(
            "run: policies",
            f"{policy} cannot play {stage.config.environment.id}: {type(error).__name__}: {error}",
            "a worker with controller(…) makes policies that play in the env they were trained in",
            "follow the traceback of the cause",
        ) from error
    return [Proof("run: policies", f"{policy} played {played.env_steps} env steps")]
