"""Where the finished games of a tournament are kept, so that a stopped one goes on."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from mosaic.core.errors import FormatError, InputError
from mosaic.evaluation.schedule import Match, MatchResult

FORMAT, VERSION = "mosaic.tournament", 1


class MatchStore:
    """A file of JSON lines: what is played, then one line per finished game. Only the last line may be torn."""

    def __init__(self, file: IO[bytes], finished: Mapping[Match, MatchResult]) -> None:
        self.finished = finished
        self._file = file

    def add(self, result: MatchResult) -> None:
        self._file.write(_line(result.to_json()))  # unbuffered: it is in the system's hands before the next game


@contextmanager
def opened(path: Path, conditions: Mapping[str, Any], seeds: Mapping[Match, int]) -> Iterator[MatchStore]:
    """The store of the tournament with exactly these conditions and games, made if it is not there."""
    with _file(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"Another process plays the tournament in '{path}' right now.") from error
        file.seek(0)
        data = file.read()
        header = _line({"format": FORMAT, "version": VERSION, **conditions})
        if header.startswith(data):  # new, or torn within its first line
            file.truncate(0)
            file.write(header)
            yield MatchStore(file, {})
            return
        _check_header(path, data.partition(b"\n")[0], json.loads(header))
        finished, whole = _read(path, data, seeds)
        if whole < len(data):
            file.truncate(whole)
        elif not data.endswith(b"\n"):
            file.write(b"\n")
        yield MatchStore(file, finished)


def _file(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+b", buffering=0)
    except OSError as error:
        raise InputError(f"The tournament's store '{path}' cannot be opened: {error.strerror}.") from error


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _check_header(path: Path, line: bytes, ours: Mapping[str, Any]) -> None:
    theirs = _parsed(line)
    if not isinstance(theirs, dict) or theirs.get("format") != FORMAT:
        raise FormatError(f"'{path}' is not the store of a tournament; it is left as it is. Name another file.")
    for key, value in ours.items():
        if theirs.get(key) != value:
            raise InputError(
                f"'{path}' holds another tournament: its {key} is {json.dumps(theirs.get(key))}, "
                f"this one's is {json.dumps(value)}. Name another file, or ask for the same tournament to continue it."
            )


def _read(path: Path, data: bytes, seeds: Mapping[Match, int]) -> tuple[dict[Match, MatchResult], int]:
    """The finished games, and how many bytes of the data are whole lines."""
    finished: dict[Match, MatchResult] = {}
    lines = data.splitlines(keepends=True)
    whole = len(lines[0])
    for number, line in enumerate(lines[1:], start=2):
        values = _parsed(line)
        if values is None and number == len(lines) and not line.endswith(b"\n"):
            break  # torn: its game is played again
        try:
            result = MatchResult.from_json(values)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"Line {number} of '{path}' is damaged: {error!r}.") from error
        if seeds.get(result.match) != result.seed or result.match in finished:
            raise FormatError(f"Line {number} of '{path}' repeats a game or names one that is not played here.")
        finished[result.match] = result
        whole += len(line)
    return finished, whole


def _parsed(line: bytes) -> Any:
    """None where the line is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
