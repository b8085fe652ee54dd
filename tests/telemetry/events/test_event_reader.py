from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.core.errors import FormatError
from mosaic.telemetry.events import journal
from mosaic.telemetry.events.event import MetricEvent
from mosaic.telemetry.events.reader import EventTail, follow, read_events, visible
from mosaic.telemetry.events.writer import EventWriter
from tests.telemetry.event_cases import CALM, naive_visible, stories, write_lines


def numbered(count: int) -> list[dict[str, Any]]:
    return [
        {"kind": "iteration", "seq": seq, "attempt": 1, "timestamp": 0.0, "env_steps": seq}
        for seq in range(1, count + 1)
    ]


def seqs(events: Sequence[Mapping[str, Any]]) -> list[int]:
    return [event["seq"] for event in events]


@CALM
@given(stories())
def test_visible_is_what_no_later_attempt_went_back_behind(events: list[MetricEvent]) -> None:
    assert visible(events) == naive_visible(events)


def test_visible_by_example() -> None:
    def event(seq: int, attempt: int, kind: str = "iteration", **fields: Any) -> Any:
        return {"kind": kind, "seq": seq, "attempt": attempt, "timestamp": 0.0, **fields}

    story = [
        event(1, 1, env_steps=100),
        event(2, 1, env_steps=200),
        event(3, 1, "alert", message="hot"),
        event(4, 2, "resumed", from_env_steps=100),
        event(5, 2, env_steps=150),
        event(6, 2, env_steps=300),
        event(7, 3, "resumed", from_env_steps=150),
        event(8, 3, env_steps=200),
    ]
    assert seqs(visible(story)) == [1, 3, 4, 5, 7, 8]


def test_order_is_by_seq_when_the_clock_jumps(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    times = iter([1000.0, 5.0, 2000.0, -1.0])
    with EventWriter(path, attempt=1, clock=lambda: next(times)) as writer:
        for steps in range(4):
            writer.report(env_steps=steps)
    events = list(read_events(path))
    assert seqs(events) == [1, 2, 3, 4]
    assert [event["timestamp"] for event in events] == [1000.0, 5.0, 2000.0, -1.0]
    assert seqs(visible(events)) == [1, 2, 3, 4]


def test_reading_goes_on_behind_any_seq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "CHUNK", 512)  # or the file would have to be huge to be searched
    monkeypatch.setattr(journal, "_PROBE", 256)
    path = tmp_path / "metrics.jsonl"
    write_lines(path, numbered(300))
    for after in range(305):
        assert seqs(list(read_events(path, after))) == list(range(after + 1, 301))


def test_going_on_reads_little(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_lines(path, numbered(200_000))
    fd = os.open(path, os.O_RDONLY)
    try:
        start = journal.start_after(fd, 150_000)
        assert path.stat().st_size // 2 < start
        assert journal.next_events(fd, start).found[0]["seq"] <= 150_001
    finally:
        os.close(fd)


def test_no_file_is_no_events(tmp_path: Path) -> None:
    assert list(read_events(tmp_path / "none.jsonl")) == []


@CALM
@given(st.integers(1, 400), st.lists(st.tuples(st.integers(0, 120), st.booleans()), max_size=12))
def test_a_tail_gives_only_whole_lines_whatever_it_sees(chunk: int, steps: list[tuple[int, bool]]) -> None:
    """The file grows by some bytes, and what is torn may be taken back."""
    lines = "".join(f'{{"kind":"iteration","seq":{seq},"attempt":1,"timestamp":0}}\n' for seq in range(1, 9)).encode()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "CHUNK", chunk)
        path, end, got = Path(folder) / "metrics.jsonl", 0, []
        with EventTail(path) as tail:
            for more, taken_back in steps:
                end = min(end + more, len(lines))
                with path.open("ab") as file:
                    file.write(lines[file.tell() : end])
                while events := tail.read():
                    got += seqs(events)
                assert got == list(range(1, lines[:end].count(b"\n") + 1))
                if taken_back:
                    end = lines[:end].rfind(b"\n") + 1
                    os.truncate(path, end)


def test_a_damaged_line_is_left_out_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "metrics.jsonl"
    write_lines(path, numbered(3))
    lines = path.read_bytes().split(b"\n")
    lines[1] = b"\0" * len(lines[1])
    path.write_bytes(b"\n".join(lines))
    with caplog.at_level(logging.WARNING):
        assert seqs(list(read_events(path))) == [1, 3]
    assert caplog.messages == [f"Skipped 1 damaged lines between bytes 0 and {path.stat().st_size}."]


def test_damaged_lines_at_the_end_wait_for_the_repair(tmp_path: Path) -> None:
    """A repair cuts them off and writes others in their place: a reader that had skipped them would lose those."""
    path = tmp_path / "metrics.jsonl"
    write_lines(path, numbered(2))
    with path.open("ab") as file:
        file.write(b"rubbish\n" * 50)
    with EventTail(path) as tail:
        assert seqs(tail.read()) == [1, 2]
        assert tail.read() == []
        with EventWriter(path, attempt=2) as writer:
            writer.report(env_steps=3)
        assert seqs(tail.read()) == [3, 4]


def test_a_file_that_lost_events_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_lines(path, numbered(3))
    with EventTail(path) as tail:
        assert len(tail.read()) == 3
        write_lines(path, numbered(1))
        with pytest.raises(FormatError, match=r"'.*' lost events that had already been read"):
            tail.read()


WRITER = """
import sys
from pathlib import Path
from mosaic.telemetry.events.writer import EventWriter
writer = EventWriter(Path(sys.argv[1]), attempt=int(sys.argv[2]))
while True:
    print(writer.report(env_steps=writer.seq, custom_metrics={"fill": "x" * (writer.seq % 5000)}), flush=True)
"""


def test_followers_lose_and_double_nothing_when_writers_are_killed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    stop, got = threading.Event(), []

    def read() -> None:
        got.extend((event["seq"], event["attempt"]) for event in follow(path, stop=stop, poll_s=0.001))

    reader = threading.Thread(target=read)
    reader.start()
    promised = []
    for attempt, reports in enumerate((1, 40, 300, 1000), start=1):
        command = [sys.executable, "-c", WRITER, str(path), str(attempt)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(reports):
                promised.append((int(writer.stdout.readline()), attempt))
            writer.send_signal(signal.SIGKILL)
            # what it had promised and we had not read yet; its last line may be cut
            promised += [(int(line), attempt) for line in writer.stdout if line.endswith("\n")]
    with path.open("ab") as file:
        file.write(b'{"kind":"iteration","seq":')
    with EventWriter(path, attempt=5) as last:
        promised.append((last.seq, 5))
    stop.set()
    reader.join()
    assert [seq for seq, _ in got] == list(range(1, len(got) + 1))
    assert set(promised) <= set(got)
    assert [(event["seq"], event["attempt"]) for event in read_events(path)] == got


def test_follow_gives_what_was_stored_before_stop(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_lines(path, numbered(5))
    stop = threading.Event()
    stop.set()
    assert seqs(list(follow(path, 2, stop))) == [3, 4, 5]
