from __future__ import annotations

import errno
import json
import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.core.errors import FormatError, MosaicError
from mosaic.telemetry.events.event import UnstorableEventError
from mosaic.telemetry.events.reader import read_events
from mosaic.telemetry.events.writer import EventWriter
from tests.telemetry.event_cases import CALM, FIELDS


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For hypothesis, which does not make a new folder per example."""
    return tmp_path_factory.mktemp("events")


def fresh(scratch: Path) -> Path:
    path = scratch / "metrics.jsonl"
    path.unlink(missing_ok=True)
    return path


@CALM
@given(st.lists(FIELDS, max_size=5))
def test_any_event_survives_writing_and_reading(scratch: Path, given: list[dict[str, Any]]) -> None:
    path = fresh(scratch)
    with EventWriter(path, attempt=3, clock=lambda: 12.5) as writer:
        assert [writer.report(**fields) for fields in given] == list(range(1, len(given) + 1))
    frame = {"kind": "iteration", "attempt": 3, "timestamp": 12.5}
    assert list(read_events(path)) == [{**frame, "seq": seq, **fields} for seq, fields in enumerate(given, start=1)]


@CALM
@given(st.lists(FIELDS, min_size=1, max_size=4), st.data())
def test_a_file_cut_at_any_byte_is_repaired(scratch: Path, given: list[dict[str, Any]], data: st.DataObject) -> None:
    path = fresh(scratch)
    with EventWriter(path, attempt=1, clock=lambda: 1.5) as writer:
        for fields in given:
            writer.report(fields)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    torn = cut - (whole[:cut].rfind(b"\n") + 1)

    with EventWriter(path, attempt=2) as writer:
        assert writer.dropped_bytes == torn
        writer.report(kind="resumed", from_env_steps=0)
    events = list(read_events(path))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["attempt"] for event in events] == [1] * kept + [2] * (len(events) - kept)
    alerts = [event for event in events[kept:] if event["kind"] == "alert"]
    assert [alert["dropped_bytes"] for alert in alerts] == ([torn] if torn else [])  # type: ignore[typeddict-item]
    if torn:
        assert alerts[0]["message"] == (
            f"The last {torn} bytes of the metrics were incomplete and were dropped; the event before them "
            f"has seq {kept}."
        )


def test_every_cut_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with EventWriter(path, attempt=1) as writer:
        for steps in range(3):
            writer.report(env_steps=steps, custom_metrics={"text": "\n ü"})
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        EventWriter(path, attempt=2).close()
        kept = [event for event in read_events(path) if event["kind"] == "iteration"]
        assert [event["env_steps"] for event in kept] == list(range(whole[:cut].count(b"\n")))


@pytest.mark.parametrize("rubbish", [b"\0" * 9000, b"\0" * 500 + b"\n" + b"\0" * 20, b'{"seq": "x"}\n', b"\xff\xfe\n"])
def test_what_a_power_cut_leaves_behind_the_last_event_is_dropped(tmp_path: Path, rubbish: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    with EventWriter(path, attempt=1) as writer:
        writer.report(env_steps=1)
    whole = path.read_bytes()
    path.write_bytes(whole + rubbish)
    with EventWriter(path, attempt=2) as writer:
        assert writer.dropped_bytes == len(rubbish)
    assert [event["seq"] for event in read_events(path)] == [1, 2]


def test_the_last_event_is_found_behind_a_long_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with EventWriter(path, attempt=1) as writer:
        writer.report(env_steps=1)
        writer.report(custom_metrics={"long": "x" * 300_000})
    path.write_bytes(path.read_bytes()[:-1])
    with EventWriter(path, attempt=2) as writer:
        assert writer.dropped_bytes > 300_000
    assert [(event["seq"], event["kind"]) for event in read_events(path)] == [(1, "iteration"), (2, "alert")]


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with EventWriter(path, attempt=1) as writer:
        writer.report(
            env_steps=np.int64(7),
            episode_reward_mean=math.nan,
            custom_metrics={"a": [math.inf, np.float32(0.5)], "b": np.array([1.0, -math.inf]), "c": np.float64("nan")},
        )
    (event,) = read_events(path)
    assert event["env_steps"] == 7
    assert event["episode_reward_mean"] is None
    assert event["custom_metrics"] == {"a": [None, 0.5], "b": [1.0, None], "c": None}


def test_what_json_cannot_hold_is_refused_and_takes_no_number(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with EventWriter(path, attempt=1) as writer:
        with pytest.raises(
            UnstorableEventError,
            match=r"The event 'episode' cannot be stored: .* is of type object\. "
            r"Report numbers, strings, and lists and dicts of these\.",
        ):
            writer.report(kind="episode", thing=object())
        with pytest.raises(UnstorableEventError, match="surrogates not allowed"):
            writer.report(message="\ud800")
        with pytest.raises(TypeError, match="seq and attempt are set by the writer"):
            writer.report(seq=4)
        with pytest.raises(TypeError, match="An event's kind is a string, not 3"):
            writer.report(kind=3)
        assert writer.report(env_steps=1) == 1
    with pytest.raises(ValueError, match=r"The event writer of '.*metrics\.jsonl' is closed\."):
        writer.report(env_steps=2)


def test_there_is_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with EventWriter(path, attempt=1), pytest.raises(MosaicError, match=r"Another process is writing '.*':"):
        EventWriter(path, attempt=2)
    EventWriter(path, attempt=2).close()


def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader,\nhere", "utf-8")
    with pytest.raises(FormatError, match=r"'.*letter\.txt' holds no metric events; it was left unchanged\."):
        EventWriter(path, attempt=1)
    assert path.read_text("utf-8") == "Dear reader,\nhere"


def test_threads_share_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with EventWriter(path, attempt=1) as writer:

        def report(thread: int) -> None:
            for index in range(200):
                writer.report(thread=thread, index=index)

        threads = [threading.Thread(target=report, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events: list[Any] = list(read_events(path))
    assert [event["seq"] for event in events] == list(range(1, 801))
    for number in range(4):
        assert [event["index"] for event in events if event["thread"] == number] == list(range(200))


FULL_DISK = """
import json, resource, signal, sys
from pathlib import Path
from mosaic.telemetry.events.writer import EventWriter
path, limit = Path(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
with EventWriter(path, attempt=1, clock=lambda: 1.5) as writer:
    try:
        while True:
            writer.report(env_steps=writer.seq, custom_metrics={"fill": "x" * 40})
    except OSError as error:
        failure = {"errno": error.errno, "text": str(error), "seq": writer.seq}
    failure["size"] = path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    failure["next"] = writer.report(env_steps=0)
print(json.dumps(failure))
"""


@pytest.mark.parametrize("limit", [1000, 1001, 1053, 5000])
def test_a_full_disk_leaves_no_torn_line(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "metrics.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), str(limit)], capture_output=True, text=True, check=True
    )
    failure = json.loads(done.stdout)
    assert failure["errno"] == errno.EFBIG
    assert failure["text"] == (
        f"[Errno {errno.EFBIG}] File too large: the event with seq {failure['seq'] + 1} was not stored; "
        f"all before it were: '{path}'"
    )
    before, after = path.read_bytes()[: failure["size"]], path.read_bytes()[failure["size"] :]
    assert before.count(b"\n") == failure["seq"]
    assert before.endswith(b"\n")
    assert failure["next"] == failure["seq"] + 1
    assert after.count(b"\n") == 1
    assert [event["seq"] for event in read_events(path)] == list(range(1, failure["next"] + 1))
