"""Saved matches: what a server needs to continue its matches after a restart.

A match is restored when it is first asked for: its env is made again, and the recorded steps of the current episode are
taken as they were. The file goes with the match.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from mosaic.core.episode import Episode
from mosaic.core.errors import FormatError, MosaicError
from mosaic.core.files import write_atomic
from mosaic.core.ids import AgentID, PolicyID
from mosaic.runners.record import episode_from_json
from mosaic.server.auth.match_keys import MatchKeys
from mosaic.server.play.messages import MatchRequest
from mosaic.store.atomic import private_folder

STOPPED = "the server was stopped."  # a match that ends for this reason stays saved
KEPT_S = 7 * 86400.0  # a saved match that no viewer asked for is deleted after this long
_END = ".match.json"
_log = logging.getLogger(__name__)


class SavedMatch(BaseModel):
    """Contents of the file."""

    model_config = ConfigDict(extra="forbid")

    match_id: str
    request: MatchRequest
    policies: dict[AgentID, PolicyID]  # that act now
    number: int  # of the current episode
    left_s: dict[AgentID, float] = {}  # on the clocks of the sides
    keys: MatchKeys  # of its owner and its players
    reproducible: bool  # whether the env's seed brings the same position again
    episode: dict[str, JsonValue]

    def opening(self) -> Episode:
        return episode_from_json(self.episode)


class SavedMatches:
    """Files of a server's matches."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "matches"

    def save(self, match: SavedMatch) -> None:
        """Write the file; a full disk does not prevent playing."""
        try:
            private_folder(self._folder.parent)
            private_folder(self._folder)
            write_atomic(self._path(match.match_id), match.model_dump_json(), mode=0o600)
        except OSError as error:
            _log.warning("Match %s cannot be saved: %s", match.match_id, error)

    def find(self, match_id: str) -> SavedMatch | None:
        """Look the id up among the files that exist; it is never joined to a path."""
        path = self._files().get(match_id)
        if path is None:
            return None
        try:
            return SavedMatch.model_validate(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, ValidationError) as error:
            raise FormatError(
                f"Match {match_id} cannot be restored: its file {path.name} is damaged: {error}"
            ) from error

    def remove(self, match_id: str) -> None:
        path = self._files().get(match_id)
        if path is not None:
            path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete the files that no viewer has asked for in a long time."""
        for path in self._files().values():
            if time.time() - path.stat().st_mtime > KEPT_S:
                path.unlink(missing_ok=True)

    def _files(self) -> dict[str, Path]:
        found = self._folder.glob(f"*{_END}") if self._folder.is_dir() else ()
        return {path.name.removesuffix(_END): path for path in found}

    def _path(self, match_id: str) -> Path:
        return self._folder / f"{match_id}{_END}"


class CannotRestoreError(MosaicError):
    """Error for a match that cannot be continued after a restart of the server, with the reason."""
