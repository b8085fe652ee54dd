"""Connections of a viewer to a replay: one in a process of this machine, or one on a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from pydantic import TypeAdapter

from mosaic.core.errors import InputError
from mosaic.core.ids import Json, JsonObject
from mosaic.server.client.matches import PLAY_ON, REPLAY, MatchLink, ProcessMatch, open_on_server
from mosaic.server.play.replay_views import ReplayAsked, ReplayRow, ReportRow

if TYPE_CHECKING:
    from mosaic.server.client.client import Client

_REPORTS = TypeAdapter(list[ReportRow])


class ReplayLink(Protocol):
    """Connection to a replay; one request at a time."""

    def show(self) -> ReplayRow: ...

    def reports(self) -> list[ReportRow]: ...

    def picture(self, step: int) -> bytes:
        """Wait until the replay has reached the step, and return its picture as a file."""
        ...

    def play_on(self, step: int, agents: Mapping[str, str]) -> MatchLink:
        """Open a match that begins with the first steps of the episode, and join it."""
        ...

    def close(self) -> None: ...


class ProcessReplay:
    """Replay in a new process, which ends with this connection: an env that prints or fails cannot harm the viewer."""

    def __init__(self, asked: ReplayAsked) -> None:
        self._asked: JsonObject = asked.model_dump(mode="json", exclude_none=True)
        self._link = ProcessMatch(self._asked, REPLAY)

    def show(self) -> ReplayRow:
        return ReplayRow.model_validate_json(self._ask("show"))

    def reports(self) -> list[ReportRow]:
        return _REPORTS.validate_json(self._ask("reports"))

    def picture(self, step: int) -> bytes:
        found = self._ask("picture", step=step)
        if isinstance(found, str):
            raise InputError(str(json.loads(found)["error"]))
        return found

    def play_on(self, step: int, agents: Mapping[str, str]) -> MatchLink:
        """Play in another process; a failure to begin is raised when its first message is awaited."""
        return ProcessMatch({"replay": self._asked, "step": step, "agents": dict[str, Json](agents)}, PLAY_ON)

    def close(self) -> None:
        self._link.close()

    def _ask(self, kind: str, **parts: Json) -> str | bytes:
        self._link.send({"type": kind, **parts})
        return self._link.receive()


class ServerReplay:
    """Replay on a server, which forgets it some time after the last request."""

    def __init__(self, client: Client, asked: ReplayAsked) -> None:
        body = asked.model_dump(mode="json", exclude_none=True)
        self._client = client
        self._path = f"/replays/{client.ask(ReplayRow, 'POST', '/replays', json=body).replay_id}"

    def show(self) -> ReplayRow:
        return self._client.ask(ReplayRow, "GET", self._path)

    def reports(self) -> list[ReportRow]:
        return _REPORTS.validate_json(self._client.send("GET", f"{self._path}/reports").content)

    def picture(self, step: int) -> bytes:
        return self._client.send("GET", f"{self._path}/pictures/{step}").content

    def play_on(self, step: int, agents: Mapping[str, str]) -> MatchLink:
        return open_on_server(self._client, {"step": step, "agents": dict[str, Json](agents)}, f"{self._path}/matches")

    def close(self) -> None:
        """Leave it: it has no other viewer to end it for."""
