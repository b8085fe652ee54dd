"""Many curves in one answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from mosaic.server.app import create_app
from mosaic.server.auth.token import ensure_token
from mosaic.server.context import ServerSettings
from mosaic.store.run_folder import RunFolder
from mosaic.telemetry.events.event import encode
from mosaic.telemetry.events.writer import EventWriter
from mosaic.ui.web.data.facts import last_iteration, start_phases
from mosaic.ui.web.page_api import add_series_routes

CONFIG: dict[str, Any] = {
    "environment": {"env_id": "gym/CartPole-v1"},
    "training": {"worker": "toy", "total_timesteps": 100},
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    app = create_app(tmp_path, ServerSettings(start_queued=False))
    add_series_routes(app, app.state.context)
    headers = {"Authorization": f"Bearer {ensure_token(tmp_path)}"}
    with TestClient(app, base_url="http://127.0.0.1:8642", headers=headers) as client:
        yield client


def made(client: TestClient, rewards: list[float], group: str = "", **training: Any) -> str:
    """A run that told these rewards, one every ten env steps."""
    app: Any = client.app
    config = {**CONFIG, "training": {**CONFIG["training"], **training}}
    run = app.state.context.trainer.submit(config, start=False, group=group)
    write(run.folder, rewards)
    return str(run.id)


def write(folder: RunFolder, rewards: list[float]) -> None:
    lines = [
        {
            "kind": "iteration",
            "seq": number,
            "attempt": 1,
            "timestamp": 1000.0 + number,
            "env_steps": 10 * number,
            "training_iteration": number,
            "episode_reward_mean": reward,
        }
        for number, reward in enumerate(rewards, 1)
    ]
    folder.metrics.write_bytes(b"".join(encode(line) + b"\n" for line in lines))


def ask(client: TestClient, refs: list[str], metrics: list[str], **further: Any) -> dict[str, Any]:
    answer = client.get("/series", params={"ref": refs, "metric": metrics, **further})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_each_metric_of_each_run_that_has_it(client: TestClient) -> None:
    one, other = made(client, [1.0, 2.0, 3.0]), made(client, [5.0])
    found = ask(client, [one, other], ["episode_reward_mean", "policies/x/rating"])
    assert [(each["ref"], each["x"], each["mean"]) for each in found["series"]] == [
        (one, [10.0, 20.0, 30.0], [1.0, 2.0, 3.0]),
        (other, [10.0], [5.0]),
    ]
    assert found["last_seq"] == {one: 3, other: 1}


def test_a_long_curve_is_thinned_and_keeps_its_extremes(client: TestClient) -> None:
    rewards = [float(number % 7) for number in range(5000)]
    rewards[1234] = 99.0
    (found,) = ask(client, [made(client, rewards)], ["episode_reward_mean"], points=100)["series"]
    assert len(found["x"]) <= 100
    assert max(found["high"]) == 99.0
    assert client.get("/series", params={"ref": "x", "metric": "m", "points": 1001}).status_code == 422


def test_a_seed_group_is_a_mean_with_a_band(client: TestClient) -> None:
    for rewards in ([1.0, 2.0, 3.0], [3.0, 4.0, 5.0]):
        made(client, rewards, group="seeds")
    (found,) = ask(client, ["group:seeds"], ["episode_reward_mean"], points=3)["series"]
    assert (found["x"], found["mean"]) == ([10.0, 20.0, 30.0], [2.0, 3.0, 4.0])
    assert all(low < mean < high for low, mean, high in zip(found["low"], found["mean"], found["high"], strict=True))


def test_a_run_that_is_not_there_is_named(client: TestClient) -> None:
    answer = client.get("/series", params={"ref": "nowhere", "metric": "episode_reward_mean"})
    assert answer.status_code == 404
    assert "nowhere" in answer.json()["error"]


def test_the_last_iteration_is_found_behind_other_events(client: TestClient) -> None:
    app: Any = client.app
    folder = app.state.context.store.resolve(made(client, [1.0, 7.0]))
    assert last_iteration(folder)["episode_reward_mean"] == 7.0
    with folder.metrics.open("ab") as file:
        file.write(encode({"kind": "ended", "seq": 3, "attempt": 1, "timestamp": 1.0}) + b"\n" + b'{"kind":"iteration')
    assert last_iteration(folder)["episode_reward_mean"] == 7.0


def test_damaged_lines_are_skipped(client: TestClient) -> None:
    app: Any = client.app
    folder = app.state.context.store.resolve(made(client, [1.0, 7.0]))
    whole = folder.metrics.read_bytes()
    folder.metrics.write_bytes(b'\x00\xff "iteration"\n' + whole + b'{"kind":"iteration","seq":"\n')
    assert last_iteration(folder)["episode_reward_mean"] == 7.0
    assert start_phases(folder, 0.0)[-1][1].startswith("First report")


def test_a_report_by_the_clock_keeps_the_split_of_the_last_whole_iteration(client: TestClient) -> None:
    app: Any = client.app
    run = app.state.context.store.resolve(made(client, [1.0]))
    with EventWriter(run.metrics, attempt=2) as writer:
        writer.report(kind="iteration", env_steps=20, time_split={"env": 3.0, "learning": 1.0})
        writer.report(kind="iteration", env_steps=30, trigger="clock")
        found = last_iteration(run)
        assert (found["trigger"], found["time_split"]) == ("clock", {"env": 3.0, "learning": 1.0})
        writer.report(kind="iteration", env_steps=40)  # of a worker that does not report it
        assert last_iteration(run)["time_split"] == {}
    run.metrics.write_bytes(b"")
    with EventWriter(run.metrics, attempt=3) as writer:
        writer.report(kind="iteration", env_steps=0, time_split={})
        assert "time_split" not in last_iteration(run)  # not known yet
        writer.report(kind="iteration", env_steps=5, trigger="clock")
        assert last_iteration(run)["trigger"] == "clock"
        assert "time_split" not in last_iteration(run)


def test_a_part_of_a_curve_has_points_of_its_own(client: TestClient) -> None:
    rewards = [float(number) for number in range(1, 1001)]
    run = made(client, rewards)
    (thin,) = ask(client, [run], ["episode_reward_mean"], points=10)["series"]
    (part,) = ask(client, [run], ["episode_reward_mean"], points=10, start=105, stop=195)["series"]
    assert len([x for x in thin["x"] if 105 <= x <= 195]) < 2
    assert part["x"] == [110.0, 120.0, 130.0, 140.0, 150.0, 160.0, 170.0, 180.0, 190.0]
    (seconds,) = ask(client, [run], ["episode_reward_mean"], x="timestamp", start=1003, stop=1005)["series"]
    assert seconds["mean"] == [3.0, 4.0, 5.0]
    assert client.get("/series", params={"ref": run, "metric": "m", "start": "nan"}).status_code == 422


def test_a_part_of_a_seed_group(client: TestClient) -> None:
    for rewards in ([1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0]):
        made(client, rewards, group="seeds")
    (found,) = ask(client, ["group:seeds"], ["episode_reward_mean"], points=2, start=20, stop=30)["series"]
    assert (found["x"], found["mean"]) == ([20.0, 30.0], [3.0, 4.0])


def test_statistics_of_runs_as_numbers_and_as_files(client: TestClient) -> None:
    slow = [made(client, [reward]) for reward in (1.0, 2.0, 3.0)]
    fast = [made(client, [reward], params={"noise": 0.5}) for reward in (4.0, 5.0, 6.0)]
    asked = {"run": [*slow, *fast], "normalize": ["gym/CartPole-v1=0:10"]}
    study = client.get("/statistics", params=asked).json()
    assert [(row["method"], row["runs"], row["iqm"]) for row in study["methods"]] == [
        ("noise 0.5", 3, 0.5),
        ("noise 1.0", 3, 0.2),
    ]
    assert study["improvements"][0]["probability"] == 1.0
    assert client.get("/statistics", params={**asked, "format": "png"}).content.startswith(b"\x89PNG")
    numbers = client.get("/statistics", params={**asked, "format": "csv"}).text
    assert numbers.startswith("statistic,method,other,env,threshold,value,low,high\niqm,noise 0.5,,,,0.5,")


def test_statistics_say_what_they_need(client: TestClient) -> None:
    runs = [made(client, [1.0]), made(client, [2.0])]
    refused = client.get("/statistics", params={"run": runs})
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("The selected runs differ in nothing but their seed: all are of toy walk")
    assert client.get("/statistics", params={"run": [*runs, "nobody"]}).status_code == 404
    assert client.get("/statistics").status_code == 422
