"""Closely watched run of the worker under check, and what it proves or breaks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from signal import SIGKILL
from time import monotonic
from types import TracebackType
from typing import Self

from mosaic.core.errors import InputError
from mosaic.envs.contract.report import CheckPosition, ContractError
from mosaic.runs.launch import sleep_between_polls, wait_until
from mosaic.runs.run import Run, WaitedTooLongError
from mosaic.store.state import ENDED, State
from mosaic.telemetry.events.event import MetricEvent
from mosaic.telemetry.events.reader import EventTail
from mosaic.testing.worker.curve import Values, curve, fallen_counter, is_training


class WorkerContractError(ContractError):
    """Error for a worker that does not do what it declares."""

    def __init__(self, worker: str, capability: str, found: str, promise: str, advice: str) -> None:
        super().__init__(CheckPosition(f"worker {worker}, {capability}"), found, promise, advice)
        self.worker, self.capability = worker, capability


@dataclass(frozen=True, slots=True)
class ContractProof:
    """Evidence of one kept promise."""

    capability: str
    seen: str


class Rehearsal:
    """Context manager that watches a run and leaves no process of it behind."""

    def __init__(self, run: Run, patience_s: float) -> None:
        self.worker = run.config.training.worker or ""
        self.patience_s = patience_s
        self.run = run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.run.state not in ENDED:
            self.run.stop(patience_s=0.0 if error else self.patience_s)
        self.run.wait(self.patience_s)  # also until its supervisor has released the folder

    def events(self) -> list[MetricEvent]:
        return list(self.run.events())

    def last_steps(self) -> int:
        """Return the env steps so far."""
        return max((event.get("env_steps") or 0 for event in self.events()), default=0)

    def see(self, capability: str, what: str, wanted: Callable[[MetricEvent], bool], after_seq: int = 0) -> MetricEvent:
        """Wait for the first wanted event, past or future, and return it."""
        deadline_s = monotonic() + self.patience_s
        with EventTail(self.run.folder.metrics, after_seq) as tail:
            while True:
                record = self.run.record()
                while events := tail.read():
                    for event in events:
                        if wanted(event):
                            return event
                if record.state in ENDED:
                    raise self._ended(capability, what)
                if monotonic() > deadline_s:
                    raise self._silent(capability, what)
                sleep_between_polls(record)

    def see_training(self, capability: str, count: int = 1, after_seq: int = 0) -> MetricEvent:
        """Wait for the next `count` training events and return the last."""
        seen = 0

        def enough(event: MetricEvent) -> bool:
            nonlocal seen
            seen += is_training(event)
            return seen == count

        return self.see(capability, f"it had reported {count} events", enough, after_seq)

    def finish(self, capability: str, advice: str = "follow the message") -> list[Values]:
        """Wait for the run to finish successfully and return its curve."""
        try:
            state = self.run.wait(self.patience_s)
        except WaitedTooLongError:
            raise self._silent(capability, "it was finished") from None
        if state is not State.FINISHED:
            raise self.broken(capability, f"the run is {state}: {self.run.reason}", "a run ends at its limit", advice)
        return self.check_story()

    def check_story(self) -> list[Values]:
        """Return the curve that readers see, after checking that its counters never decrease."""
        story = curve(self.events())
        fallen = fallen_counter(story)
        if fallen:
            raise self.broken("metrics", fallen, "counters only rise", "report totals, not what is new")
        if not story:
            raise self.broken(
                "metrics", "it reported nothing", "a run tells how training goes", 'call report(kind="iteration", …)'
            )
        return story

    def kill_worker(self) -> None:
        """Kill the worker with SIGKILL and wait until its supervisor has noticed."""
        process = self.run.record().attempts[-1].worker
        if process is None or self.run.state in ENDED:
            raise self._ended("resume", "it could be killed")
        os.kill(process.pid, SIGKILL)
        if self.run.wait(self.patience_s) is State.FINISHED:
            raise self._ended("resume", "it was killed")

    def reaches(self, state: State) -> bool:
        """Return whether the run reaches the state in time, without ending first."""
        record = wait_until(self.run.folder, lambda record: record.state in {state, *ENDED}, self.patience_s)
        return record is not None and record.state is state

    def broken(self, capability: str, found: str, promise: str, advice: str) -> WorkerContractError:
        return WorkerContractError(self.worker, capability, found, promise, advice)

    def _silent(self, capability: str, what: str) -> WorkerContractError:
        return self.broken(
            capability,
            f"{self.patience_s:g} s were over before {what}",
            "a run gets on, and ends at its limit",
            "give check_worker a smaller config, or more patience_s",
        )

    def _ended(self, capability: str, what: str) -> Exception:
        if self.run.state is State.FINISHED:
            return InputError(
                f"The check of {capability} needs a longer run: it finished before {what}. "
                "Give check_worker a config with more steps, or slower ones."
            )
        reason = f"the run is {self.run.state} before {what}: {self.run.reason}"
        return self.broken(capability, reason, "a run continues until its limit", "read the log of the run's worker")
