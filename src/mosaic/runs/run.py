"""Handle on one run for scripts and user interfaces: read it, wait for it, send it commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from mosaic.core.errors import InputError, MosaicError
from mosaic.runs.control import RunNotAliveError, send
from mosaic.runs.launch import has_ended, sleep_between_polls, start_attempt, wait_until
from mosaic.runs.lifecycle import Order, StopAsked, advance
from mosaic.runs.state_file import StateFile
from mosaic.store.archives.trust import require_trust_to_resume, require_trust_to_run, trust_given
from mosaic.store.errors import DamagedError, StorageError
from mosaic.store.index.summary import RunSummary, summarise
from mosaic.store.lock import RunLock, held
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import ENDED, LIVE, RunState, State, read_state
from mosaic.store.store import Store

if TYPE_CHECKING:
    from mosaic.config.run import RunConfig
    from mosaic.store.checkpoints import Checkpoint
    from mosaic.store.labels import LabelChange
    from mosaic.store.logs import Stream
    from mosaic.telemetry.curves.columns import Values
    from mosaic.telemetry.events.event import MetricEvent
    from mosaic.workers.api import Worker


_END_WITHIN_S = 60.0  # for a run whose processes are all gone: writing its results
_ANSWER_WITHIN_S = 60.0


class WaitedTooLongError(MosaicError):
    """Error for an awaited change that did not happen in time; it still may."""


class Run:
    """Handle on a run, without state of its own: everything is read from the run's folder."""

    def __init__(self, store: Store, folder: RunFolder) -> None:
        self._store, self.folder = store, folder

    @property
    def id(self) -> str:
        return self.folder.run_id

    @property
    def state(self) -> State:
        return self.record().state

    @property
    def reason(self) -> str:
        """Return why the last attempt ended; empty if there is nothing to say."""
        attempts = self.record().attempts
        return attempts[-1].reason if attempts else ""

    @property
    def forced(self) -> bool:
        """Return whether the last attempt had to be killed when it was stopped, so that nothing new was saved."""
        attempts = self.record().attempts
        return bool(attempts) and attempts[-1].forced

    @property
    def config(self) -> RunConfig:
        return self.folder.read_config()

    def record(self) -> RunState:
        """Return state, attempts and processes."""
        return read_state(self.folder)

    def summary(self) -> RunSummary:
        return summarise(self.folder)

    # Commands

    def start(self) -> None:
        """Start a queued run."""
        record = self.record()
        if record.state is not State.QUEUED:
            raise InputError(f"The run {self.id} is {record.state}, not queued. {self._advice(record.state)}")
        require_trust_to_run(self.folder, trust_given())
        start_attempt(self.folder, 1)

    def stop(self, patience_s: float | None = None, reason: str = "asked to stop", *, wait: bool = True) -> None:
        """End the run, whatever it is doing: saved if possible within the patience, by force if not.

        `patience_s`: None is what its worker says it needs, based on the iterations it has measured. Afterwards
        `forced` tells whether it had to be killed.
        """
        record = self.record()
        if record.state is State.QUEUED and not self._cancel(reason):  # another process is starting it right now
            wait_until(self.folder, self._is_decided, _ANSWER_WITHIN_S)
            return self.stop(patience_s, reason, wait=wait)
        if record.state in LIVE:
            try:
                send(self.folder, "stop", reason=reason, patience_s=patience_s)
            except RunNotAliveError:
                record = self.record()  # it ended by itself meanwhile, or died
        if record.state is State.LOST:
            self._clear()
        if wait:
            self._await_stop()

    def _await_stop(self) -> None:
        """Wait as long as the supervisor gives the worker; it records that time when it receives the stop."""
        heard = wait_until(self.folder, lambda record: record.state in {State.STOPPING, *ENDED}, _ANSWER_WITHIN_S)
        given_s = heard.attempts[-1].patience_s if heard is not None and heard.attempts else None
        self.wait((given_s or 0.0) + _END_WITHIN_S)

    def pause(self, timeout_s: float = _ANSWER_WITHIN_S, *, wait: bool = True) -> None:
        """Pause at the end of the worker's iteration."""
        from mosaic.workers.registry import load_worker

        worker = self.config.training.worker
        if worker is not None and not load_worker(worker).info.pause:
            raise InputError(f"The worker {worker} cannot pause. Stop the run instead: mosaic runs stop {self.id}")
        self._order("pause")
        if wait:
            self._await(lambda record: record.state is State.PAUSED, "pause", timeout_s)

    def resume(
        self,
        timeout_s: float = _ANSWER_WITHIN_S,
        *,
        resources: Mapping[str, object] | None = None,
        settings: Sequence[str] = (),
        trust: bool | None = None,
    ) -> None:
        """Continue after a pause; after an end, with a new attempt from the last good checkpoint.

        `resources`: settings of that section, such as {"num_env_runners": 4}, that the new attempt and those after it
        use. `settings`: others, such as "training.total_timesteps=2000000". A finished run needs a limit that is not
        reached yet. `trust`: whether an imported run may run the code that it names; None: only if MOSAIC_TRUST=1 is
        set.
        """
        trust = trust_given() if trust is None else trust
        record = self.record()
        match record.state:
            case state if (resources or settings) and state in LIVE:
                raise InputError(
                    f"The run {self.id} is {state}, and keeps its {'settings' if settings else 'resources'} for as "
                    "long as it lives. "
                    f"Stop it, then resume it with others: mosaic runs stop {self.id}"
                )
            case State.PAUSED:
                self._order("resume")
                self._await(lambda record: record.state is State.RUNNING, "resume", timeout_s)
            case State.FINISHED as state if not settings:
                raise InputError(f"The run {self.id} is {state} and cannot be resumed. {self._advice(state)}")
            case State.FINISHED | State.STOPPED | State.FAILED | State.LOST:
                self._check_resumable(trust)
                wait_until(self.folder, self._is_let_go, timeout_s)
                if resources or settings:
                    self._change_settings(record, resources or {}, settings)
                start_attempt(self.folder, len(record.attempts) + 1, trust=trust)
            case state:
                raise InputError(f"The run {self.id} is {state} and cannot be resumed. {self._advice(state)}")

    def checkpoint(self, timeout_s: float = _ANSWER_WITHIN_S) -> Checkpoint:
        """Save at the end of the worker's current iteration."""
        from mosaic.telemetry.events.reader import EventTail
        from mosaic.workers.registry import load_worker

        worker = self.config.training.worker
        if worker is not None and not load_worker(worker).info.checkpoints:
            raise InputError(f"The worker {worker} cannot save checkpoints. Look at the run: mosaic watch {self.id}")
        with EventTail(self.folder.metrics, after_seq=_last_seq(self.folder)) as tail:
            self._order("checkpoint")
            deadline_s = monotonic() + timeout_s
            while True:
                record = self.record()
                for event in tail.read():
                    if event["kind"] in ("checkpoint", "checkpoint_exists"):
                        return self._saved(self.folder.checkpoints / event["path"])
                if record.state in ENDED:
                    raise MosaicError(f"The run {self.id} ended before it saved: it is {record.state}.")
                if monotonic() >= deadline_s:
                    raise self._too_long("save", timeout_s)
                sleep_between_polls(record)

    def _saved(self, path: Path) -> Checkpoint:
        """Return the checkpoint, or the newest if a worker that saves very often has already deleted it."""
        from mosaic.store.checkpoint_record import read_checkpoint
        from mosaic.store.checkpoints import find_checkpoint

        try:
            return read_checkpoint(path)
        except DamagedError:
            if path.exists():
                raise
            return find_checkpoint(self.folder)

    def wait(self, timeout_s: float | None = None) -> State:
        """Wait until the run has ended and return its state."""
        record = wait_until(self.folder, lambda record: has_ended(self.folder, record), timeout_s)
        if record is None:
            raise self._too_long("end", timeout_s or 0.0)
        return record.state

    def label(self, change: LabelChange) -> None:
        """Change the labels that `change` sets: name, tags, note, hidden."""
        from mosaic.store.labels import change_labels

        change_labels(self.folder, change)

    def delete(self) -> None:
        """Delete the folder with everything in it. A live run must be stopped first."""
        from mosaic.store.archives.archive import delete_run

        if self.state is State.LOST:
            self._clear()
        delete_run(self._store, self.folder)

    # Results

    def metrics(self) -> dict[str, Values]:
        """Return iterations as columns of equal length: `pandas.DataFrame(run.metrics())`."""
        from mosaic.telemetry.curves.curves import Curves

        return Curves(self.folder.path).table()

    def events(self, after_seq: int = 0, *, follow: bool = False) -> Iterator[MetricEvent]:
        """Yield every event once, in order; `follow` waits for more until the run has ended."""
        from mosaic.telemetry.events.reader import EventTail

        with EventTail(self.folder.metrics, after_seq) as tail:
            while True:
                record = self.record()
                last = not follow or has_ended(self.folder, record)
                while events := tail.read():
                    yield from events
                if last:
                    return
                sleep_between_polls(record)

    def log(self, stream: Stream | None = None) -> str:
        """Return what the worker wrote to stdout, then what it wrote to stderr; or one of them."""
        from mosaic.store.logs import STREAMS, WorkerLog

        parts = [WorkerLog(self.folder, each).read().data for each in ((stream,) if stream else STREAMS)]
        return b"".join(parts).decode(errors="replace")

    def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints, oldest first."""
        from mosaic.store.checkpoints import list_checkpoints

        return list_checkpoints(self.folder)

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.state}>"

    def _repr_html_(self) -> str:

        return as_html(self.summary())

    # Internals

    def _order(self, order: Order) -> None:
        record = self.record()
        if record.state not in LIVE or record.state is State.STOPPING:
            raise InputError(f"The run {self.id} is {record.state}: it cannot {order}. {self._advice(record.state)}")
        send(self.folder, order)

    def _advice(self, state: State) -> str:
        match state:
            case State.QUEUED:
                return f"Start it first, or take it back: mosaic runs stop {self.id}"
            case State.STARTING | State.RUNNING | State.STOPPING:
                return f"Look at it: mosaic watch {self.id}"
            case State.PAUSED | State.STOPPED | State.FAILED | State.LOST:
                return f"Resume it: mosaic runs resume {self.id}"
            case State.FINISHED:
                longer = 2 * (self.config.training.total_timesteps or self.summary().env_steps or 1)
                return f"Train it further: mosaic runs resume {self.id} --steps {longer}"

    def _await(self, true: Callable[[RunState], bool], verb: str, timeout_s: float) -> None:
        record = wait_until(self.folder, lambda record: true(record) or record.state in ENDED, timeout_s)
        if record is None:
            raise self._too_long(verb, timeout_s)
        if not true(record):
            raise MosaicError(f"The run {self.id} did not {verb}: it is {record.state}.")

    def _too_long(self, verb: str, timeout_s: float) -> WaitedTooLongError:
        return WaitedTooLongError(f"The run {self.id} did not {verb} within {timeout_s:g} s; it is {self.state}.")

    def _is_decided(self, record: RunState) -> bool:
        return record.state is not State.QUEUED or not held(self.folder)

    def _is_let_go(self, record: RunState) -> bool:
        """Return whether the run is live or no longer held; a supervisor exits a moment after recording the end."""
        return record.state in LIVE or not held(self.folder)

    def _cancel(self, reason: str) -> bool:
        """End a run that was never started, which needs no supervisor; return False if another process holds it."""
        with RunLock(self.folder) as lock:
            if not lock.try_acquire():
                return False
            state_file = StateFile(self.folder)
            if state_file.record.state is State.QUEUED:
                life, _ = advance(state_file.life, StopAsked(monotonic(), reason))
                if not state_file.end(life.state, reason, None, try_for_s=0.0):
                    raise StorageError(
                        f"The run {self.id} stays queued: that it was stopped could not be written. "
                        f"Free some room on the disk, then type: mosaic runs stop {self.id}"
                    )
            return True

    def _clear(self) -> None:
        """End what a lost run left alive; a run that is alive again belongs to another process."""
        from mosaic.runs.resume import end_leftovers

        with RunLock(self.folder) as lock:
            if lock.try_acquire():
                end_leftovers(self.folder, self.record())

    def _change_settings(self, record: RunState, resources: Mapping[str, object], settings: Sequence[str]) -> None:
        from mosaic.runs.resume_settings import change_settings

        change_settings(self.folder, record, resources, settings)

    def _has_saved(self, worker: Worker) -> bool:
        """Return whether a worker that does not declare resume has left something to resume from."""
        from mosaic.store.checkpoints import find_checkpoint

        return getattr(worker, "resumes_what_was_saved", False) and bool(find_checkpoint(self.folder, missing_ok=True))

    def _check_resumable(self, trust: bool) -> None:
        from mosaic.runs.trainer import check_mentioned_runs
        from mosaic.store.checkpoints import find_checkpoint
        from mosaic.workers.registry import load_worker

        require_trust_to_run(self.folder, trust)
        check_mentioned_runs(self.config, self._store, trust=trust or None)
        name = self.config.training.worker
        if name is None:
            return
        worker = load_worker(name)
        if not worker.info.resume and not self._has_saved(worker):
            saves = getattr(worker, "resumes_what_was_saved", False)
            why = (
                f"The run {self.id} has saved no checkpoint, and the worker {name} resumes from those alone that its "
                "program announces (@CHECKPOINT)."
                if saves
                else f"The worker {name} cannot resume from a checkpoint."
            )
            raise InputError(f"{why} Start a new run: mosaic train --config {self.folder.config}")
        if getattr(worker, "resumes_from_pickles", False):  # else it would start, only to fail
            saved = find_checkpoint(self.folder, missing_ok=True)
            if saved is not None:
                require_trust_to_resume(saved, trust)


def _last_seq(folder: RunFolder) -> int:
    from mosaic.telemetry.events.journal import last_whole

    try:
        file = folder.metrics.open("rb")
    except FileNotFoundError:
        return 0
    with file:
        return last_whole(file.fileno()).seq


def as_html(run: RunSummary) -> str:
    reward = "" if run.episode_reward_mean is None else f"{run.episode_reward_mean:.4g}"
    rows = {
        "run": run.run_id,
        "name": run.name,
        "state": run.state,
        "env": run.env,
        "worker": " ".join(filter(None, (run.worker, run.algorithm))),
        "env steps": f"{run.env_steps:,}",
        "mean episode reward": reward,
        "seed": str(run.seed),
    }
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows.items()
        if value
    )
    return f"<table>{cells}</table>"
