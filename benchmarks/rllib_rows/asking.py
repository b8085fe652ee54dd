"""Measurements in separate processes, each of which prints its figures as one line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from ppo_rows.measure import Outcome, Unmeasured, keep_on, raise_if_missing

_HERE = Path(__file__).parent


def ask(script: str, question: dict[str, Any], cores: set[int] | None = None) -> dict[str, Any]:
    """Run a script; `cores` are the only ones that the process and its children may use."""
    command = [sys.executable, "-W", "ignore", str(_HERE / script), json.dumps(question)]
    keep = (lambda: keep_on(cores)) if cores else None
    with TemporaryFile("w+") as errors:
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=keep)
        errors.seek(0)
        said = errors.read().strip().splitlines()
    answers = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    if not answers:
        raise_if_missing(said[-1] if said else "")
        raise Unmeasured(f"{script} ended with {ended.returncode}: {' '.join(said[-3:])}")
    answer: dict[str, Any] = json.loads(answers[-1])
    return answer


def ask_speed(script: str, question: dict[str, Any], cores: set[int] | None = None) -> Outcome:
    return Outcome(**ask(script, question, cores))
