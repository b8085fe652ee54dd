"""Compiling is counted apart from work."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mosaic.config.run import RunConfig
from mosaic.core import compile_time
from mosaic.core import numba_cache as compiled
from mosaic.core.compile_time import CompileTimer, timer, working_time
from mosaic.store.run_folder import RunFolder
from mosaic.telemetry.events.writer import EventWriter
from mosaic.workers import host
from mosaic.workers.context import WorkerContext
from mosaic.workers.inbox import Inbox


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_functions_within_a_function_count_once_in_time_and_each_in_number() -> None:
    clock, said = Clock(), []
    times = CompileTimer(clock)
    times.on_first = lambda: said.append("first")
    assert times.current() is None
    with times.compiling("outer"):
        clock.now_s += 2
        with times.compiling("inner"):
            clock.now_s += 3
            assert str(times.current()).startswith("compiling machine code (2 functions, 5 s so far)")
        clock.now_s += 1
    clock.now_s += 10
    assert times.current() is None
    assert times.seconds() == pytest.approx(6)
    assert said == ["first"]


def test_a_function_that_cannot_be_compiled_ends_its_time_too() -> None:
    times = CompileTimer(Clock())
    with pytest.raises(ValueError, match="no"), times.compiling("outer"):
        raise ValueError("no")
    assert times.current() is None


def test_numba_tells_when_it_compiles_and_not_when_it_finds_code_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)

    def make() -> Any:
        @compiled.njit(cache=True)
        def twice(x: float) -> float:
            return x * 2

        return twice

    before_s = timer.seconds()
    began_s = working_time()
    assert make()(2.0) == 4.0
    spent_s = timer.seconds() - before_s
    assert spent_s > 0
    assert working_time() - began_s >= 0
    assert make()(2.0) == 4.0
    assert timer.seconds() - before_s == spent_s


def test_pointers_to_compiled_functions_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)
    before_s = timer.seconds()

    @compiled.cfunc("float64(float64)", cache=True, nopython=True)
    def twice(x: float) -> float:
        return x * 2

    assert twice.ctypes(2.0) == 4.0
    assert timer.seconds() > before_s


def test_a_run_counts_compiling_as_preparation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(compile_time, "perf_counter", clock)
    monkeypatch.setattr(timer, "_clock", clock)

    def run(context: WorkerContext) -> None:
        with timer.compiling("step"):
            clock.now_s += 45
        clock.now_s += 2

    config = RunConfig.model_validate({"environment": {"env_id": "gym/CartPole-v1"}})
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    with EventWriter(folder.metrics, 1) as writer:
        context = WorkerContext(config, SimpleNamespace(), folder, writer, Inbox())  # type: ignore[arg-type]
        host._train(SimpleNamespace(run=run), context, writer, lambda *_, **__: None)  # type: ignore[arg-type]
    ended = [json.loads(line) for line in folder.metrics.read_text().splitlines()][-1]
    assert ended["kind"] == "ended"
    assert ended["train_s"] == pytest.approx(2)
    assert ended["prepare_s"] == pytest.approx(45)
