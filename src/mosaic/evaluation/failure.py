"""How an error of one process is raised in another, with its class and its text."""

from __future__ import annotations

import pickle
import traceback

from mosaic.core.errors import MosaicError


class WorkerError(MosaicError):
    """A process that played games failed in a way that only its own process can name."""


def portable(error: Exception) -> Exception:
    """The error itself, or a stand-in where it would not survive the journey.

    Errors that we cannot explain take the traceback of their own process along as a note.
    """
    if not isinstance(error, MosaicError):
        lines = "".join(traceback.format_exception(error))
        error.add_note(f"In the process that played the episode:\n{lines}")
    if _survives(error):
        return error
    substitute = WorkerError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        substitute.add_note(note)
    return substitute


def _survives(error: Exception) -> bool:
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - foreign classes may fail in any way here; all that matters is that they did
        return False
    return type(copy) is type(error) and str(copy) == str(error)
