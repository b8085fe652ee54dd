"""`mosaic exports --server`: the exports of another machine listed, shown, cancelled, downloaded and deleted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest
from fastapi.testclient import TestClient

from mosaic.config.export import ExportRequest
from mosaic.runs.exporting import jobs
from mosaic.runs.exporting.jobs import ExportJobs
from mosaic.runs.exporting.record import ExportRow
from mosaic.server.app import create_app
from mosaic.server.auth.hosts import allowed_hosts
from mosaic.server.auth.token import ensure_token
from mosaic.server.client.exports import RemoteExports
from mosaic.server.context import ServerSettings
from mosaic.store.store import Store
from mosaic.ui.cli.main import main

URL = "http://127.0.0.1:8642"
Said: TypeAlias = Callable[..., str]


@pytest.fixture
def done(here: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> ExportRow:
    """An export in the store of a server; commands without --server look into an empty one."""
    row = ExportJobs().start(ExportRequest(run="hands"))
    app = create_app(home, ServerSettings(start_queued=False, hosts=allowed_hosts()))

    def client(*, base_url: str, headers: dict[str, str], **_: Any) -> TestClient:
        return TestClient(app, base_url=base_url, headers=headers)

    monkeypatch.setattr(httpx, "Client", client)
    monkeypatch.setenv("MOSAIC_TOKEN", ensure_token(home))
    monkeypatch.setenv("MOSAIC_HOME", str(here / "own"))
    return row


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def ask(*words: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["exports", *words])
        answer = capsys.readouterr()
        assert ended.value.code == code, answer.err
        return answer.err if code else answer.out

    return ask


def test_the_history_of_a_server(done: ExportRow, said: Said, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(said("list", "--json")) == []
    there = json.loads(said("list", "--run", "hands", "--server", URL, "--json"))
    assert there[0] == done.model_dump(mode="json")
    assert "100.00%" in said("show", done.export_id, "--server", URL)
    assert "policy 2 of 2, 'player_1': comparing" in said("log", "latest", "--follow", "--server", URL)
    assert f"{done.export_id} is finished." in said("cancel", done.export_id, "--server", URL)
    assert "There is no export named 'nope'" in said("show", "nope", "--server", URL, code=2)
    monkeypatch.setattr(jobs, "start_attempt", lambda *_, **__: None)
    waiting = ExportJobs(Store(home)).start(ExportRequest(run="lake")).export_id
    assert f"{waiting} is stopped." in said("cancel", waiting, "--server", URL)
    assert "is stopped: it has no files" in said("download", waiting, "--server", URL, code=2)
    assert f"{waiting} is deleted." in said("delete", waiting, "--server", URL)
    assert waiting not in [row.export_id for row in ExportJobs(Store(home)).rows()]


def test_files_of_a_server_are_downloaded_whole_or_not_at_all(
    done: ExportRow, said: Said, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sorted(each.name for each in done.written)
    told = said("download", "latest", "--out", "a/b", "--server", URL).splitlines()
    assert sorted(told) == [str(here / "a" / "b" / name) for name in names]
    for each in done.written:
        assert Path("a/b", each.name).read_bytes() == Path(each.path).read_bytes()
    assert "exists. Name a new folder" in said("download", "latest", "--out", "a/b", "--server", URL, code=2)
    assert json.loads(said("download", "latest", "--server", URL, "--json"))["export_id"] == done.export_id
    assert sorted(os.listdir(done.export_id)) == names

    monkeypatch.setattr(RemoteExports, "download", lambda self, reference, name, to: to.write_bytes(b"other"))
    assert "its hash differs" in said("download", "latest", "--out", "c", "--server", URL, code=2)
    outside = done.model_copy(update={"written": (done.written[0].model_copy(update={"name": "../evil"}),)})
    monkeypatch.setattr(RemoteExports, "row", lambda self, reference: outside)
    assert "'../evil' is not the name of a file" in said("download", "latest", "--out", "c", "--server", URL, code=2)
    assert set(os.listdir()) == {"a", done.export_id}
