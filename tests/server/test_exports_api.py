"""Exports over HTTP: started, listed, cancelled, downloaded; nothing is written to a place that a request names."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mosaic.config.export import ExportRequest
from mosaic.core.errors import UnknownNameError
from mosaic.runs.exporting import jobs
from mosaic.server.client.client import Client
from mosaic.server.client.exports import RemoteExports
from mosaic.server.routes.exports import MOST_AT_ONCE
from mosaic.store.store import Store
from tests.in_process import attempt_here, trained_here

LAKE = {
    "name": "lake",
    "environment": {"family": "gym", "env_id": "FrozenLake-v1"},
    "training": {"worker": "tabular", "algorithm": "q_learning", "total_timesteps": 300},
}


@pytest.fixture
def lake(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run; exports of it are queued and not started."""
    pytest.importorskip("torch")  # it traces them
    monkeypatch.setattr(jobs, "start_attempt", lambda *_, **__: None)
    return trained_here(home, LAKE).id


def exported(home: Path) -> str:
    """Export in this thread: only a main thread is asked to stop by signals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "start_attempt", attempt_here)
        return jobs.ExportJobs(Store(home)).start(ExportRequest(run="lake")).export_id


def test_an_export_is_started_shown_and_downloaded(api: TestClient, lake: str, home: Path, tmp_path: Path) -> None:
    made = api.post("/exports", json={"run": "lake"})
    assert (made.status_code, made.json()["state"]) == (201, "queued"), made.text
    waiting = made.json()["export_id"]
    assert made.json()["request"]["run"] == lake
    assert api.post(f"/exports/{waiting}/cancel").json()["state"] == "stopped"
    export_id = exported(home)
    assert [row["export_id"] for row in api.get("/exports", params={"run": lake}).json()] == [export_id, waiting]
    shown = api.get(f"/exports/{export_id}").json()
    assert (shown["state"], shown["compared"][0]["passed"]) == ("finished", True)
    assert all(Path(each["path"]).is_relative_to(home / "exports") for each in shown["written"])
    assert "comparing" in api.get(f"/exports/{export_id}/log", params={"after": 0}).json()["text"]
    file = api.get(f"/exports/{export_id}/files/table.onnx")
    assert len(file.content) == shown["written"][0]["size"]
    assert "table.onnx" in file.headers["content-disposition"]
    assert api.post(f"/exports/{export_id}/cancel").json()["state"] == "finished"
    for name in ("..%2Fstate.json", "state.json", "%2Fetc%2Fpasswd", "..%2F..%2F..%2Ftoken"):
        assert api.get(f"/exports/{export_id}/files/{name}").status_code == 404
    assert api.get("/exports/..%2Fruns").status_code == 404
    for method, path in (("GET", "/exports"), ("POST", "/exports"), ("GET", f"/exports/{export_id}/files/table.onnx")):
        assert api.request(method, path, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert api.delete(f"/exports/{export_id}").status_code == 204
    assert api.get(f"/exports/{export_id}").status_code == 404


def test_what_a_request_may_not_ask_for(api: TestClient, lake: str, tmp_path: Path) -> None:
    place = tmp_path / "outside.onnx"
    refused = api.post("/exports", json={"run": "lake", "out": str(place)})
    assert refused.status_code == 403
    assert "mosaic serve --allow-programs" in refused.json()["error"]
    assert not place.exists()
    by_path = api.post("/exports", json={"run": f"checkpoint:{tmp_path}", "environment": "gym/FrozenLake-v1"})
    assert by_path.status_code == 403
    assert "name the run it belongs to" in by_path.json()["error"]
    for body, reason in (
        ({"run": "lake", "target": "onix"}, "Did you mean 'onnx'?"),
        ({"run": "lake", "policies": ["tabel"]}, "Did you mean 'table'?"),
        ({"run": "nope"}, "There is no run"),
        ({"run": "lake", "overwrite": True}, "'overwrite' belongs to a file or folder"),
        ([], "not a JSON object"),
    ):
        answer = api.post("/exports", json=body)
        assert answer.status_code in (400, 404), answer.text
        assert reason in answer.json()["error"]
    assert api.get("/exports").json() == []
    for _ in range(MOST_AT_ONCE):
        assert api.post("/exports", json={"run": "lake"}).status_code == 201
    crowded = api.post("/exports", json={"run": "lake"})
    assert (crowded.status_code, "wait for one, or cancel one" in crowded.text) == (409, True)
    assert {"run", "target", "checkpoint", "policies"} <= set(api.get("/schemas/export").json()["properties"])


def test_the_client_has_the_verbs_of_a_store(
    api: TestClient, lake: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client("http://127.0.0.1:8642", home=home) as client:
        monkeypatch.setattr(client, "_http", api)
        there, here = RemoteExports(client), jobs.ExportJobs(Store(home))
        waiting = there.start(ExportRequest(run="lake", target="torchscript", tolerance=0.01))
        assert waiting.state == "queued"
        assert (waiting.request.run, waiting.request.target, waiting.request.tolerance) == (lake, "torchscript", 0.01)
        assert there.cancel(waiting.export_id).state == "stopped"
        export_id = exported(home)
        assert there.rows() == there.rows("lake") == here.rows()
        assert [row.state for row in there.follow(export_id)] == ["finished"]
        assert there.row("latest").compared[0].passed
        assert there.log(export_id, after=0) == here.log(export_id, after=0)
        there.download(export_id, "table.onnx", tmp_path / "there.onnx")
        here.download(export_id, "table.onnx", tmp_path / "here.onnx")
        assert (tmp_path / "there.onnx").read_bytes() == (tmp_path / "here.onnx").read_bytes() != b""
        assert there.delete(export_id) == export_id
        assert here.rows() == [there.row(waiting.export_id)]
        with pytest.raises(UnknownNameError, match="There is no export"):
            there.row(export_id)
