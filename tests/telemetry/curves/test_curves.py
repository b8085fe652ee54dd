from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError, UnknownNameError
from mosaic.telemetry.curves import curves as columns_module
from mosaic.telemetry.curves import decode as scan
from mosaic.telemetry.curves.columns import Columns, transpose
from mosaic.telemetry.curves.curves import Curves, thinned
from mosaic.telemetry.curves.decode import Scanner
from mosaic.telemetry.events.event import AXES, MetricEvent, leaves
from mosaic.telemetry.events.writer import EventWriter
from tests.telemetry.event_cases import CALM, FIELDS, naive_visible, stories, write_lines

NOBODY = 65534
FINITE = st.floats(-1e6, 1e6) | st.floats(allow_nan=False, allow_infinity=False)


def run_of(folder: Path, events: Sequence[Mapping[str, Any]]) -> Path:
    write_lines(folder / "metrics.jsonl", events)
    return folder


def iterations(count: int) -> list[dict[str, Any]]:
    return [
        {"kind": "iteration", "seq": seq, "attempt": 1, "timestamp": 50.0 - seq, "env_steps": 10 * seq, "loss": seq % 7}
        for seq in range(1, count + 1)
    ]


# ---- thinning


def naive_thinned(points: list[tuple[float, float]], buckets: int) -> list[tuple[float, float, float, float]]:
    points = sorted(points, key=lambda point: point[0])
    if len(points) <= buckets:
        return [(x, y, y, y) for x, y in points]
    first, last = points[0][0] / 2, points[-1][0] / 2
    groups: dict[int, list[tuple[float, float]]] = {}
    for x, y in points:
        place = min((x / 2 - first) / (last - first) * buckets, buckets - 1) if last > first else 0
        groups.setdefault(int(place), []).append((x, y))
    rows = []
    for group in groups.values():
        xs, ys = [x for x, _ in group], [y for _, y in group]
        n = len(group)
        rows.append((math.fsum(x / n for x in xs), min(ys), max(ys), math.fsum(y / n for y in ys)))
    return rows


@CALM
@given(st.lists(st.tuples(FINITE, FINITE), max_size=60), st.integers(1, 12))
def test_a_thinned_curve_is_the_naive_one(points: list[tuple[float, float]], buckets: int) -> None:
    x, y = np.array([p[0] for p in points], float), np.array([p[1] for p in points], float)
    curve, naive = thinned(x, y, buckets), naive_thinned(points, buckets)
    assert len(curve.x) == len(naive) <= max(buckets, 0)
    for got, expected in zip(zip(*curve, strict=True), naive, strict=True):
        assert got[1:3] == expected[1:3]
        scale = max(abs(number) for pair in points for number in pair) or 1.0
        assert abs(got[0] / scale - expected[0] / scale) < 1e-9
        assert abs(got[3] / scale - expected[3] / scale) < 1e-9
        assert got[1] <= got[3] <= got[2]


@CALM
@given(st.lists(st.tuples(FINITE, FINITE), max_size=40), FINITE, FINITE)
def test_a_range_is_cut_out_before_thinning(points: list[tuple[float, float]], start: float, stop: float) -> None:
    x, y = np.array([p[0] for p in points], float), np.array([p[1] for p in points], float)
    inside = (x >= start) & (x <= stop)
    for got, expected in zip(thinned(x, y, 5, start, stop), thinned(x[inside], y[inside], 5), strict=True):
        np.testing.assert_array_equal(got, expected)


# ---- columns


def naive_columns(events: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for row, event in enumerate(events):
        for name, value in leaves(event):
            if isinstance(value, int | float):
                found.setdefault(name, {})[row] = float(value)
    return found


def as_dicts(columns: Columns) -> dict[str, dict[int, float]]:
    return {
        name: dict(zip(cells.rows.tolist(), cells.values.tolist(), strict=True))
        for name, cells in columns.cells.items()
    }


def as_events(fields: list[dict[str, Any]]) -> list[MetricEvent]:
    return [
        {"kind": "iteration", "seq": seq, "attempt": 1, "timestamp": 0.5, **given}  # type: ignore[typeddict-item]
        for seq, given in enumerate(fields, start=1)
    ]


@CALM
@given(st.lists(FIELDS, max_size=12))
def test_turned_events_hold_every_number_once(fields: list[dict[str, Any]]) -> None:
    events = as_events(fields)
    columns = transpose(events)
    assert as_dicts(columns) == naive_columns(events)
    assert columns.kinds == [event["kind"] for event in events]
    for axis in AXES:
        expected = [np.nan if event.get(axis) is None else float(event[axis]) for event in events]  # type: ignore[literal-required]
        np.testing.assert_array_equal(columns.frame[axis], np.array(expected, float))


@CALM
@given(st.lists(FIELDS, max_size=12), st.lists(FIELDS, max_size=12), st.integers(1, 600))
def test_the_fast_way_finds_what_the_slow_way_finds(
    first: list[dict[str, Any]], more: list[dict[str, Any]], piece: int
) -> None:
    """Again and again, so that shapes are learnt, used, refused and learnt anew."""
    fields = first * 3 + more + first + more
    events = as_events(fields)
    data = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_PIECE", piece)
        found = Scanner().columns(data + b'{"torn')
    expected = transpose(events)
    assert (found.end, found.damaged) == (len(data), 0)
    assert as_dicts(found.found) == as_dicts(expected)
    assert found.found.kinds == expected.kinds
    for name, values in expected.frame.items():
        np.testing.assert_array_equal(found.found.frame[name], values)


@pytest.mark.parametrize("piece", [1, 100, 100_000])
def test_damaged_lines_are_counted_by_the_fast_way_too(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_PIECE", piece)
    lines = [json.dumps(event).encode() + b"\n" for event in iterations(30)]
    lines[20:22] = [b"rubbish\n", b"\0\0\n", b'{"seq": 3}\n']
    whole = b"".join(lines)
    found = Scanner().columns(whole + b"rubbish at the end\n")
    assert (found.end, found.damaged) == (len(whole), 3)
    assert found.found.frame["seq"].tolist() == [*range(1, 21), *range(23, 31)]


# ---- the cache


def naive_points(events: Sequence[Mapping[str, Any]], metric: str, x: str) -> list[tuple[float, float]]:
    shown = [event for event in naive_visible(events) if event["kind"] == "iteration"]
    return [(event[x], event[metric]) for event in shown if event.get(x) is not None and event.get(metric) is not None]


@settings(CALM, max_examples=50)
@given(stories(), st.sampled_from(["env_steps", "timestamp", "seq"]), st.integers(1, 6))
def test_a_query_is_the_naive_one_over_all_that_is_visible(events: list[MetricEvent], x: Any, buckets: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = run_of(Path(folder), events)
        points = naive_points(events, "loss", x)
        if not any(event["kind"] == "iteration" for event in events):
            return
        for _ in ("cold", "warm"):
            curve = Curves(run).query("loss", x, buckets)
            naive = naive_thinned(points, buckets)
            assert [*zip(curve.low, curve.high, strict=True)] == [(low, high) for _, low, high, _ in naive]
            np.testing.assert_allclose(curve.x, [row[0] for row in naive])
            np.testing.assert_allclose(curve.mean, [row[3] for row in naive], atol=1e-12)


@settings(CALM, max_examples=25)
@given(stories(), st.lists(st.integers(0, 2000), max_size=5))
def test_a_cache_grown_bit_by_bit_is_one_made_at_once(events: list[MetricEvent], cuts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        run, data = Path(folder), b"".join(json.dumps(event).encode() + b"\n" for event in events)
        kept = Curves(run)
        for cut in [*sorted(cuts), len(data)]:
            (run / "metrics.jsonl").open("ab").close()
            with (run / "metrics.jsonl").open("r+b") as file:
                file.write(data[:cut])
            kept.table()
            Curves(run).table()  # another process grows it too
        at_once = Curves(run_of(Path(other), events))
        for kind in ("iteration", "evaluation", "alert", "resumed"):
            for name, column in at_once.table(kind).items():
                np.testing.assert_array_equal(kept.table(kind)[name], column)


def test_a_table_holds_the_visible_events_of_a_kind(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "metrics.jsonl", attempt=1, clock=lambda: 3.0) as writer:
        writer.report(env_steps=10, policies={"left": {"learner": {"loss": 0.5}}})
        writer.report(env_steps=20)
        writer.report(kind="evaluation", env_steps=20, episode_reward_mean=7.0)
        writer.report(env_steps=30, custom_metrics={"note": "text", "speed": True})
    with EventWriter(tmp_path / "metrics.jsonl", attempt=2, clock=lambda: 2.0) as writer:
        writer.report(kind="resumed", from_env_steps=20)
        writer.report(env_steps=25, episode_reward_mean=1.5)
    curves, nan = Curves(tmp_path), math.nan
    table = curves.table()
    assert list(table) == [*AXES, "policies/left/learner/loss", "episode_reward_mean"]
    np.testing.assert_array_equal(table["env_steps"], [10, 20, 25])
    np.testing.assert_array_equal(table["timestamp"], [3, 3, 2])
    np.testing.assert_array_equal(table["policies/left/learner/loss"], [0.5, nan, nan])
    np.testing.assert_array_equal(table["episode_reward_mean"], [nan, nan, 1.5])
    np.testing.assert_array_equal(curves.table("evaluation")["evaluation/episode_reward_mean"], [7.0])
    assert list(curves.table(names=["env_steps"])) == ["env_steps"]
    assert curves.names() == (
        *("env_steps", "timestamp", "seq", "custom_metrics/speed", "episode_reward_mean"),
        *("evaluation/episode_reward_mean", "policies/left/learner/loss", "resumed/from_env_steps"),
    )
    assert curves.query("env_steps", "seq").mean.tolist() == [10, 20, 25]


def test_an_evaluation_does_not_lie_on_the_training_curve(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "metrics.jsonl", attempt=1) as writer:
        writer.report(env_steps=1, episode_reward_mean=1.0)
        writer.report(kind="evaluation", env_steps=1, episode_reward_mean=9.0)
    assert Curves(tmp_path).query("episode_reward_mean").mean.tolist() == [1.0]
    assert Curves(tmp_path).query("evaluation/episode_reward_mean").mean.tolist() == [9.0]


def test_unknown_names_are_explained(tmp_path: Path) -> None:
    curves = Curves(run_of(tmp_path, iterations(3)))
    with pytest.raises(
        UnknownNameError, match=r"There is no metric named 'los'\. Did you mean 'loss'\? Known: agent_steps, "
    ):
        curves.query("los")
    with pytest.raises(UnknownNameError, match=r"There is no axis named 'env_step'\. Did you mean 'env_steps'\?"):
        curves.query("loss", "env_step")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="A curve needs at least one bucket, not 0"):
        curves.query("loss", buckets=0)
    assert len(curves.query("episode_reward_mean").x) == 0  # a name every run may have, before it has one


def test_a_run_without_events_has_empty_curves_and_no_cache(tmp_path: Path) -> None:
    curves = Curves(tmp_path)
    assert curves.names() == ()
    assert curves.table() == {}
    assert len(curves.query("anything").x) == 0
    assert list(tmp_path.iterdir()) == []


def flip_a_byte(cache: Path) -> None:
    (largest, *_) = sorted(cache.glob("*.column"), key=lambda path: (-path.stat().st_size, path.name))
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)


def cut_all(cache: Path) -> None:
    for path in cache.glob("*.column"):
        os.truncate(path, path.stat().st_size // 2)


def remove_all(cache: Path) -> None:
    for path in cache.glob("*.column"):
        path.unlink()


def wrong_head(cache: Path) -> None:
    (cache / "head.json").write_text('{"body": 3}', "utf-8")


def changed_head(cache: Path) -> None:
    head = json.loads((cache / "head.json").read_text("utf-8"))
    (cache / "head.json").write_text(json.dumps({**head, "body": head["body"].replace("40", "39")}), "utf-8")


def torn_head(cache: Path) -> None:
    os.truncate(cache / "head.json", 40)


@pytest.mark.parametrize("damage", [flip_a_byte, cut_all, remove_all, wrong_head, changed_head, torn_head])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    run = run_of(tmp_path, iterations(40))
    expected = Curves(run).table()
    damage(run / "cache" / "curves")
    for _ in range(2):
        for name, column in Curves(run).table().items():
            np.testing.assert_array_equal(column, expected[name])


def test_another_file_under_the_same_name_is_noticed(tmp_path: Path) -> None:
    curves = Curves(run_of(tmp_path, iterations(40)))
    assert len(curves.query("loss").x) == 40
    for other in (iterations(5), [{**event, "loss": 3} for event in iterations(60)]):
        run_of(tmp_path, other)
        assert curves.query("loss").mean.tolist() == [event["loss"] for event in other]
        assert Curves(tmp_path).query("loss").mean.tolist() == [event["loss"] for event in other]


def test_a_growing_run_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class CountingScanner(Scanner):
        def columns(self, data: bytes) -> Any:
            read.append(len(data))
            return super().columns(data)

    monkeypatch.setattr(columns_module, "Scanner", CountingScanner)
    path = tmp_path / "metrics.jsonl"
    write_lines(path, iterations(40))
    Curves(tmp_path).query("loss")
    assert sum(read) == path.stat().st_size
    read.clear()
    before = path.stat().st_size
    write_lines(path, iterations(50))
    assert len(Curves(tmp_path).query("loss").x) == 50
    assert sum(read) == path.stat().st_size - before


ASK = """
import sys
from pathlib import Path
from mosaic.telemetry.curves.curves import Curves
curves = Curves(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    curve = curves.query("loss", "seq", buckets=10**6)
    assert curve.x.tolist() == list(range(1, len(curve.x) + 1)), curve.x
print(len(curve.x))
"""


def test_processes_share_a_cache(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASK, str(tmp_path)]
    readers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    with EventWriter(tmp_path / "metrics.jsonl", attempt=1) as writer:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        writer.report(loss=0)
        for reader in readers:
            assert reader.stdin is not None
            reader.stdin.write("go\n")
            reader.stdin.flush()
        for index in range(3000):
            writer.report(loss=index)
    for reader in readers:
        reader.communicate()
        assert reader.returncode == 0
    assert len(Curves(tmp_path).query("loss", "seq", buckets=10**6).x) == 3001


@contextmanager
def unwritable(run: Path, private: Path) -> Iterator[None]:
    """Root may write anywhere: as root, step down for a while."""
    root = os.geteuid() == 0
    run.chmod(0o555)
    if root:
        os.chown(private, NOBODY, NOBODY)
        for folder in [run, *run.parents]:
            if folder.stat().st_mode & 0o055 != 0o055 and folder.stat().st_uid == 0:
                folder.chmod(folder.stat().st_mode | 0o055)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        run.chmod(0o755)


def test_a_folder_that_cannot_be_written_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, private = tmp_path / "run", tmp_path / "private"
    run.mkdir()
    private.mkdir()
    run_of(run, iterations(5))
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    with unwritable(run, private):
        curves = Curves(run)
        assert curves.query("loss").mean.tolist() == [1, 2, 3, 4, 5]
        assert len(list(private.iterdir())) == 1
        del curves
        assert list(private.iterdir()) == []
    assert [path.name for path in run.iterdir()] == ["metrics.jsonl"]
