"""Use of the machine by runs: sampled by supervisors, read with care."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.core.proc import read_stat
from mosaic.runs.monitoring import UsageMeter
from mosaic.store.run_folder import RunFolder
from mosaic.store.usage import UsageSample, append_usage, interval_s, read_usage


def test_samples_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert read_usage(folder) == []
    samples = [UsageSample(1000.0 + 2 * number, number / 4, 100.0 * number) for number in range(3)]
    for sample in samples:
        append_usage(folder, sample)
    assert read_usage(folder) == samples


def test_samples_of_machines_with_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'H200, 40, 1000, 9000'\necho 'H200, 60, 2000, 9000'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    folder, meter = RunFolder(tmp_path), UsageMeter(RunFolder(tmp_path), started_s=0.0)
    at_s = 0.0
    while not read_usage(folder) or read_usage(folder)[-1].gpu_percent is None:  # until the tool has said something
        at_s += 10.0
        meter.look(at_s)
    meter.gpus.close()
    assert read_usage(folder)[0].gpu_percent is None
    assert (read_usage(folder)[-1].gpu_percent, read_usage(folder)[-1].gpu_memory_mb) == (50.0, 3146.0)


def test_what_is_not_a_sample_is_left_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.usage.write_bytes(
        b"1,2,3\nnonsense\n1,2\n1,nan,3\n1,-1,3\n1,inf,3\n\xff,1,2\n4,5,6\n1,2,3,4\n1,2,3,4,5\n7,8"
    )
    assert read_usage(folder) == [UsageSample(1, 2, 3), UsageSample(4, 5, 6), UsageSample(1, 2, 3, 4, 5)]


def test_long_runs_are_sampled_less_often() -> None:
    assert [interval_s(age) for age in (0, 600, 100_000)] == [2.0, 2.0, 200.0]


def test_a_busy_process_of_a_run_is_seen(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    busy = "import sys; data = b'x' * 80_000_000; print('up', flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        meter = UsageMeter(folder, started_s=0.0)
        meter.look(1.0)
        assert read_usage(folder) == []  # not due yet
        meter.look(10.0)
        before = read_stat(process.pid)
        used_s = 0.0 if before is None else before.cpu_s
        while (stat := read_stat(process.pid)) is not None and stat.cpu_s <= used_s:
            pass
        meter.look(20.0)
        process.kill()
    first, second = read_usage(folder)
    assert first.memory_mb == pytest.approx(second.memory_mb, abs=20)
    assert first.memory_mb > 80
    assert second.cores >= 0
