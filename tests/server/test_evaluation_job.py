"""End of an evaluation's processes, where the system refuses to signal a group of which nothing lives."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mosaic.server.evaluations.job import EvaluationJob


@pytest.mark.parametrize("refusal", [PermissionError, ProcessLookupError])  # of macOS and of Linux
def test_a_group_that_has_ended_may_refuse_a_signal(refusal: type[OSError], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(group: int, number: int) -> None:
        asked.append(group)
        raise refusal

    monkeypatch.setattr(os, "killpg", refuse)
    job = EvaluationJob.__new__(EvaluationJob)
    with subprocess.Popen([sys.executable, "-S", "-c", ""], text=True) as process:
        job._process = process
        job._kill()
    assert asked == [process.pid]
