from __future__ import annotations

import csv
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import MissingExtraError, UnknownNameError
from mosaic.core.plugins import plugins as installed
from mosaic.telemetry.events.event import MetricEvent, leaves
from mosaic.telemetry.events.reader import read_events, visible
from mosaic.telemetry.events.writer import EventWriter
from mosaic.telemetry.sinks.base import mirror
from tests.telemetry.event_cases import CALM, stories, write_lines

PLUGINS = """
[mosaic.sinks]
csv = mosaic.telemetry.sinks.csv:CsvSink
tensorboard = mosaic.telemetry.sinks.tensorboard:TensorBoardSink
listing = listing_sink:ListingSink
needy = needy_sink:open_sink
"""
LISTING = """
class ListingSink:
    sessions = []
    wrote = None
    def __init__(self, run_folder):
        self.events = []
        self.sessions.append(self.events)
    def write(self, event):
        self.events.append(event)
        if self.wrote is not None:
            self.wrote(event)
    def close(self):
        self.events.append("closed")
"""


@pytest.fixture(scope="module", autouse=True)
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An installed package that offers sinks."""
    site = tmp_path_factory.mktemp("site")
    info = site / "sinks_for_tests-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sinks-for-tests\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(PLUGINS, "utf-8")
    (site / "listing_sink.py").write_text(LISTING, "utf-8")
    (site / "needy_sink.py").write_text("import package_that_nobody_has\n", "utf-8")
    sys.path.insert(0, str(site))
    installed.cache_clear()  # an earlier test may have asked for the list
    yield
    sys.path.remove(str(site))
    installed.cache_clear()
    sys.modules.pop("listing_sink", None)


def copied(run: Path, *names: str) -> None:
    """What a whole session of the mirrors leaves behind."""
    stop = threading.Event()
    stop.set()
    mirror(run, names, stop)


def resumed_run(run: Path) -> None:
    with EventWriter(run / "metrics.jsonl", attempt=1, clock=lambda: 100.0) as writer:
        writer.report(env_steps=10, episode_reward_mean=1.0)
        writer.report(env_steps=20, episode_reward_mean=2.0, policies={"left": {"learner": {"loss": 0.5}}})
        writer.report(kind="alert", message="hot, very", parts=[1, 2])
        writer.report(env_steps=30, episode_reward_mean=3.0)


def go_back(run: Path) -> None:
    with EventWriter(run / "metrics.jsonl", attempt=2, clock=lambda: 90.0) as writer:
        writer.report(kind="resumed", from_env_steps=10)
        writer.report(env_steps=15, episode_reward_mean=None, custom_metrics={"new": 7})


def table(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def scalars(run: Path) -> list[tuple[str, int, float]]:
    """Tag, step and value of every scalar, from the records as TensorBoard's own reader takes them apart."""
    from tensorboardX.crc32c import crc32c
    from tensorboardX.proto.event_pb2 import Event

    def masked(data: bytes) -> int:
        checksum = crc32c(data)
        return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF

    found = []
    (path,) = (run / "tensorboard").iterdir()
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        body = data[12 : 12 + length]
        assert struct.unpack("<I", data[8:12]) == (masked(data[:8]),)
        assert struct.unpack("<I", data[12 + length : 16 + length]) == (masked(body),)
        event = Event.FromString(body)
        found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
        data = data[16 + length :]
    return found


def test_csv_grows_columns_and_forgets_what_was_taken_back(tmp_path: Path) -> None:
    resumed_run(tmp_path)
    copied(tmp_path, "csv")
    rows = table(tmp_path)
    assert [(row["seq"], row["env_steps"], row["episode_reward_mean"]) for row in rows] == [
        ("1", "10", "1.0"),
        ("2", "20", "2.0"),
        ("3", "", ""),
        ("4", "30", "3.0"),
    ]
    assert [row["policies/left/learner/loss"] for row in rows] == ["", "0.5", "", ""]
    assert (rows[2]["kind"], rows[2]["alert/message"], rows[2]["alert/parts"]) == ("alert", "hot, very", "[1, 2]")

    go_back(tmp_path)
    copied(tmp_path, "csv")
    rows = table(tmp_path)
    assert [row["seq"] for row in rows] == ["1", "3", "5", "6"]
    assert [row["custom_metrics/new"] for row in rows] == ["", "", "", "7"]
    assert "policies/left/learner/loss" not in rows[0]


@settings(CALM, max_examples=25)
@given(stories())
def test_csv_holds_exactly_what_is_visible(tmp_path_factory: pytest.TempPathFactory, events: list[MetricEvent]) -> None:
    run = tmp_path_factory.getbasetemp() / "csv-run"
    run.mkdir(exist_ok=True)
    write_lines(run / "metrics.jsonl", events)
    copied(run, "csv")
    for row, event in zip(table(run), visible(events), strict=True):
        said: dict[str, Any] = {**{key: event.get(key) for key in ("kind", "seq", "env_steps")}, **dict(leaves(event))}
        assert {key: row[key] for key in said} == {
            key: "" if value is None else str(value) for key, value in said.items()
        }


@pytest.mark.slow  # tensorboardX imports torch where it finds it
@pytest.mark.chosen
def test_tensorboard_shows_what_is_visible(tmp_path: Path) -> None:
    resumed_run(tmp_path)
    copied(tmp_path, "tensorboard")
    assert scalars(tmp_path) == [
        ("episode_reward_mean", 10, 1.0),
        ("episode_reward_mean", 20, 2.0),
        ("policies/left/learner/loss", 20, 0.5),
        ("episode_reward_mean", 30, 3.0),
    ]
    (tmp_path / "tensorboard" / "events.out.tfevents.1.old-session").write_bytes(b"torn")
    go_back(tmp_path)
    copied(tmp_path, "tensorboard")
    assert scalars(tmp_path) == [("episode_reward_mean", 10, 1.0), ("custom_metrics/new", 15, 7.0)]


def test_a_run_that_is_resumed_meanwhile_is_mirrored_anew(tmp_path: Path) -> None:
    from listing_sink import ListingSink  # type: ignore[import-not-found]

    ListingSink.sessions.clear()
    first, last, stop = threading.Event(), threading.Event(), threading.Event()

    def wrote(event: MetricEvent) -> None:
        {4: first, 6: last}.get(event["seq"], threading.Event()).set()

    ListingSink.wrote = staticmethod(wrote)
    resumed_run(tmp_path)
    thread = threading.Thread(target=mirror, args=(tmp_path, ["listing", "csv"], stop, 0.001))
    thread.start()
    assert first.wait(60)
    go_back(tmp_path)
    assert last.wait(60)
    stop.set()
    thread.join()
    ListingSink.wrote = None
    old, new = ListingSink.sessions
    assert [event if event == "closed" else event["seq"] for event in old] == [1, 2, 3, 4, "closed"]
    assert new == [*visible(read_events(tmp_path / "metrics.jsonl")), "closed"]
    assert [row["seq"] for row in table(tmp_path)] == ["1", "3", "5", "6"]


@settings(CALM, max_examples=25)
@given(stories(), st.integers(0, 40))
def test_a_plug_in_gets_what_is_visible_in_any_session(
    tmp_path_factory: pytest.TempPathFactory, events: list[MetricEvent], cut: int
) -> None:
    from listing_sink import ListingSink

    run = tmp_path_factory.getbasetemp() / "plug-in-run"
    run.mkdir(exist_ok=True)
    for stored in (events[:cut], events):
        write_lines(run / "metrics.jsonl", stored)
        ListingSink.sessions.clear()
        copied(run, "listing")
        assert ListingSink.sessions == [[*visible(stored), "closed"]]


def test_unknown_and_unusable_mirrors_are_explained(tmp_path: Path) -> None:
    assert {"csv", "listing", "needy", "tensorboard"} <= set(installed("mosaic.sinks"))
    with pytest.raises(
        UnknownNameError, match=r"There is no mirror named 'tensorbord'\. Did you mean 'tensorboard'\? Known: csv"
    ):
        copied(tmp_path, "tensorbord")
    with pytest.raises(
        MissingExtraError,
        match="The mirror 'needy' needs the Python package 'package_that_nobody_has', which is not installed",
    ):
        copied(tmp_path, "needy")
