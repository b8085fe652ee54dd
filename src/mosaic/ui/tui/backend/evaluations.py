"""Evaluations and tournaments for the terminal app: played by this machine, or by a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from mosaic.core.ids import Json
from mosaic.server.auth.programs import ProgramRule
from mosaic.server.evaluations.job import ExaminationRow
from mosaic.server.evaluations.jobs import EvaluationJobs
from mosaic.server.evaluations.request import MODELS, Kind, parse_request

if TYPE_CHECKING:
    from mosaic.server.client.client import Client

_ROWS = TypeAdapter(list[ExaminationRow])


class LocalEvaluations:
    """Each has a process of its own, which ends with the app; results are kept in the store."""

    def __init__(self, home: Path) -> None:
        self._jobs = EvaluationJobs(home, ProgramRule(home, allowed=True))

    def begin(self, kind: Kind, request: Mapping[str, Json]) -> ExaminationRow:
        return self._jobs.begin(kind, parse_request(kind, request))

    def row(self, kind: Kind, examination_id: str) -> ExaminationRow:
        return self._jobs.row(examination_id)

    def rows(self) -> list[ExaminationRow]:
        return self._jobs.rows()

    def stop(self, kind: Kind, examination_id: str) -> ExaminationRow:
        return self._jobs.stop(examination_id)


class RemoteEvaluations:
    def __init__(self, client: Client) -> None:
        self._client = client

    def begin(self, kind: Kind, request: Mapping[str, Json]) -> ExaminationRow:
        return self._client.ask(ExaminationRow, "POST", f"/{kind}", json=dict(request))

    def row(self, kind: Kind, examination_id: str) -> ExaminationRow:
        return self._client.ask(ExaminationRow, "GET", f"/{kind}/{examination_id}")

    def rows(self) -> list[ExaminationRow]:
        """Return all, newest first."""
        found = [row for kind in MODELS for row in _ROWS.validate_json(self._client.send("GET", f"/{kind}").content)]
        return sorted(found, key=lambda row: row.started, reverse=True)

    def stop(self, kind: Kind, examination_id: str) -> ExaminationRow:
        return self._client.ask(ExaminationRow, "POST", f"/{kind}/{examination_id}/stop")
