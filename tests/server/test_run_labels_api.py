"""Labels, the queue and archives of runs over HTTP."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

from fastapi.testclient import TestClient

from tests.server.server_kit import toy


def test_labels_are_changed_and_hidden_runs_are_left_out(api: TestClient) -> None:
    run_id = api.post("/runs", json=toy(name="first")).json()["run_id"]
    changed = api.patch(f"/runs/{run_id}", json={"name": "second", "tags": ["x"], "note": "why"}).json()
    assert (changed["name"], changed["tags"], changed["note"]) == ("second", ["x"], "why")
    assert api.get("/runs/second").json()["run_id"] == run_id
    assert api.patch("/runs/second", json={"hidden": True}).json()["note"] == "why"
    assert api.get("/runs").json() == []
    assert [row["name"] for row in api.get("/runs", params={"hidden": True}).json()] == ["second"]


def test_what_is_not_a_label_is_refused(api: TestClient) -> None:
    run_id = api.post("/runs", json=toy()).json()["run_id"]
    for body, words in (
        (b'{"nam": "x"}', "Did you mean 'name'?"),
        (b'{"name": "a/b"}', "without '@' and '/'"),
        (b"[]", "not a JSON object"),
        (b"{", "not a JSON document"),
    ):
        answer = api.patch(f"/runs/{run_id}", content=body)
        assert answer.status_code == 400
        assert words in answer.json()["error"]
    assert api.patch("/runs/nope", json={}).status_code == 404


def test_the_queue_says_who_is_next_and_why(api: TestClient) -> None:
    ids = [api.post("/runs", json=toy(name=name)).json()["run_id"] for name in ("one", "two", "three")]
    assert api.get("/queue").json() == [
        {"run_id": ids[0], "position": 1, "reason": "It starts in a moment."},
        {"run_id": ids[1], "position": 2, "reason": "1 run will start first."},
        {"run_id": ids[2], "position": 3, "reason": "2 runs will start first."},
    ]


def test_a_run_is_downloaded_as_one_file(api: TestClient, home: Path) -> None:
    run_id = api.post("/runs", json=toy()).json()["run_id"]
    answer = api.get(f"/runs/{run_id}/archive")
    assert answer.headers["content-disposition"] == f'attachment; filename="{run_id}.tar.gz"'
    with tarfile.open(fileobj=BytesIO(answer.content)) as archive:
        assert f"{run_id}/config.json" in archive.getnames()
