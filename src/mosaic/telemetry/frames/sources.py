"""Sources of a run's pictures where it has several: each env runner on this machine, and the evaluation.

A source is a folder in the run's folder, which exists while it can be watched. Its ring is created when a viewer asks.
"""

from __future__ import annotations

import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final

from mosaic.core.errors import unknown
from mosaic.telemetry.frames.paths import forget_request, remove_ring, request_pictures

_FOLDER = ".pictures"  # not exported
_RUNNER = "env-runner-"
EVALUATION: Final = "evaluation"
_WAIT_S = 2.0  # for so long a viewer counts that waits for a source
SOURCE_PATTERN: Final = rf"^({_RUNNER}[1-9][0-9]{{0,5}}|{EVALUATION})$"


def runner_source(number: int) -> str:
    """Return the source of an env runner, counted from 1."""
    return f"{_RUNNER}{number}"


def title(source: str) -> str:
    """Return the name of a source for people: `env runner 2`."""
    return source.replace("-", " ")


def source_folder(run_folder: Path, source: str) -> Path:
    return run_folder / _FOLDER / source


def announce_source(run_folder: Path, source: str) -> Path:
    """Offer a source to viewers and return its folder, without the ring of a killed predecessor and requests to it.

    A viewer that waits for it counts as a request, so that a source of a fraction of a second shows something too.
    """
    folder = source_folder(run_folder, source)
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    remove_ring(folder)
    forget_request(folder)
    with suppress(FileNotFoundError):
        if time() - _waiting(folder).stat().st_mtime < _WAIT_S:
            request_pictures(folder)
    return folder


def wait_for_source(run_folder: Path, source: str) -> None:
    """Leave word that a viewer waits for a source that is not there yet; repeat it while waiting."""
    with suppress(FileNotFoundError, NotADirectoryError):  # a run without sources, so far
        _waiting(source_folder(run_folder, source)).touch()


def _waiting(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}")


def withdraw_source(folder: Path) -> None:
    """Remove a source from the list, with its ring; idempotent."""
    remove_ring(folder)
    gone = folder.with_name(f".gone-{secrets.token_hex(4)}")
    with suppress(FileNotFoundError, NotADirectoryError):
        folder.rename(gone)  # at once: a viewer may leave its request while the files in it are removed
        shutil.rmtree(gone)


def remove_rings(run_folder: Path) -> None:
    """Remove all rings that the dead writers of a run left, those of its sources too; idempotent."""
    remove_ring(run_folder)
    folder = run_folder / _FOLDER
    if folder.is_symlink():  # an imported run may contain anything
        folder.unlink()
        return
    with suppress(FileNotFoundError, NotADirectoryError):
        for each in folder.iterdir():
            withdraw_source(each)
        shutil.rmtree(folder, ignore_errors=True)


def has_sources(run_folder: Path) -> bool:
    """Return whether the run shows its pictures by source, from its first source to its end."""
    return (run_folder / _FOLDER).is_dir()


def list_sources(run_folder: Path) -> tuple[str, ...]:
    """Return the sources that can be watched now: env runners in their order, then the evaluation."""
    try:
        names = [each.name for each in (run_folder / _FOLDER).iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    known = [name for name in names if re.match(SOURCE_PATTERN, name)]
    runners = sorted(int(name.removeprefix(_RUNNER)) for name in known if name != EVALUATION)
    return (*map(runner_source, runners), *(name for name in known if name == EVALUATION))


def usual_source(run_folder: Path) -> str | None:
    """Return the source to show if none was chosen: an evaluation while it lasts, else the first env runner."""
    sources = list_sources(run_folder)
    return None if not sources else sources[-1] if sources[-1] == EVALUATION else sources[0]


def parse_source(text: str, known: tuple[str, ...]) -> str:
    """Return the source that was typed, as `env-runner-2`, `env runner 2` or `2`."""
    name = runner_source(int(text)) if text.isdecimal() else text.strip().replace(" ", "-")
    if not re.match(SOURCE_PATTERN, name) or (known and name not in (*known, EVALUATION)):
        raise unknown("source of pictures", text, {*(known or (runner_source(1),)), EVALUATION})
    return name
