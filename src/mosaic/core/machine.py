"""Cores, GPUs, free memory and current boot of this machine.

Memory is what the machine and the control groups of the process (containers) leave for new buffers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.system import boot_id

_TOOL = "nvidia-smi"
GPU_TABLE = (_TOOL, "--query-gpu=name,utilization.gpu,memory.used,memory.total", "--format=csv,noheader,nounits")
_PATIENCE_S = 20.0  # a driver takes seconds to wake up
_GIGABYTE = 1e9
_GROUPS = Path("/sys/fs/cgroup")
_OF_THIS_PROCESS = Path("/proc/self/cgroup")
# Limit, usage, and the line of memory.stat that counts reclaimable file cache; for both versions of control groups.
_FILES = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_cores() -> int:
    """Count the cores that this process may use, not those that the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:  # a branch of its own, which mypy leaves out on Linux
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


def free_memory() -> int:
    """Return the bytes that this process can still allocate."""
    import psutil

    return min([int(psutil.virtual_memory().available), *group_memory(_GROUPS, _OF_THIS_PROCESS)])


def group_memory(groups: Path, of_process: Path) -> list[int]:
    """Return the bytes left under the limit of each control group of the process; empty where none has a limit."""
    try:
        lines = [line.split(":", 2) for line in of_process.read_text().splitlines()]
    except OSError:  # not Linux
        return []
    left = []
    for controllers, path in ((line[1], line[2]) for line in lines if len(line) == 3):
        for folder, limit, use, cached in _FILES:
            if folder not in controllers.split(","):
                continue
            place = Path(path.lstrip("/"))
            for group in (place, *place.parents):
                left += _left(groups / folder / group, limit, use, cached)
    return left


def _left(group: Path, limit: str, use: str, cached: str) -> list[int]:
    try:
        most = (group / limit).read_text().strip()
        if not most.isdecimal():  # "max"
            return []
        facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used = int((group / use).read_text()) - int(facts.get(cached, 0))
    except OSError:  # a container does not see the groups above its own
        return []
    return [max(0, int(most) - used)]


def check_memory(what: str, needed: int, advice: str, *, limit_mb: int | None = None) -> None:
    """Raise InputError where `what` needs more bytes than are free, or than the run may use."""
    free = free_memory()
    if needed > free:
        raise InputError(
            f"{what} {_size(needed)}, and {_size(free)} are free on this machine. {advice}",
        )
    if limit_mb is not None and needed > limit_mb * 10**6:
        raise InputError(
            f"{what} {_size(needed)}, and resources.max_memory_mb allows {_size(limit_mb * 10**6)}. {advice}"
        )


def _size(count: int) -> str:
    return f"{count / _GIGABYTE:,.1f} GB" if count >= _GIGABYTE / 10 else f"{count / 1e6:,.1f} MB"
