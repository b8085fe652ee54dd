"""Matches of the terminal app: each in a process of this machine, or on a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.core.ids import Json
from mosaic.server.client.matches import MatchLink, ProcessMatch, ServerMatch, open_on_server

if TYPE_CHECKING:
    from mosaic.server.client.client import Client
    from mosaic.store.views import LiveRow
    from mosaic.telemetry.frames.reader import Pictures

_MATCH = "match"  # kind of session


class LocalMatches:
    """Matches of this machine. An env that fails or prints cannot harm the app, as it has a process of its own."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def open(self, request: Mapping[str, Json]) -> MatchLink:
        return ProcessMatch(request)

    def sessions(self) -> list[LiveRow]:
        from mosaic.store.views import live_rows

        return [row for row in live_rows(self._home) if row.kind != "run"]

    def join(self, session_id: str) -> MatchLink | None:
        return None

    def pictures(self, session_id: str, rate_hz: float) -> Pictures:
        from mosaic.store.live_sessions import SessionPictures, find_session
        from mosaic.telemetry.frames.requests import FrameRequest

        return SessionPictures(find_session(self._home, session_id), FrameRequest(rate_hz))


class RemoteMatches:
    def __init__(self, client: Client) -> None:
        self._client = client

    def open(self, request: Mapping[str, Json]) -> MatchLink:
        return open_on_server(self._client, request)

    def sessions(self) -> list[LiveRow]:
        return [row for row in self._client.sessions() if row.kind != "run"]

    def join(self, session_id: str) -> MatchLink | None:
        row = next((row for row in self._client.sessions() if row.id == session_id), None)
        return ServerMatch(self._client, session_id) if row is None or row.kind == _MATCH else None

    def pictures(self, session_id: str, rate_hz: float) -> Pictures:
        from mosaic.telemetry.frames.requests import FrameRequest

        return self._client.session(session_id).pictures(FrameRequest(rate_hz))
