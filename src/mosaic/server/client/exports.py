"""Exports on a server, with the same verbs as `ExportJobs` for those of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from pydantic import TypeAdapter

from mosaic.config.export import ExportRequest
from mosaic.core.files import write_atomic
from mosaic.runs.exporting.record import ExportRow
from mosaic.server.client.client import Client, Query
from mosaic.store.logs import Stream
from mosaic.store.state import ENDED
from mosaic.store.views import LogPart

_LOOK_EVERY_S = 0.25


class RemoteExports:
    """Exports of one server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def start(self, request: ExportRequest) -> ExportRow:
        """Start an export in the background of the server."""
        document = request.model_dump(mode="json", exclude_defaults=True)
        return self._client.ask(ExportRow, "POST", "/exports", json=document)

    def rows(self, run: str | None = None) -> list[ExportRow]:
        """Return the exports, newest first; with `run`, those of one run."""
        asked: Query = {} if run is None else {"run": run}
        return TypeAdapter(list[ExportRow]).validate_json(self._client.send("GET", "/exports", params=asked).content)

    def row(self, reference: str) -> ExportRow:
        return self._client.ask(ExportRow, "GET", _path(reference))

    def follow(self, reference: str) -> Iterator[ExportRow]:
        """Yield the export now and then, and a last time when it has ended."""
        while True:
            row = self.row(reference)
            yield row
            if row.state in ENDED:
                return
            threading.Event().wait(_LOOK_EVERY_S)

    def cancel(self, reference: str, *, wait: bool = True) -> ExportRow:
        row = self._client.ask(ExportRow, "POST", _path(reference, "cancel"))
        if wait:
            for row in self.follow(reference):  # noqa: B007 - the last one is returned
                pass
        return row

    def delete(self, reference: str) -> str:
        found = self.row(reference).export_id
        self._client.send("DELETE", _path(found))
        return found

    def log(self, reference: str, after: int | None = None, size: int = 65_536, stream: Stream = "stdout") -> LogPart:
        asked: Query = {"size": size, "stream": stream} | ({} if after is None else {"after": after})
        return self._client.ask(LogPart, "GET", _path(reference, "log"), params=asked)

    def download(self, reference: str, name: str, to: Path) -> None:
        """Write a file of the export to a place on this machine."""
        write_atomic(to, self._client.send("GET", _path(reference, "files", name)).content)


def _path(*parts: str) -> str:
    return "/exports/" + "/".join(quote(part, safe="") for part in parts)
