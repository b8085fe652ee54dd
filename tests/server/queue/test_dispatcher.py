"""The dispatcher outlives whatever goes wrong, and `/health` says so meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.server.queue import dispatcher as dispatch
from mosaic.server.queue.dispatcher import Dispatcher
from mosaic.store.index.index import Index
from mosaic.store.state import State
from tests.server.server_kit import LIMITS, ServerProcess, app_client, eventually, toy

ANY_ERROR = [
    TypeError("'<' not supported"),
    KeyError("stamp"),
    RecursionError(),
    SystemExit(3),
    OSError(5, "I/O error"),
]


@pytest.mark.parametrize("error", ANY_ERROR, ids=lambda error: type(error).__name__)
def test_the_queue_survives_any_exception_and_health_tells(
    home: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = True
    listed = Index.list

    def list_or_fail(index: Index, **wanted: Any) -> Any:
        if broken and not wanted and "queue" in dispatch.threading.current_thread().name:
            raise error
        return listed(index, **wanted)

    monkeypatch.setattr(Index, "list", list_or_fail)
    monkeypatch.setattr(dispatch, "POLL_S", 0.01)
    with app_client(home, start_queued=True) as api:
        run_id = api.post("/runs", json=toy(iterations=3)).json()["run_id"]
        eventually(lambda: api.get("/health").status_code == 503, "a degraded health")
        health = api.get("/health").json()
        assert health["status"] == "degraded"
        assert health["queued"] == 1
        assert health["problems"][0].startswith("The queue could not be processed")
        assert type(error).__name__ in health["problems"][0]
        assert "It is tried again every second." in health["problems"][0]
        broken = False
        eventually(lambda: api.get("/health").json()["status"] == "ok", "a queue that works again")
        eventually(lambda: api.get(f"/runs/{run_id}").json()["state"] == "finished", "the end of the run")
        assert api.get("/health").json()["problems"] == []
    complaints = [record for record in caplog.records if "could not be processed" in record.message]
    assert complaints
    assert type(error).__name__ in complaints[0].message
    assert bool(complaints[0].exc_info) is not isinstance(error, OSError)


def test_one_run_that_fails_in_an_unknown_way_delays_no_other(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, now_s = Trainer(home), 0.0
    odd, fine = (trainer.submit(toy(iterations=3), start=False) for _ in range(2))
    start, failing = Run.start, True

    def start_or_fail(run: Run) -> None:
        if failing and run.id == odd.id:
            raise ZeroDivisionError("a plug-in's own fault")
        start(run)

    monkeypatch.setattr(Run, "start", start_or_fail)
    dispatcher = Dispatcher(trainer, LIMITS, clock=lambda: now_s)
    assert dispatcher.dispatch() == [fine.id]
    assert dispatcher.stuck() == {odd.id: "ZeroDivisionError: a plug-in's own fault"}
    failing = False
    now_s = 5.0
    assert dispatcher.dispatch() == []
    now_s = 10.0
    assert dispatcher.dispatch() == [odd.id]  # tried again, later and later
    assert dispatcher.stuck() == {}


def test_a_run_that_is_gone_is_not_stuck_any_more(home: Path) -> None:
    trainer = Trainer(home)
    run = trainer.submit(toy(iterations=3), start=False)
    (run.folder.path / "supervisor.log").mkdir()
    dispatcher = Dispatcher(trainer, LIMITS)
    assert dispatcher.dispatch() == []
    assert list(dispatcher.stuck()) == [run.id]
    run.delete()
    assert dispatcher.dispatch() == []
    assert dispatcher.stuck() == {}


def test_a_configuration_damaged_after_it_was_indexed_blocks_no_other_run(home: Path) -> None:
    trainer = Trainer(home)
    odd, fine = (trainer.submit(toy(iterations=3), start=False) for _ in range(2))
    trainer.summaries()
    odd.folder.config.write_text("{")
    dispatcher = Dispatcher(trainer, LIMITS)
    assert dispatcher.dispatch() == [fine.id]
    assert "config.json" in dispatcher.stuck()[odd.id]


def test_a_living_run_counts_although_its_configuration_was_damaged(home: Path) -> None:
    trainer = Trainer(home)
    living = trainer.submit(toy(iterations=100_000, iteration_s=0.01))
    waiting = trainer.submit(toy(), start=False)
    one = dispatch.QueueLimits(runs=1, cores=64, memory_mb=100_000, gpus=0)
    dispatcher = Dispatcher(trainer, one)
    assert dispatcher.dispatch() == []
    whole = living.folder.config.read_text()
    living.folder.config.write_text("{")
    with pytest.raises(dispatch.NoRoomError):
        Dispatcher(trainer, one).check_room(waiting.folder, waiting.config)
    living.folder.config.write_text(whole)


def test_a_queue_that_stalls_or_whose_thread_ended_is_reported(home: Path) -> None:
    now_s = 0.0
    dispatcher = Dispatcher(Trainer(home), LIMITS, clock=lambda: now_s)
    assert dispatcher.problems() == []  # not opened: this server starts nothing, by its settings
    dispatcher.open()
    try:
        assert dispatcher.problems() == []
        now_s = 1000.0
        dispatcher._looked_s = 0.0
        problems = dispatcher.problems()
        assert not problems or "was last processed 1000 s ago" in problems[0]  # the thread may look at this moment
    finally:
        dispatcher.close()
    assert dispatcher.problems() == []
    dispatcher._ending.clear()
    assert dispatcher.problems() == [
        "The thread that starts queued runs has ended. Start the server again: mosaic serve"
    ]


def test_a_client_reads_a_degraded_health(home: Path) -> None:
    with ServerProcess(home) as server, server.client() as client:
        assert client.health().status == "ok"
        (home / "queue.lock").unlink(missing_ok=True)
        (home / "queue.lock" / "in the way").mkdir(parents=True)
        eventually(lambda: client.health().status == "degraded", "a degraded health")
        assert "IsADirectoryError" in client.health().problems[0]
        (home / "queue.lock" / "in the way").rmdir()
        (home / "queue.lock").rmdir()
        eventually(lambda: client.health().status == "ok", "a queue that works again")


@pytest.mark.slow
def test_one_bad_byte_in_the_index_does_not_stop_the_queue(home: Path) -> None:
    """In every place that holds text, while a server looks at the queue."""
    trainer = Trainer(home)
    for number in range(5):
        trainer.submit({**toy(), "name": f"größe-{number}", "run_id": f"waits-{number}"}, start=False).stop()
    with ServerProcess(home) as server, server.client() as client:
        path = home / "index.sqlite"
        for number in range(5):
            eventually(lambda: client.health().status == "ok", "a queue that works")
            data = path.read_bytes()
            offset = data.index(f"größe-{number}".encode()) + 2
            with path.open("r+b") as file:
                file.seek(offset)
                file.write(b"\xff")
            run = client.submit(toy(iterations=3))
            assert run.wait(60) is State.FINISHED
            assert {row.name for row in client.runs() if row.name} == {f"größe-{n}" for n in range(5)}
        assert client.health().status == "ok"
