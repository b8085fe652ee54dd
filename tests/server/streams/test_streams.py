"""Streams of events: without gap or duplicate, whatever happens to the server."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import UnknownNameError
from mosaic.runs.trainer import Trainer
from mosaic.server.client.address import UnreachableError
from mosaic.server.client.client import RemoteRun, ServerError
from mosaic.server.routes.events import messages
from mosaic.store.state import State
from mosaic.telemetry.events.event import encode
from mosaic.telemetry.events.reader import read_events
from mosaic.telemetry.events.writer import EventWriter
from tests.ports import reserved_port
from tests.server.server_kit import NOTHING_STARTS, ServerProcess, app_client, eventually, toy


def seqs(run: RemoteRun, after_seq: int = 0) -> list[int]:
    return [event["seq"] for event in run.events(after_seq)]


@pytest.mark.slow
def test_from_any_point_on(home: Path) -> None:
    with ServerProcess(home) as server, server.client() as client:
        run = client.submit(toy(iterations=1200))
        whole = seqs(run)
        assert whole == list(range(1, len(whole) + 1))
        assert len(whole) >= 1200
        assert run.wait() is State.FINISHED
        last = whole[-1]
        for after in (1, 499, 500, 501, last - 1, last, last + 5):
            assert seqs(run, after) == list(range(after + 1, last + 1))


def test_a_queued_run_is_waited_for(home: Path) -> None:
    with ServerProcess(home) as server, server.client() as client:
        blocked = Trainer(home).submit(toy(iterations=5), start=False)
        assert client.run(blocked.id).wait(timeout_s=60) is State.FINISHED


def test_unknown_and_deleted_runs(home: Path) -> None:
    with ServerProcess(home, limits=NOTHING_STARTS) as server, server.client() as client:
        with pytest.raises(UnknownNameError, match="There is no run 'nothing'"):
            client.run("nothing")
        with pytest.raises(UnknownNameError, match="There is no run 'nothing'"):
            next(RemoteRun(client, "nothing").events())
        run = Trainer(home).submit(toy(), start=False)
        with EventWriter(run.folder.metrics, 1) as writer:
            writer.report(kind="iteration", env_steps=1)
        stream = client.run(run.id).events()
        assert next(stream)["seq"] == 1
        run.stop()
        run.delete()
        with pytest.raises((ServerError, UnknownNameError, StopIteration)):
            next(stream)


@pytest.mark.slow
def test_a_killed_server_is_found_again(home: Path) -> None:
    """SIGKILL in the middle of the stream; the client takes it up where it was, at the next server."""
    with reserved_port() as port, ServerProcess(home, port) as first, first.client() as client:
        run = client.submit(toy(iterations=400, iteration_s=0.005))
        stream = run.events(reconnect_s=60)
        got = [next(stream)["seq"] for _ in range(50)]
        first.kill()
        with ServerProcess(home, first.port):
            got += [event["seq"] for event in stream]
    assert got == list(range(1, len(got) + 1))
    assert got == [event["seq"] for event in read_events(Trainer(home).run(run.id).folder.metrics)]
    assert Trainer(home).run(run.id).state is State.FINISHED


def test_a_server_that_stays_away_is_an_error(home: Path) -> None:
    with ServerProcess(home) as server, server.client() as client:
        run = client.submit(toy(iterations=100_000, iteration_s=0.01))
        stream = run.events(reconnect_s=0.2)
        next(stream)
        server.kill()
        with pytest.raises(UnreachableError, match=f"There is no Mosaic server at {server.url}"):
            list(stream)
        with pytest.raises(UnreachableError, match="Start one there: mosaic serve"):
            client.health()


def killed_at_random(home: Path, port: int, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    server = ServerProcess(home, port)
    try:
        with server.client() as client:
            run = client.submit(toy(iterations=100_000, iteration_s=0.002))
            folder = Trainer(home).run(run.id).folder
            got: list[int] = []
            for _ in range(kills):
                stream = run.events(got[-1] if got else 0, reconnect_s=60)
                got.extend(next(stream)["seq"] for _ in range(chance.randrange(1, 60)))
                server.kill()
                stream.close()
                before = last_seq(folder.metrics)
                eventually(lambda before=before: last_seq(folder.metrics) > before, "that the run goes on")
                server = ServerProcess(home, port)
            record = Trainer(home).run(run.id).record()
            assert record.state is State.RUNNING
            assert len(record.attempts) == 1
            run.stop(patience_s=20)
            got.extend(seqs(run, got[-1]))
        assert got == list(range(1, len(got) + 1))
        stored = list(read_events(folder.metrics))
        assert got == [event["seq"] for event in stored]
        steps = [event["env_steps"] for event in stored if event["kind"] == "iteration"]
        assert steps == [10 * (number + 1) for number in range(len(steps))]
        assert Trainer(home).run(run.id).state is State.STOPPED
    finally:
        server.kill()


def last_seq(path: Path) -> int:
    """Of the last whole line, read by hand."""
    lines = path.read_bytes().split(b"\n")[:-1]
    return int(json.loads(lines[-1])["seq"]) if lines else 0


@pytest.mark.slow
@pytest.mark.chosen
def test_a_run_does_not_notice_that_its_server_is_killed(home: Path) -> None:
    with reserved_port() as port:
        killed_at_random(home, port, kills=2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_does_not_notice_fifty_deaths(home: Path) -> None:
    with reserved_port() as port:
        killed_at_random(home, port, kills=50, seed=2)


@pytest.mark.slow
def test_a_server_killed_while_it_starts_runs_starts_none_twice(home: Path) -> None:
    """Twenty runs wait; servers die at random moments; in the end each was started exactly once."""
    trainer = Trainer(home)
    runs = [trainer.submit(toy(iterations=30), start=False) for _ in range(20)]
    chance = random.Random(3)
    for _ in range(8):
        with ServerProcess(home) as server:
            goal = min(20, ended(trainer) + chance.randrange(0, 4))
            eventually(lambda goal=goal: ended(trainer) >= goal, "some ends")
            server.kill()
    with ServerProcess(home):
        eventually(lambda: ended(trainer) == 20, "all ends")
    for run in runs:
        assert run.state is State.FINISHED
        assert len(run.record().attempts) == 1
        steps = [event["env_steps"] for event in run.events() if event["kind"] == "iteration"]
        assert steps == [10 * (number + 1) for number in range(30)]


def ended(trainer: Trainer) -> int:
    return sum(run.state is State.FINISHED for run in trainer.summaries())


@given(st.lists(st.integers(0, 400_000), max_size=4), st.integers(0, 1200))
@settings(max_examples=30)
def test_messages_hold_every_event_once(sizes: list[int], small: int) -> None:
    texts = ["x" * size for size in sizes] + [""] * small
    events = [
        {"kind": "alert", "seq": seq, "attempt": 1, "timestamp": 0.0, "message": text}
        for seq, text in enumerate(texts, 1)
    ]
    sent = list(messages(encode(event).decode() for event in events))
    assert [json.loads(line)["seq"] for text in sent for line in text.split("\n")] == [e["seq"] for e in events]
    assert all(len(text) <= (256 << 10) or "\n" not in text for text in sent)


def test_events_with_line_breaks_and_strange_letters_stay_one_line(home: Path) -> None:
    with app_client(home) as client:
        run = Trainer(home).submit(toy(), start=False)
        said = "a\nb\u2028c\u0085d é \x00" + os.linesep
        with EventWriter(run.folder.metrics, 1) as writer:
            writer.report(kind="alert", message=said)
        run.stop()
        with client.websocket_connect(
            f"ws://127.0.0.1:8642/runs/{run.id}/events", headers=dict(client.headers)
        ) as socket:
            assert json.loads(socket.receive_text())["message"] == said
            assert socket.receive() == {"type": "websocket.close", "code": 1000, "reason": "stopped"}
