"""Progress of an export: which policy, which step of its work, and how far that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Step: TypeAlias = Literal["loading", "recording", "tracing", "comparing", "writing"]
StepReport: TypeAlias = Callable[[Step, int, int], None]  # the step, how much of it is done, of how much


@dataclass(frozen=True, slots=True)
class ExportProgress:
    """Progress of an export."""

    policy: str
    number: int  # of the policy, from 1
    policies: int  # all that are exported
    step: Step
    done: int = 0  # observations of this step
    total: int = 0  # 0: they are not counted


def progress_text(policy: str, number: int, policies: int, step: str, count: tuple[int, int]) -> str:
    """Return where an export is in one line; `count` is what is done, of how much."""
    done, total = count
    counted = f", {done:,} of {total:,} observations" if total else ""
    return f"policy {number} of {policies}, '{policy}': {step}{counted}"


ProgressReport: TypeAlias = Callable[[ExportProgress], None]


def ignore_progress(progress: ExportProgress) -> None:
    """Report nothing."""


def ignore_step(step: Step, done: int, total: int) -> None:
    """Report nothing."""
