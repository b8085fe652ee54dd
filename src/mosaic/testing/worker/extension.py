"""Check that a finished run is extended: it continues from its last checkpoint to a higher limit."""

from __future__ import annotations

from mosaic.core.errors import InputError
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.curve import Values, difference
from mosaic.testing.worker.rehearsal import ContractProof, Rehearsal

_PROMISE = "a finished run continues to a higher limit, and its curve with it"
_SHARE = 4  # of its length by which the run is extended


def check_extension(setup: ContractSetup, finished: Rehearsal, curve: list[Values]) -> list[ContractProof]:
    """Extend the finished run; one with neither a limit of env steps nor of episodes is left as it is."""
    training, run = setup.config.training, finished.run
    if not setup.info.resume or not setup.config.checkpoint.at_end:
        return []
    if training.total_timesteps is not None:
        name, limit = "total_timesteps", training.total_timesteps
    elif training.episodes is not None:
        name, limit = "episodes", training.episodes
    else:
        return []
    reached = finished.last_steps()
    for refused in (limit, max(1, limit // 2)):
        _check_refused(finished, f"training.{name}={refused}")
    further = max(limit, reached if name == "total_timesteps" else limit)
    run.resume(settings=[f"training.{name}={further + max(1, further // _SHARE)}"])
    whole = finished.finish("extension")
    if finished.last_steps() <= reached:
        raise finished.broken(
            "extension", f"extended at {reached} env steps, it took none", _PROMISE, "compare limits with the totals"
        )
    different = difference(curve, whole[: len(curve)])
    if different:
        raise finished.broken(
            "extension", f"the curve before the extension changed: {different}", _PROMISE, "append events only"
        )
    saved = max(each.env_steps for each in run.checkpoints())
    return [ContractProof("extension", f"from {reached} to {finished.last_steps()} env steps, saved at {saved}")]


def _check_refused(finished: Rehearsal, setting: str) -> None:
    try:
        finished.run.resume(settings=[setting])
    except InputError:
        return
    raise finished.broken(
        "extension",
        f"a finished run was resumed with {setting}, which it has reached",
        "a limit that is reached is refused",
        "tell Mosaic's authors: this is their mistake",
    )
