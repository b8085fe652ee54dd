"""What the API answers, and how it says that something is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from mosaic.runs.trainer import Trainer
from mosaic.workers.registry import load_worker, options_schema
from tests.server.server_kit import app_client, eventually, toy


@pytest.fixture
def working(home: Path) -> Iterator[TestClient]:
    with app_client(home, start_queued=True) as client:
        yield client


def test_a_submitted_run_waits_in_the_store(api: TestClient, home: Path) -> None:
    answer = api.post("/runs", json=toy(name="first", tags=["a"]))
    assert answer.status_code == 201
    made = answer.json()
    assert made["state"] == "queued"
    assert made["config"]["training"]["algorithm"] == "walk"
    assert Trainer(home).run("first").id == made["run_id"]
    assert [row["run_id"] for row in api.get("/runs", params={"state": "queued", "tag": "a"}).json()] == [
        made["run_id"]
    ]
    assert api.get("/runs", params={"tag": "b"}).json() == []
    assert api.get("/runs/latest").json() == made


def test_the_same_key_makes_one_run(api: TestClient) -> None:
    key = {"Idempotency-Key": "k1"}
    first, again = api.post("/runs", json=toy(), headers=key), api.post("/runs", json=toy(), headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["run_id"] == again.json()["run_id"]
    other = api.post("/runs", json=toy(seed=7), headers=key)
    assert other.status_code == 409
    assert other.json()["error"].startswith("This Idempotency-Key was used for another configuration.")
    assert api.post("/runs", json=toy(), headers={"Idempotency-Key": "k2"}).json()["run_id"] != first.json()["run_id"]
    assert len(api.get("/runs").json()) == 2


def test_without_a_key_it_is_a_new_run(api: TestClient) -> None:
    ids = {api.post("/runs", json=toy()).json()["run_id"] for _ in range(3)}
    assert len(ids) == 3


def test_a_key_outlives_the_server(home: Path) -> None:
    ids = []
    for _ in range(2):
        with app_client(home) as client:
            ids.append(client.post("/runs", json=toy(), headers={"Idempotency-Key": "k"}).json()["run_id"])
    assert ids[0] == ids[1]


def test_a_key_of_a_refused_request_is_free_again(api: TestClient) -> None:
    key = {"Idempotency-Key": "k"}
    bad = toy()
    bad["training"]["worker"] = "toi"
    refused = api.post("/runs", json=bad, headers=key)
    assert refused.status_code == 400
    assert "Did you mean 'toy'?" in refused.json()["error"]
    assert api.post("/runs", json=toy(), headers=key).status_code == 201


def test_a_server_that_died_after_taking_the_key_makes_the_same_run(api: TestClient, home: Path) -> None:
    first = api.post("/runs", json=toy(), headers={"Idempotency-Key": "k"}).json()["run_id"]
    Trainer(home).run(first).stop()
    Trainer(home).run(first).delete()  # the key is settled, the run is not there
    assert api.post("/runs", json=toy(), headers={"Idempotency-Key": "k"}).json()["run_id"] == first


def test_a_wanted_id_is_taken_once(api: TestClient) -> None:
    assert api.post("/runs", json=toy(run_id="mine")).json()["run_id"] == "mine"
    again = api.post("/runs", json=toy(run_id="mine"))
    assert again.status_code == 409
    assert again.json() == {"error": "There is already a run 'mine'. Choose another run_id, or leave it out."}
    keyed = api.post("/runs", json=toy(run_id="mine"), headers={"Idempotency-Key": "k"})
    assert keyed.status_code == 409


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "The body is not a JSON document"),
        (b"{", "The body is not a JSON document"),
        (b"\xff\xfe", "The body is not a JSON document"),
        (b'{"seed": NaN}', "NaN is not JSON"),
        (b'{"seed": 1, "seed": 2}', "the key 'seed' is duplicated"),
        (b"[" * 100_000, "The body is not a JSON document"),
        (b"[]", "Settings are names with values"),
        (b"{}", "environment"),
        (b'{"environment": {"env_id": "gym/CartPole-v1"}, "sed": 1}', "Did you mean 'seed'?"),
        (b'{"environment": {"env_id": "x"}, "run_id": "../x"}', "it names a folder"),
    ],
)
def test_a_bad_configuration_is_explained(api: TestClient, body: bytes, text: str) -> None:
    answer = api.post("/runs", content=body)
    assert answer.status_code == 400
    assert text in answer.json()["error"]
    assert api.get("/runs").json() == []


@pytest.mark.parametrize("worker", ["tabular", "native"])
@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"agents": {"player_9": "random"}}, "There is no agent 'player_9'."),
        ({"agents": {"player_2": "minmax"}}, "There is no policy named 'minmax'. Did you mean 'minimax'?"),
        ({"agents": {"player_2": "minimax:dept=3"}}, "Did you mean 'depth'?"),
        ({"policies_to_train": ["nobody"]}, "There is no policy that learns named 'nobody'."),
        ({"evaluation": {"opponents": ["randm"]}}, "There is no policy named 'randm'. Did you mean 'random'?"),
        ({"telemetry": {"mirrors": ["tensorbord"]}}, "There is no mirror named 'tensorbord'."),
        ({"resources": {"num_cpus": 3}}, "cannot meet resources.num_cpus=3"),
    ],
)
def test_what_a_worker_cannot_honour_is_refused_at_submission(
    api: TestClient, worker: str, parts: dict[str, object], text: str
) -> None:
    body = {"environment": {"env_id": "classic/tictactoe_v3"}, "training": {"worker": worker}, **parts}
    answer = api.post("/runs", json=body)
    assert answer.status_code == 400
    assert text in answer.json()["error"]
    assert api.get("/runs").json() == []


def test_a_run_that_could_never_start_is_refused(api: TestClient) -> None:
    answer = api.post("/runs", json=toy(resources={"num_gpus": 2}))
    assert answer.status_code == 400
    assert answer.json()["error"] == (
        "This run could never start: it requests 2 GPUs, and this server may use 1. Change 'resources'."
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/runs/nothing", 404),
        ("POST", "/runs/nothing/stop", 404),
        ("DELETE", "/runs/nothing", 404),
        ("GET", "/nowhere", 404),
        ("PUT", "/runs", 405),
        ("GET", "/runs?limit=0", 422),
        ("GET", "/runs?state=asleep", 422),
        ("GET", "/schemas/workers/toi/walk", 404),
        ("GET", "/schemas/workers/toy/wlk", 404),
        ("GET", "/envs?family=gim", 404),
    ],
)
def test_refusals_have_one_form(api: TestClient, method: str, path: str, status: int) -> None:
    answer = api.request(method, path)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]


def test_verbs_that_do_not_fit_the_state_conflict(api: TestClient) -> None:
    run_id = api.post("/runs", json=toy()).json()["run_id"]
    for verb in ("pause", "resume", "checkpoint"):
        answer = api.post(f"/runs/{run_id}/{verb}")
        assert answer.status_code == 409
        assert "queued" in answer.json()["error"]
    assert api.post(f"/runs/{run_id}/resume", json={"resources": {"num_env_runners": 2}}).status_code == 409
    assert api.post(f"/runs/{run_id}/stop").json()["state"] == "stopped"
    assert api.delete(f"/runs/{run_id}").status_code == 204
    assert api.get(f"/runs/{run_id}").status_code == 404


@pytest.mark.parametrize(
    ("resources", "status", "text"),
    [
        ({"num_worker": 2}, 400, "Did you mean 'resources.num_env_runners'?"),
        ({"num_env_runners": 0}, 400, "resources.num_env_runners"),
        ({"num_gpus": 99}, 400, "This run could never start: it requests 99 GPUs"),
        ({"ray_address": "elsewhere:6379"}, 403, "resources.ray_address: elsewhere:6379"),
        ([], 422, "resources"),
    ],
)
def test_resources_that_a_run_cannot_go_on_with_are_refused(
    api: TestClient, resources: object, status: int, text: str
) -> None:
    run_id = api.post("/runs", json=toy()).json()["run_id"]
    api.post(f"/runs/{run_id}/stop")
    before = api.get(f"/runs/{run_id}").json()
    answer = api.post(f"/runs/{run_id}/resume", json={"resources": resources})
    assert (answer.status_code, text in answer.json()["error"]) == (status, True), answer.text
    assert api.get(f"/runs/{run_id}").json() == before


def test_the_life_of_a_run(working: TestClient) -> None:
    run_id = working.post("/runs", json=toy(iterations=100_000, iteration_s=0.005)).json()["run_id"]

    def state() -> str:
        return str(working.get(f"/runs/{run_id}").json()["state"])

    eventually(lambda: state() == "running", "the start")
    eventually(lambda: working.get(f"/runs/{run_id}").json()["last_seq"] > 20, "metrics")
    assert working.delete(f"/runs/{run_id}").status_code == 409
    saved = working.post(f"/runs/{run_id}/checkpoint").json()["checkpoints"]
    assert saved
    working.post(f"/runs/{run_id}/pause")
    eventually(lambda: state() == "paused", "the pause")
    assert working.post(f"/runs/{run_id}/resume").json()["state"] == "running"
    working.post(f"/runs/{run_id}/stop", params={"patience_s": 5})
    eventually(lambda: state() == "stopped", "the stop")
    shown = working.get(f"/runs/{run_id}").json()
    assert shown["reason"] == "asked to stop"
    assert shown["checkpoints"][-1]["env_steps"] == shown["env_steps"]
    resumed = working.post(f"/runs/{run_id}/resume", json={"resources": {"num_env_runners": 2}}).json()
    assert (len(resumed["attempts"]), resumed["config"]["resources"]["num_env_runners"]) == (2, 2)
    working.post(f"/runs/{run_id}/stop", params={"patience_s": 5})
    eventually(lambda: state() == "stopped", "the second stop")

    part = working.get(f"/runs/{run_id}/metrics", params={"after_seq": 3, "limit": 5}).json()
    assert [event["seq"] for event in part["events"]] == [4, 5, 6, 7, 8]
    assert part["last_seq"] == 8
    assert "episode_reward_mean" in working.get(f"/runs/{run_id}/metric-names").json()
    curve = working.get(f"/runs/{run_id}/curve", params={"metric": "episode_reward_mean", "buckets": 7}).json()
    assert 0 < len(curve["x"]) <= 7
    assert all(low <= mean <= high for low, mean, high in zip(curve["low"], curve["mean"], curve["high"], strict=True))
    assert working.get(f"/runs/{run_id}/curve", params={"metric": "loss"}).status_code == 404
    log = working.get(f"/runs/{run_id}/log").json()
    assert log["end"] - log["start"] == len(log["text"].encode())


def test_the_log_is_read_in_parts(api: TestClient, home: Path) -> None:
    run_id = api.post("/runs", json=toy()).json()["run_id"]
    assert api.get(f"/runs/{run_id}/log").json() == {"text": "", "start": 0, "end": 0}
    Trainer(home).run(run_id).folder.log.write_text("0123456789")
    assert api.get(f"/runs/{run_id}/log", params={"size": 4}).json() == {"text": "6789", "start": 6, "end": 10}
    part = api.get(f"/runs/{run_id}/log", params={"after": 2, "size": 3}).json()
    assert part == {"text": "234", "start": 2, "end": 5}
    assert api.get(f"/runs/{run_id}/log", params={"after": 99}).json() == {"text": "", "start": 10, "end": 10}
    Trainer(home).run(run_id).folder.errors.write_text("Traceback")
    assert api.get(f"/runs/{run_id}/log", params={"stream": "stderr"}).json()["text"] == "Traceback"
    assert api.get(f"/runs/{run_id}/log", params={"stream": "stdin"}).status_code == 422


def test_the_catalog(home: Path) -> None:
    with app_client(home) as api:
        assert api.get("/health").json() | {"version": ""} == {
            "status": "ok", "problems": [], "version": "", "queued": 0, "running": 0, "stuck": {},
        }  # fmt: skip
        assert {row["id"]: row["installed"] for row in api.get("/workers").json()}["toy"] is True
        assert "random" in [row["id"] for row in api.get("/policies").json()]
        assert "gym/CartPole-v1" in [row["id"] for row in api.get("/envs", params={"family": "gym"}).json()]
        assert api.get("/schemas/run").json()["title"] == "Mosaic run"
        assert api.get("/schemas/workers/toy/walk").json() == options_schema(load_worker("toy"), "walk")
        assert api.get("/doctor").json() == []


def test_the_document_describes_every_route(api: TestClient) -> None:
    document = api.get("/openapi.json").json()
    assert document["components"]["schemas"]["RunConfig"]["properties"]["seed"]["minimum"] == 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            good = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
            assert all("content" in answer or method == "delete" for answer in good), f"{method} {path}"
            assert operation["responses"]["404"]["content"]["application/json"]["schema"]["$ref"].endswith("Complaint")
    refs = {part for part in json.dumps(document).split('"') if part.startswith("#/components/schemas/")}
    assert {ref.rpartition("/")[2] for ref in refs} <= set(document["components"]["schemas"])


def test_every_route_has_a_description(api: TestClient) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    assert [
        (path, method) for path in paths for method, each in paths[path].items() if not each.get("description")
    ] == []


def test_nothing_loads_scripts_from_elsewhere(api: TestClient) -> None:
    assert api.get("/docs").status_code == 404
    assert api.get("/redoc").status_code == 404
