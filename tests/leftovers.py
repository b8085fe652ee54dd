"""Runs that a failed test left behind."""

from __future__ import annotations

from pathlib import Path

import psutil


def stop_runs_below(folder: Path) -> None:
    """Ask the supervisors of all live runs below the folder to stop; they end their workers themselves."""
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "mosaic.runs.supervisor" in line and any(part.startswith(f"{folder}/") for part in line):
            try:
                process.terminate()
            except psutil.NoSuchProcess:
                continue
