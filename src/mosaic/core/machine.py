"""Cores, GPUs and current boot of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from mosaic.core.errors import MosaicError

_TOOL = "nvidia-smi"
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


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the kernel's id of this boot; empty where there is none.

    Process ids and start times begin again with each boot. Without the boot's id, the record of a process from before
    it, or from another machine that shares the folder, may fit an unrelated process.
    """
    try:
        return _BOOT_ID.read_text().strip()
    except (FileNotFoundError, PermissionError):
        return ""


def is_current(recorded: str) -> bool:
    """Return whether a recorded boot is this one; empty, as in records of older versions, matches every boot."""
    return not recorded or recorded == boot_id()
