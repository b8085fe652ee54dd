"""A new run that goes on where another one's checkpoint was written, with options of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from mosaic.config.run import RunConfig
from mosaic.core.errors import MosaicError
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.archives.trust import require_trust, trust_given
from mosaic.store.checkpoint_record import damage, read_checkpoint
from mosaic.store.checkpoints import write_checkpoint


def fork(trainer: Trainer, config: RunConfig, checkpoint: Path, group: str) -> Run:
    """Made, not started. Counters go on from the checkpoint's; metrics begin with the new run."""
    source = read_checkpoint(checkpoint)
    problem = damage(source)
    if problem:
        raise MosaicError(f"No run can go on from the checkpoint in {checkpoint}: {problem}.")
    if not source.sealed_by(trainer.store):
        require_trust(source, trust_given())  # the copy will bear this store's seal
    run = trainer.submit(config, start=False, group=group)
    manifest = source.manifest

    def copy(folder: Path) -> None:
        for name in manifest.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(checkpoint / name, folder / name)

    write_checkpoint(
        run.folder,
        source.env_steps,
        copy,
        seq=0,  # before everything that the new run will say
        policies=manifest.policies,
        worker=manifest.worker,
        environment=manifest.environment,
        spaces=manifest.spaces,
        seed=manifest.seed,
        reward=manifest.reward,
        rating=manifest.rating,
        best_by=manifest.best_by,
        versions=manifest.versions,
        pickles=manifest.pickles,
    )
    return run
