"""Cores, memory and GPUs that were used while a run ran: lines that its supervisor appends to `usage.csv`."""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

from mosaic.store.run_folder import RunFolder

FIRST_INTERVAL_S = 2.0
_SAMPLES = 500  # about as many per length of the run: the interval grows with its age
_LONGEST = 1 << 20  # bytes read; months of a run have fewer


class UsageSample(NamedTuple):
    timestamp: float
    cores: float  # mean number of busy cores since the sample before
    memory_mb: float  # resident, of all processes together
    gpu_percent: float | None = None  # how busy the machine's GPUs are, on average; None where there is none
    gpu_memory_mb: float | None = None  # of all GPUs together


def interval_s(age_s: float) -> float:
    """Return how long to wait for the next sample of a run that is this old."""
    return max(FIRST_INTERVAL_S, age_s / _SAMPLES)


def append_usage(folder: RunFolder, sample: UsageSample) -> None:
    with folder.usage.open("a") as file:
        gpus = "" if sample.gpu_memory_mb is None else f",{sample.gpu_percent:.0f},{sample.gpu_memory_mb:.0f}"
        file.write(f"{sample.timestamp:.1f},{sample.cores:.2f},{sample.memory_mb:.0f}{gpus}\n")


def read_usage(folder: RunFolder) -> list[UsageSample]:
    """Return the samples in order; lines that are not samples (cut off, or of an imported file) are left out."""
    try:
        with folder.usage.open("rb") as file:
            lines = file.read(_LONGEST).split(b"\n")
    except FileNotFoundError:
        return []
    return [sample for line in lines if (sample := _sample(line))]


def _sample(line: bytes) -> UsageSample | None:
    try:
        sample = UsageSample(*map(float, line.split(b",")))
    except (ValueError, TypeError):
        return None
    known = [value for value in sample if value is not None]
    return sample if all(isfinite(value) and value >= 0 for value in known) and len(known) in (3, 5) else None
