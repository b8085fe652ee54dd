"""Free memory for new buffers, within the limits of the machine and of the process's control groups (containers)."""

from __future__ import annotations

from pathlib import Path

from mosaic.core.errors import InputError

_GIGABYTE = 1e9
_GROUPS = Path("/sys/fs/cgroup")
_OF_THIS_PROCESS = Path("/proc/self/cgroup")
# Limit, usage, and the line of memory.stat that counts reclaimable file cache; for both versions of control groups.
_FILES = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


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
