"""Whether a checkpoint may be loaded in a way that can run code."""

from __future__ import annotations

import os

from mosaic.store.checkpoint_record import Checkpoint
from mosaic.store.errors import TrustError
from mosaic.store.home import Store

VARIABLE = "MOSAIC_TRUST"  # how `--trust` reaches the processes that load policies


def trust_given() -> bool:
    """Whether the user said `--trust`, to this process or to the one that started it."""
    return os.environ.get(VARIABLE) == "1"


def require_trust_to_go_on(checkpoint: Checkpoint) -> None:
    """Of a worker that unpickles to go on: by itself before it does, and by whoever is about to start it."""
    require_trust(checkpoint, trust_given(), f"type: mosaic runs resume {checkpoint.run.run_id} --trust")


def require_trust(checkpoint: Checkpoint, trust: bool, advice: str = f"add --trust (or set {VARIABLE}=1)") -> None:
    """To be called before anything is unpickled: a pickle runs whatever code its writer put in."""
    if trust or checkpoint.trusted(Store(checkpoint.run.home)):
        return
    run = checkpoint.run
    why = "it was imported" if run.is_imported() else "no run of this store wrote it as it is now"
    raise TrustError(
        f"The checkpoint of run '{run.run_id}' at {checkpoint.env_steps} env steps holds pickles, which run code when "
        f"they are loaded, and {why}. If you trust whoever made it, {advice}."
    )
