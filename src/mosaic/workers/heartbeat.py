"""Heartbeat of a training run: regular reports, and the time a stop needs, both by the clock.

Iterations may take microseconds or minutes, and a total of steps says nothing about either. A thread therefore reports
if the worker has not done so for `telemetry.report_every_s`, and tells the supervisor how long iterations take: a stop
waits for the end of one. Neither affects what is learned.
"""

from __future__ import annotations

import math
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import NamedTuple

from mosaic.core.compile_time import Compilation, timer
from mosaic.core.errors import MosaicError
from mosaic.telemetry.events.event import is_number
from mosaic.workers.inbox import Inbox

_REMEMBERED = 5  # iterations; the longest of them counts
_WORTH_TELLING_S = 1.0
_SHARE_OF_PERIOD = 0.25  # how late a report may come
START_GRACE_S = 3.0  # for a worker that is asked to stop while it starts, to end by itself
_YOUNG_S = 10.0  # a first iteration that has lasted less, and was not reported yet, may be lost
_YOUNG_GRACE_S = 6.0  # for a worker to end by itself that is asked to stop in it


class StoppedAtStartError(MosaicError):
    """A stop was requested before training began: nothing was learned, and nothing has to be saved."""


class StopPatience:
    """Time that a stop may take, told to the supervisor whenever it changes.

    A stop may come as an iteration begins; it and a checkpoint may each take twice as long as usual.
    """

    def __init__(self, declared_s: float, tell: Callable[..., None], clock: Callable[[], float] = perf_counter) -> None:
        """Begin with what the worker declares to need besides iterations and checkpoints."""
        self._declared_s = self._told_s = declared_s
        self._tell, self._clock = tell, clock
        self._iterations: deque[float] = deque(maxlen=_REMEMBERED)
        self._began_s: float | None = None  # of the running iteration or part of one
        self._in_parts = False  # whether the running iteration is measured in parts
        self._save_s = 0.0

    def declare(self, seconds: float) -> None:
        """Set how long a stop takes besides iterations and checkpoints."""
        self._declared_s = seconds
        self._tell_changes()

    def saved(self, seconds: float) -> None:
        """Record how long a checkpoint took."""
        self._save_s = seconds
        self._tell_changes()

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Measure one iteration, or a part of one after which a stop can end it."""
        part, began_s = self._began_s is not None, self._clock()
        self._began_s, self._in_parts = began_s, part and self._in_parts
        try:
            yield
        finally:
            ended_s = self._clock()
            if part or not self._in_parts:
                self._iterations.append(ended_s - began_s)
            self._began_s, self._in_parts = (ended_s, True) if part else (None, False)
            self._tell_changes()

    def update(self) -> None:
        """Tell the supervisor if the running iteration takes longer than all before it; called repeatedly."""
        began_s = self._began_s
        if began_s is not None and self._clock() - began_s > max(self._iterations, default=0.0):
            self._tell_changes()

    def _tell_changes(self) -> None:
        began_s = self._began_s
        running_s = 0.0 if began_s is None else self._clock() - began_s
        longest_s = max([running_s, *tuple(self._iterations)])
        needed_s = self._declared_s + 2.0 * (longest_s + self._save_s)
        if abs(needed_s - self._told_s) >= max(_WORTH_TELLING_S, 0.1 * self._told_s):
            self._told_s = needed_s
            self._tell("patience", patience_s=needed_s)


class _Report(NamedTuple):
    at_s: float
    fields: Mapping[str, object]


class Heartbeat:
    """Reporting by the clock, in a thread that is silent during a pause. `report` stores an event."""

    def __init__(
        self,
        report: Callable[..., int],
        inbox: Inbox,
        every_s: float,
        patience: StopPatience,
        env_steps: int = 0,
        clock: Callable[[], float] = perf_counter,
        compiling: Callable[[], Compilation | None] = timer.current,
    ) -> None:
        self._report, self._inbox, self._patience, self._clock = report, inbox, patience, clock
        self._compiling = compiling
        self.every_s: float | None = every_s  # None: the thread does not report
        self._measure: Callable[[], Mapping[str, object]] = dict
        self._first_steps = env_steps
        self._last = _Report(clock(), {"env_steps": env_steps, "episode_reward_mean": None})
        self._measured_from = (clock(), float(env_steps))  # time and env steps from which the speed is a mean
        self._training = False  # before that, processes are started and code is compiled: there is nothing to report
        self._starting = False  # a stage of the start was reported, and training has not begun
        self._leave_at_s: float | None = None  # set once a stop is seen
        self.leave: Callable[[], None] = lambda: None  # end the process at once, as if the worker had stopped
        self._over = threading.Event()

    def measure_with(self, measure: Callable[[], Mapping[str, object]]) -> None:
        """Take counters and means from `measure`, called by the thread at any moment, instead of repeating old ones."""
        self._measure = measure
        self._begin_training()

    def stage(self, message: str) -> None:
        """Store what the start of training is doing now; raise StoppedAtStartError if a stop is requested."""
        if reason := self._inbox.stop_asked():
            raise StoppedAtStartError(reason)
        self._starting = not self._training
        self._report(kind="stage", message=message)

    @contextmanager
    def changing_env(self) -> Iterator[None]:
        """Repeat only counters while the worker changes to another env: means are still of the old one."""
        with self._inbox.reporting:
            counters = {"env_steps": self._last.fields.get("env_steps"), "episode_reward_mean": None}
            self._last = self._last._replace(fields=counters)
            measure, self._measure = self._measure, dict
        try:
            yield
        finally:
            self._measure = measure

    def due(self) -> bool:
        return self.every_s is not None and self._clock() - self._last.at_s >= self.every_s

    def report(self, fields: Mapping[str, object]) -> int:
        """Store an iteration event that the worker reports itself."""
        with self._inbox.reporting:
            self._measured_from = (self._clock(), _env_steps(fields))
            return self._store(fields)

    def _store(self, fields: Mapping[str, object]) -> int:
        self._training = True
        self._starting = self._starting and _env_steps(fields) <= _env_steps(self._last.fields)
        number = self._report(**fields)
        self._last = _Report(self._clock(), dict(fields))
        return number

    def iteration(self) -> AbstractContextManager[None]:
        """Measure one iteration, or a part of one after which a stop can end it; training has begun."""
        self._begin_training()
        return self._patience.iteration()

    def _begin_training(self) -> None:
        if not self._training:
            self._training, self._measured_from = True, (self._clock(), self._measured_from[1])

    @contextmanager
    def beating(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def beat(self) -> None:
        """Report if it is due; called repeatedly."""
        self._patience.update()
        self._leave_start()
        with self._inbox.reporting:  # events are stored in the order in which they were measured
            if self._inbox.paused or not self.due():
                return
            if compiling := self._compiling():
                self._report(kind="compiling", message=str(compiling))
                self._last = self._last._replace(at_s=self._clock())
                return
            if not self._training:
                return
            kept = {
                name: value
                for name, value in self._last.fields.items()
                if name not in ("time_split", "env_steps_per_s")
            }
            fields = {**kept, **self._measure(), "kind": "iteration", "trigger": "clock"}
            self._store(fields | self._speed(_env_steps(fields)))

    def _speed(self, env_steps: float) -> dict[str, object]:
        """Return the mean speed since the worker's last own report: sampling and learning. Unknown before a step."""
        since_s, before = self._measured_from
        if env_steps <= before:
            return {}
        return {"env_steps_per_s": (env_steps - before) / max(self._clock() - since_s, 1e-9)}

    def _leave_start(self) -> None:
        """End a start that does not end by itself after a stop, for example in a library that waits for processes."""
        if self._leave_at_s is None:
            if not self._inbox.stop_asked():
                return
            self._leave_at_s = self._clock() + self._grace_s()
        if self._clock() >= self._leave_at_s:
            self.leave()

    def _grace_s(self) -> float:
        """Return how long a stop requested now waits for the worker; without limit once samples have been reported."""
        if not self._starting and not self._compiles_first():
            return math.inf
        began_s, before = self._measured_from
        with self._inbox.reporting:
            sampled = self._training and _env_steps(self._measure()) > before
        if not sampled:
            return START_GRACE_S
        return _YOUNG_GRACE_S if self._clock() - began_s < _YOUNG_S else math.inf

    def _compiles_first(self) -> bool:
        """Return whether code is compiled, and nothing has been sampled before: a stop loses nothing."""
        return self._compiling() is not None and _env_steps(self._last.fields) <= self._first_steps

    def _run(self) -> None:
        while not self._over.wait(self._period_s()):
            try:
                self.beat()
            except Exception as error:  # noqa: BLE001 - the training itself is well, and says so if the disk is not
                traceback.print_exc()
                self._report(kind="alert", message=f"Periodic reports stopped: {type(error).__name__}: {error}")
                return

    def _period_s(self) -> float:
        return _SHARE_OF_PERIOD * min(self.every_s or _WORTH_TELLING_S, _WORTH_TELLING_S * 4)


def _env_steps(fields: Mapping[str, object]) -> float:
    steps = fields.get("env_steps")
    return steps if is_number(steps) else 0
