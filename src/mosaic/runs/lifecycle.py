"""Life cycle of a run as a pure function from an event to the new state and the commands to carry out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from typing import Literal, TypeAlias, assert_never

from mosaic.store.state import LIVE, State

DEFAULT_PATIENCE_S = 10.0
LONGEST_PATIENCE_S = 86_400.0

End: TypeAlias = Literal[State.FINISHED, State.STOPPED, State.FAILED, State.LOST]
Verdict: TypeAlias = Literal[State.STOPPED, State.FAILED]
Limit: TypeAlias = Literal["wall time", "memory"]
Order: TypeAlias = Literal["stop", "pause", "resume", "checkpoint"]
Outcome: TypeAlias = Literal["finished", "stopped"]

# Using up the allowed time is a normal end; exceeding the memory limit is a failure.
_VERDICTS: dict[Limit, Verdict] = {"wall time": State.STOPPED, "memory": State.FAILED}
_PUSHES = ((0.6, SIGINT), (0.8, SIGTERM), (1.0, SIGKILL))  # share of the patience at which each is sent


@dataclass(frozen=True, slots=True)
class ScheduledSignal:
    at_s: float  # on the monotonic clock
    signal: Signals


def stop_signals(now_s: float, patience_s: float) -> tuple[ScheduledSignal, ...]:
    """Schedule the signals that follow a stop request at `now_s`; the last one ends everything."""
    return tuple(ScheduledSignal(now_s + share * patience_s, signal) for share, signal in _PUSHES)


def due_signals(
    signals: tuple[ScheduledSignal, ...], now_s: float
) -> tuple[tuple[Signals, ...], tuple[ScheduledSignal, ...]]:
    """Split the signals into those that are due and those that remain."""
    due = tuple(each.signal for each in signals if each.at_s <= now_s)
    return due, signals[len(due) :]


def bring_forward(signals: tuple[ScheduledSignal, ...], now_s: float, patience_s: float) -> tuple[ScheduledSignal, ...]:
    """Apply a second stop, which may bring the end nearer, never postpone it; signals already sent are not repeated."""
    if not signals or now_s + patience_s >= signals[-1].at_s:
        return signals
    return stop_signals(now_s, patience_s)[-len(signals) :]


@dataclass(frozen=True, slots=True)
class PendingStop:
    """A stop in progress."""

    reason: str
    verdict: Verdict  # final state unless the worker finishes first
    signals: tuple[ScheduledSignal, ...]  # signals still to be sent
    patience_s: float  # from the first to the last of them


@dataclass(frozen=True, slots=True)
class Life:
    state: State = State.QUEUED
    attempt: int = 0
    stop: PendingStop | None = None
    trouble: str = ""  # the worker's reason for its failure
    outcome: Outcome | None = None  # what the worker reported about its end; its exit code alone proves nothing
    patience_s: float = DEFAULT_PATIENCE_S  # for a stop that gives none
    reason: str = ""  # why it ended


# Events


@dataclass(frozen=True, slots=True)
class StartAsked:
    """Request for a new attempt."""


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    detail: str


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    pass


@dataclass(frozen=True, slots=True)
class PauseAsked:
    pass


@dataclass(frozen=True, slots=True)
class WorkerPaused:
    pass


@dataclass(frozen=True, slots=True)
class ResumeAsked:
    pass


@dataclass(frozen=True, slots=True)
class WorkerResumed:
    pass


@dataclass(frozen=True, slots=True)
class CheckpointAsked:
    pass


@dataclass(frozen=True, slots=True)
class StopAsked:
    now_s: float
    reason: str = "asked to stop"
    patience_s: float | None = None  # None: what the worker needs


@dataclass(frozen=True, slots=True)
class LimitExceeded:
    kind: Limit
    detail: str
    now_s: float
    patience_s: float | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    now_s: float


@dataclass(frozen=True, slots=True)
class PatienceMeasured:
    """The worker's estimate of how long it may take to stop, based on its iterations so far."""

    patience_s: float


@dataclass(frozen=True, slots=True)
class WorkerReturned:
    """The worker's report that its training returned and everything is written."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """The worker's report why it is about to end."""

    message: str


@dataclass(frozen=True, slots=True)
class WorkerExited:
    code: int | None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class SupervisorDied:
    """Death of a supervisor, noticed by the next one; how the attempt ended is unknown."""


Event: TypeAlias = (
    StartAsked
    | SpawnFailed
    | WorkerStarted
    | PauseAsked
    | WorkerPaused
    | ResumeAsked
    | WorkerResumed
    | CheckpointAsked
    | StopAsked
    | LimitExceeded
    | TimerFired
    | PatienceMeasured
    | WorkerReturned
    | WorkerFailed
    | WorkerExited
    | SupervisorDied
)


# Commands


@dataclass(frozen=True, slots=True)
class SpawnWorker:
    attempt: int


@dataclass(frozen=True, slots=True)
class Tell:
    """Message to the worker."""

    order: Order
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """Signal to the worker's process group."""

    signal: Signals


@dataclass(frozen=True, slots=True)
class EndEverything:
    """Kill of every process that the attempt started, in whatever process group or session."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Report only a search that had nothing left to do: after Ctrl-C, trials that were cut short look ended."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Refuse:
    text: str


@dataclass(frozen=True, slots=True)
class RecordEnd:
    state: End
    reason: str
    forced: bool = False  # a stop was requested and the worker did not end by itself: nothing new was saved


Command: TypeAlias = SpawnWorker | Tell | Signal | EndEverything | Arm | Refuse | RecordEnd
Step: TypeAlias = tuple[Life, tuple[Command, ...]]


def advance(life: Life, event: Event) -> Step:
    match event:
        case StartAsked():
            return _start(life)
        case SpawnFailed(detail):
            return _end(life, State.FAILED, detail) if life.state in LIVE else (life, ())
        case WorkerStarted():
            return _when(life, State.STARTING, State.RUNNING)
        case WorkerPaused():
            return _when(life, State.RUNNING, State.PAUSED)
        case WorkerResumed():
            return _when(life, State.PAUSED, State.RUNNING)
        case PauseAsked():
            return _order(life, "pause")
        case ResumeAsked():
            return _order(life, "resume")
        case CheckpointAsked():
            return _order(life, "checkpoint")
        case StopAsked(now_s, reason, patience_s):
            return _stop(life, State.STOPPED, reason, now_s, patience_s)
        case LimitExceeded(kind, detail, now_s, patience_s):
            return _stop(life, _VERDICTS[kind], detail, now_s, patience_s)
        case TimerFired(now_s):
            return _push(life, now_s)
        case PatienceMeasured(patience_s):
            given_s = min(max(patience_s, 0.0), LONGEST_PATIENCE_S)
            return (replace(life, patience_s=given_s) if life.state in LIVE else life), ()
        case WorkerReturned(outcome):
            return (replace(life, outcome=outcome) if life.state in LIVE else life), ()
        case WorkerFailed(message):
            return (replace(life, trouble=message) if life.state in LIVE else life), ()
        case WorkerExited(code, signal):
            return _judge(life, code, signal) if life.state in LIVE else (life, ())
        case SupervisorDied():
            reason = "its supervisor died"
            return _end(life, State.LOST, reason) if life.state in LIVE else (life, ())
        case _:
            assert_never(event)


def _start(life: Life) -> Step:
    if life.state in LIVE:
        return life, (Refuse(f"the run is {life.state} already"),)
    if life.state is State.FINISHED:
        return life, (Refuse("the run is finished; there is nothing left to do"),)
    attempt = life.attempt + 1
    return Life(State.STARTING, attempt), (SpawnWorker(attempt),)


def _when(life: Life, before: State, after: State) -> Step:
    """Accept a worker's report only in the state it applies to; a late one changes nothing."""
    return (replace(life, state=after) if life.state is before else life), ()


def _order(life: Life, order: Order) -> Step:
    """Forward an order, also to a worker that is still starting: it reads its orders when it first checks."""
    if life.state in LIVE and life.state is not State.STOPPING:
        return life, (Tell(order),)
    return life, (Refuse(f"cannot {order}: the run is {life.state}"),)


def _stop(life: Life, verdict: Verdict, reason: str, now_s: float, patience_s: float | None) -> Step:
    patience_s = life.patience_s if patience_s is None else patience_s
    match life.state:
        case State.QUEUED:
            return _end(life, verdict, reason)
        case State.STARTING | State.RUNNING | State.PAUSED:
            stop = PendingStop(reason, verdict, stop_signals(now_s, patience_s), patience_s)
            return replace(life, state=State.STOPPING, stop=stop), (Tell("stop", reason), Arm(stop.signals[0].at_s))
        case State.STOPPING:
            assert life.stop is not None
            signals = bring_forward(life.stop.signals, now_s, patience_s)
            given_s = life.stop.patience_s if signals == life.stop.signals else patience_s
            stop = replace(life.stop, signals=signals, patience_s=given_s)
            return replace(life, stop=stop), tuple(Arm(each.at_s) for each in signals[:1])
        case State.FINISHED | State.STOPPED | State.FAILED | State.LOST:
            return life, (Refuse(f"cannot stop: the run is {life.state}"),)
        case _:
            assert_never(life.state)


def _push(life: Life, now_s: float) -> Step:
    if life.stop is None:
        return life, ()
    due, remaining = due_signals(life.stop.signals, now_s)
    pushes = tuple(EndEverything() if signal is SIGKILL else Signal(signal) for signal in due)
    arms = tuple(Arm(each.at_s) for each in remaining[:1])
    return replace(life, stop=replace(life.stop, signals=remaining)), (*pushes, *arms)


def _judge(life: Life, code: int | None, signal: int | None) -> Step:
    """Decide what the worker's end means.

    User code runs in its process and may exit with any code at any time, so only the worker's own report counts.
    """
    how = f"exit code {code}" if signal is None else f"signal {_name(signal)}"
    if life.outcome == "finished":
        return _end(life, State.FINISHED, "")
    if life.stop is not None:
        if life.outcome == "stopped":
            return _end(life, life.stop.verdict, life.stop.reason)
        return _end(life, life.stop.verdict, f"{life.stop.reason} ({_force(life, life.stop, how)})", forced=True)
    if life.outcome == "stopped":
        return _end(life, State.STOPPED, "the worker stopped by itself")
    unasked = "" if code else ", before its training had ended: something in it called exit"
    return _end(life, State.FAILED, life.trouble or f"the worker ended with {how}{unasked if signal is None else ''}")


def _force(life: Life, stop: PendingStop, how: str) -> str:
    if stop.signals or life.trouble:  # not killed by us
        return f"the worker did not end in order: {life.trouble or how}"
    return f"it did not stop within {stop.patience_s:g} s and was killed"


def _name(signal: int) -> str:
    try:
        return Signals(signal).name
    except ValueError:
        return str(signal)


def _end(life: Life, state: End, reason: str, *, forced: bool = False) -> Step:
    """End the run and kill what the worker left behind, however it ended."""
    return Life(state, life.attempt, reason=reason), (EndEverything(), RecordEnd(state, reason, forced))
