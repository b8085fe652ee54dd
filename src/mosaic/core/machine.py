"""Cores, GPUs and current boot of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NamedTuple

from mosaic.core.errors import MosaicError
from mosaic.core.system import boot_id

_TOOL = "nvidia-smi"
GPU_TABLE = (_TOOL, "--query-gpu=name,utilization.gpu,memory.used,memory.total", "--format=csv,noheader,nounits")
_PATIENCE_S = 20.0  # a driver takes seconds to wake up


def available_cores() -> int:
    """Count the cores that this process may use, not those that the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def count_gpus() -> int:
    """Count the GPUs, limited by CUDA_VISIBLE_DEVICES; 0 where the driver's tool is missing."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown == "" or shutil.which(_TOOL) is None:
        return 0
    try:
        done = subprocess.run([_TOOL, "-L"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise MosaicError(
            f"{_TOOL} did not respond within {_PATIENCE_S:g} s, so its driver may be "
            "broken. To run without GPUs, type: CUDA_VISIBLE_DEVICES= mosaic serve"
        ) from error
    if done.returncode != 0:
        return 0  # the tool is installed, but there is no driver
    there = sum(line.startswith("GPU ") for line in done.stdout.splitlines())
    if shown is None:
        return there
    return min(there, len([part for part in shown.split(",") if part.strip() not in ("", "-1")]))


class Gpu(NamedTuple):
    """Load of a GPU."""

    name: str
    busy: float  # percent
    used_gb: float
    memory_gb: float


def has_gpu_tool() -> bool:
    return shutil.which(_TOOL) is not None


def parse_gpus(table: str) -> tuple[Gpu, ...]:
    """Return the GPUs of what GPU_TABLE prints; a value that a GPU does not report, `[N/A]`, counts as 0."""
    found = []
    for line in table.splitlines():
        name, *texts = (part.strip() for part in line.rsplit(",", 3))
        if len(texts) == 3:
            busy, used, total = (float(text) if text.replace(".", "", 1).isdigit() else 0.0 for text in texts)
            found.append(Gpu(name, busy, used * 2**20 / 1e9, total * 2**20 / 1e9))
    return tuple(found)


def is_current(recorded: str) -> bool:
    """Return whether a recorded boot is this one; empty, as in records of older versions, matches every boot."""
    return not recorded or recorded == boot_id()
