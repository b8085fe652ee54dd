"""Whether the process that writes a frame ring is alive."""

from __future__ import annotations

from pathlib import Path


def started_at(pid: int) -> int | None:
    """In ticks since boot. None where no such process is alive; a zombie is not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name in brackets may hold anything
    return None if fields[0] in "ZX" else int(fields[19])
