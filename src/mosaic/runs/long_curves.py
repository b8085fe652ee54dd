"""How the curves of a long run are made ready when it ends, so that whoever opens it first does not wait for them."""

from __future__ import annotations

from mosaic.store.run_folder import RunFolder

LONG_BYTES = 2 << 20  # of events; fewer are read while a page opens


def prepare_curves(folder: RunFolder) -> bool:
    """Whether there was anything to prepare."""
    try:
        long = folder.metrics.stat().st_size >= LONG_BYTES
    except FileNotFoundError:
        return False
    if long:
        from mosaic.telemetry.curves.curves import Curves  # here: a supervisor is small, and most runs are short

        Curves(folder.path).catch_up()
    return long
