"""The life of a run: declared states only, ends are ends, and every stop comes to its end."""

from __future__ import annotations

from signal import SIGINT, SIGKILL, SIGSEGV, SIGTERM

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mosaic.runs.lifecycle import (
    Arm,
    CheckpointAsked,
    Command,
    EndEverything,
    Event,
    Life,
    LimitExceeded,
    PatienceMeasured,
    PauseAsked,
    RecordEnd,
    Refuse,
    ResumeAsked,
    Signal,
    SpawnFailed,
    SpawnWorker,
    StartAsked,
    StopAsked,
    SupervisorDied,
    Tell,
    TimerFired,
    WorkerExited,
    WorkerFailed,
    WorkerPaused,
    WorkerResumed,
    WorkerReturned,
    WorkerStarted,
    advance,
)
from mosaic.store.state import ENDED, LIVE, State


def live_through(*events: Event, life: Life | None = None) -> tuple[Life, list[Command]]:
    life, commands = life or Life(), []
    for event in events:
        life, more = advance(life, event)
        commands += more
    return life, commands


RUNNING = live_through(StartAsked(), WorkerStarted())[0]
FINISHED, STOPPED = WorkerReturned("finished"), WorkerReturned("stopped")
EXIT = "something in it called exit"


def test_an_undisturbed_run_finishes() -> None:
    life, commands = live_through(StartAsked(), WorkerStarted(), WorkerReturned("finished"), WorkerExited(0))
    assert life == Life(State.FINISHED, attempt=1)
    assert commands == [SpawnWorker(1), EndEverything(), RecordEnd(State.FINISHED, "")]


def test_pause_and_resume_follow_the_worker_not_the_wish() -> None:
    life, commands = live_through(PauseAsked(), life=RUNNING)
    assert (life.state, commands) == (State.RUNNING, [Tell("pause")])
    life, _ = live_through(WorkerPaused(), life=life)
    assert life.state is State.PAUSED
    life, commands = live_through(ResumeAsked(), life=life)
    assert (life.state, commands) == (State.PAUSED, [Tell("resume")])
    assert live_through(WorkerResumed(), life=life)[0].state is State.RUNNING


def test_a_stop_asks_then_pushes_then_ends_everything() -> None:
    life, commands = live_through(StopAsked(100.0, "enough", patience_s=10.0), life=RUNNING)
    assert (life.state, commands) == (State.STOPPING, [Tell("stop", "enough"), Arm(106.0)])
    life, commands = live_through(TimerFired(105.9), life=life)
    assert commands == [Arm(106.0)]
    life, commands = live_through(TimerFired(106.0), life=life)
    assert commands == [Signal(SIGINT), Arm(108.0)]
    life, commands = live_through(TimerFired(108.0), life=life)
    assert commands == [Signal(SIGTERM), Arm(110.0)]
    life, commands = live_through(TimerFired(110.0), life=life)
    assert (life.state, commands) == (State.STOPPING, [EndEverything()])
    assert live_through(WorkerExited(None, SIGKILL), life=life)[0].state is State.STOPPED


def test_a_late_timer_makes_up_for_what_it_missed() -> None:
    life, _ = live_through(StopAsked(0.0), life=RUNNING)
    assert live_through(TimerFired(99.0), life=life)[1] == [Signal(SIGINT), Signal(SIGTERM), EndEverything()]


def test_a_second_stop_hastens_and_never_delays() -> None:
    life, _ = live_through(StopAsked(0.0, patience_s=10.0), TimerFired(6.0), life=RUNNING)
    assert live_through(StopAsked(7.0, patience_s=60.0), life=life)[1] == [Arm(8.0)]
    life, commands = live_through(StopAsked(7.0, patience_s=0.0), life=life)
    assert commands == [Arm(7.0)]
    assert live_through(TimerFired(7.0), life=life)[1] == [Signal(SIGTERM), EndEverything()]


@pytest.mark.parametrize(
    ("events", "state", "reason"),
    [
        ([FINISHED, WorkerExited(0)], State.FINISHED, ""),
        ([FINISHED, WorkerExited(None, SIGSEGV)], State.FINISHED, ""),
        ([WorkerExited(0)], State.FAILED, "the worker ended with exit code 0, before its training had ended: " + EXIT),
        ([WorkerExited(3)], State.FAILED, "the worker ended with exit code 3"),
        ([STOPPED, WorkerExited(3)], State.STOPPED, "the worker stopped by itself"),
        ([WorkerExited(7)], State.FAILED, "the worker ended with exit code 7"),
        ([WorkerExited(None, SIGKILL)], State.FAILED, "the worker ended with signal SIGKILL"),
        ([WorkerExited(None, 99)], State.FAILED, "the worker ended with signal 99"),
        ([WorkerFailed("ValueError: no"), WorkerExited(1)], State.FAILED, "ValueError: no"),
        ([StopAsked(0.0, "by hand"), STOPPED, WorkerExited(3)], State.STOPPED, "by hand"),
        ([StopAsked(0.0, "by hand"), FINISHED, WorkerExited(0)], State.FINISHED, ""),
        ([LimitExceeded("wall time", "2 h are over", 0.0), STOPPED, WorkerExited(3)], State.STOPPED, "2 h are over"),
        ([LimitExceeded("memory", "9 MB of 8 MB", 0.0), STOPPED, WorkerExited(3)], State.FAILED, "9 MB of 8 MB"),
        (
            [StopAsked(0.0, "by hand"), LimitExceeded("memory", "9 MB", 0.0), STOPPED, WorkerExited(3)],
            State.STOPPED,
            "by hand",
        ),
        ([SupervisorDied()], State.LOST, "its supervisor died"),
    ],
)
def test_the_end_and_its_reason(events: list[Event], state: State, reason: str) -> None:
    life, commands = live_through(*events, life=RUNNING)
    assert (life.state, life.reason) == (state, reason)
    assert commands[-2:] == [EndEverything(), RecordEnd(state, reason)]


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([TimerFired(30.0), WorkerExited(None, SIGKILL)], "by hand (it did not stop within 30 s and was killed)"),
        ([WorkerExited(None, SIGKILL)], "by hand (the worker did not end in order: signal SIGKILL)"),
        ([WorkerExited(0)], "by hand (the worker did not end in order: exit code 0)"),
        (
            [WorkerFailed("OSError: disk full"), WorkerExited(1)],
            "by hand (the worker did not end in order: OSError: disk full)",
        ),
        (
            [StopAsked(1.0, patience_s=2.0), TimerFired(3.0), WorkerExited(None, SIGKILL)],
            "by hand (it did not stop within 2 s and was killed)",
        ),
    ],
)
def test_a_stop_that_the_worker_did_not_carry_out_is_recorded_as_forced(events: list[Event], reason: str) -> None:
    life, commands = live_through(StopAsked(0.0, "by hand", 30.0), *events, life=RUNNING)
    assert (life.state, life.reason) == (State.STOPPED, reason)
    assert commands[-1] == RecordEnd(State.STOPPED, reason, forced=True)


def test_a_stop_is_as_patient_as_the_worker_needs() -> None:
    life, commands = live_through(PatienceMeasured(200.0), StopAsked(0.0), life=RUNNING)
    assert commands[-1] == Arm(120.0)
    assert life.stop is not None
    assert life.stop.patience_s == 200.0
    life, commands = live_through(PatienceMeasured(200.0), StopAsked(0.0, patience_s=5.0), life=RUNNING)
    assert commands[-1] == Arm(3.0)


def test_a_run_that_cannot_be_started_has_failed() -> None:
    life, commands = live_through(StartAsked(), SpawnFailed("no such program"))
    assert life == Life(State.FAILED, 1, reason="no such program")
    assert RecordEnd(State.FAILED, "no such program") in commands


def test_a_queued_run_is_stopped_without_ado() -> None:
    life, _ = live_through(StopAsked(0.0, "not needed"))
    assert life == Life(State.STOPPED, 0, reason="not needed")


@pytest.mark.parametrize(
    ("life", "event", "text"),
    [
        (RUNNING, StartAsked(), "the run is running already"),
        (Life(State.FINISHED, 1), StartAsked(), "the run is finished; there is nothing left to do"),
        (Life(State.FAILED, 1), PauseAsked(), "cannot pause: the run is failed"),
        (Life(State.QUEUED), CheckpointAsked(), "cannot checkpoint: the run is queued"),
        (Life(State.LOST, 1), StopAsked(0.0), "cannot stop: the run is lost"),
    ],
)
def test_refusals_say_why(life: Life, event: Event, text: str) -> None:
    assert advance(life, event) == (life, (Refuse(text),))


@pytest.mark.parametrize("state", [State.STOPPED, State.FAILED, State.LOST])
def test_a_new_attempt_forgets_the_last_end(state: State) -> None:
    life, commands = live_through(StartAsked(), life=Life(state, 4, reason="whatever", trouble="much"))
    assert (life, commands) == (Life(State.STARTING, 5), [SpawnWorker(5)])


PATIENCE = st.floats(0, 100)


class Lives(RuleBasedStateMachine):
    """Any events in any order, the sensible and the absurd, on one monotonic clock."""

    def __init__(self) -> None:
        super().__init__()
        self.life, self.now_s = Life(), 0.0
        self.timer_s: float | None = None  # when the last Arm said
        self.end_by_s: float | None = None  # the promise of the stop under way
        self.worker_lives = self.ended_everything = False

    def see(self, event: Event) -> None:
        before = self.life
        self.life, commands = advance(before, event)
        for command in commands:
            match command:
                case SpawnWorker(attempt):
                    assert not self.worker_lives
                    assert attempt == before.attempt + 1 == self.life.attempt
                    self.worker_lives, self.ended_everything = True, False
                case Arm(at_s):
                    self.timer_s = at_s
                case EndEverything():
                    self.ended_everything = True
                case Tell(order):
                    assert self.worker_lives, f"'{order}' was told to nobody"
                case RecordEnd(state, reason, forced):
                    assert not (forced and state is State.FINISHED)
                    if state is State.FINISHED:
                        assert before.outcome == "finished", "only the worker's word makes a run finished"
                    assert self.ended_everything, "an end is recorded when nothing is left"
                    assert (state, reason) == (self.life.state, self.life.reason)
                    self.worker_lives, self.end_by_s, self.timer_s = False, None, None
                case Signal() | Refuse():
                    assert before.attempt == self.life.attempt
        if before.state in ENDED and self.life.state is not before.state:
            assert isinstance(event, StartAsked)
            assert before.state is not State.FINISHED
        if any(isinstance(command, Refuse) for command in commands):
            assert self.life == before

    @rule()
    def start(self) -> None:
        self.see(StartAsked())

    @rule(event=st.sampled_from([PauseAsked(), ResumeAsked(), CheckpointAsked()]))
    def order(self, event: Event) -> None:
        self.see(event)

    @rule(
        event=st.sampled_from(
            [WorkerStarted(), WorkerPaused(), WorkerResumed(), WorkerFailed("it broke"), FINISHED, STOPPED]
        )
    )
    def worker_says(self, event: Event) -> None:
        self.see(event)

    @rule(patience_s=PATIENCE)
    def worker_measures(self, patience_s: float) -> None:
        self.see(PatienceMeasured(patience_s))

    @rule(patience_s=st.none() | PATIENCE, kind=st.sampled_from(["by hand", "wall time", "memory"]))
    def stop(self, patience_s: float | None, kind: str) -> None:
        match kind:
            case "wall time" | "memory":
                self.see(LimitExceeded(kind, f"too much {kind}", self.now_s, patience_s))
            case _:
                self.see(StopAsked(self.now_s, kind, patience_s))
        if self.life.state is State.STOPPING:
            promise = self.now_s + (self.life.patience_s if patience_s is None else patience_s)
            self.end_by_s = promise if self.end_by_s is None else min(self.end_by_s, promise)

    @rule(code=st.one_of(st.integers(0, 255), st.none()), signal=st.integers(1, 64))
    def exit(self, code: int | None, signal: int) -> None:
        self.see(WorkerExited(code, None if code is not None else signal))

    @rule()
    def cannot_spawn(self) -> None:
        self.see(SpawnFailed("no such program"))

    @rule()
    def supervisor_dies(self) -> None:
        self.see(SupervisorDied())

    @rule(seconds=st.floats(0, 50))
    def time_passes(self, seconds: float) -> None:
        """As the supervisor keeps it: no timer is passed by without being fired."""
        then = self.now_s + seconds
        while self.timer_s is not None and self.timer_s <= then:
            self.now_s, self.timer_s = max(self.now_s, self.timer_s), None
            self.see(TimerFired(self.now_s))
        self.now_s = then

    @precondition(lambda self: self.life.state is State.STOPPING)
    @rule()
    def patience_ends(self) -> None:
        assert self.end_by_s is not None
        self.time_passes(max(0.0, self.end_by_s - self.now_s) + 1e-6)
        assert self.ended_everything

    @rule(at_s=st.floats(0, 1000))
    def stray_timer(self, at_s: float) -> None:
        if self.life.state is not State.STOPPING:
            before = self.life
            self.see(TimerFired(at_s))
            assert self.life == before

    @invariant()
    def states_are_declared(self) -> None:
        assert self.life.state in LIVE | ENDED | {State.QUEUED}
        assert (self.life.state is State.STOPPING) == (self.life.stop is not None)
        assert (self.life.state in LIVE) == self.worker_lives

    @invariant()
    def a_stop_is_never_late(self) -> None:
        if self.end_by_s is not None and self.life.state is State.STOPPING:
            assert self.ended_everything or self.now_s <= self.end_by_s + 1e-6


TestLives = Lives.TestCase
