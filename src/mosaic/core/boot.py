"""Identity of the machine's current boot.

Process numbers and start times begin again with each boot: a record of a process from before it, or from another
machine that shares the folder, may fit a process that has nothing to do with it.
"""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the kernel's id of this boot; empty where it has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except (FileNotFoundError, PermissionError):
        return ""


def is_current(recorded: str) -> bool:
    """Whether a recorded boot is this one; empty, as in records of older versions, fits every boot."""
    return not recorded or recorded == boot_id()
