"""Reports by the clock and the patience of a stop, on a clock that the test sets."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic.core.compile_time import Compilation
from mosaic.workers.heartbeat import START_GRACE_S, Heartbeat, StopPatience, StoppedAtStartError
from mosaic.workers.inbox import Inbox


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Case:
    def __init__(self, every_s: float = 2.0, patience_s: float = 10.0, env_steps: int = 0) -> None:
        self.clock, self.inbox = Clock(), Inbox()
        self.events: list[dict[str, Any]] = []
        self.told: list[float] = []
        self.patience = StopPatience(patience_s, self._tell, self.clock)
        self.heartbeat = Heartbeat(self._report, self.inbox, every_s, self.patience, env_steps, self.clock)
        self.heartbeat.measure_with(dict)  # training begins

    def _report(self, **fields: Any) -> int:
        self.events.append(fields)
        return len(self.events)

    def _tell(self, progress: str, **facts: Any) -> None:
        assert progress == "patience"
        self.told.append(facts["patience_s"])

    def iterate(self, seconds: float) -> None:
        with self.heartbeat.iteration():
            self.clock.now_s += seconds


def test_a_silent_worker_is_reported_for_every_few_seconds() -> None:
    case = Case(env_steps=500)
    for _ in range(41):  # ten seconds in quarters
        case.heartbeat.beat()
        case.clock.now_s += 0.25
    assert [event["env_steps"] for event in case.events] == [500] * 5
    assert {event["trigger"] for event in case.events} == {"clock"}


def test_nothing_is_reported_before_training_begins() -> None:
    case = Case()
    fresh = Heartbeat(case._report, case.inbox, 2.0, case.patience, clock=case.clock)
    case.clock.now_s += 60.0
    fresh.beat()
    assert case.events == []
    with fresh.iteration():
        fresh.beat()
    assert len(case.events) == 1


def test_a_start_that_does_not_notice_a_stop_is_left_after_a_grace() -> None:
    case, left = Case(), []
    fresh = Heartbeat(case._report, case.inbox, 2.0, case.patience, clock=case.clock)
    fresh.leave = lambda: left.append(case.clock.now_s)
    fresh.stage("starting Ray")
    case.clock.now_s += 60.0
    fresh.beat()
    case.inbox.put("stop")
    for _ in range(4):
        fresh.beat()
        case.clock.now_s += 1.0
    assert left == [160.0 + START_GRACE_S]
    with pytest.raises(StoppedAtStartError):
        fresh.stage("building")
    assert [event["message"] for event in case.events] == ["starting Ray"]


@pytest.mark.parametrize("sampled", [0, 128])
def test_a_stop_while_the_first_code_is_compiled_does_not_wait_for_it(sampled: int) -> None:
    case, left = Case(), []
    work = Compilation(3, 20.0, "update")
    fresh = Heartbeat(case._report, case.inbox, 2.0, case.patience, clock=case.clock, compiling=lambda: work)
    fresh.leave = lambda: left.append(case.clock.now_s)
    with fresh.iteration():
        if sampled:
            fresh.report({"kind": "iteration", "env_steps": sampled})
        case.inbox.put("stop")
        for _ in range(4):
            fresh.beat()
            case.clock.now_s += 1.0
    assert left == ([] if sampled else [100.0 + START_GRACE_S])


def test_training_that_has_begun_is_not_left() -> None:
    case, left = Case(), []
    case.heartbeat.leave = lambda: left.append(1)
    case.heartbeat.stage("collecting the first samples")
    case.inbox.put("stop")
    case.heartbeat.beat()
    case.clock.now_s += 60.0
    case.heartbeat.beat()
    assert left == []


def test_a_worker_that_reports_by_itself_is_left_alone() -> None:
    case = Case()
    for steps in range(10):
        case.clock.now_s += 1.9
        case.heartbeat.beat()
        case.heartbeat.report({"kind": "iteration", "env_steps": steps})
    assert [event["env_steps"] for event in case.events] == list(range(10))
    assert not [event for event in case.events if "trigger" in event]


def test_what_is_known_is_kept_and_what_is_measured_is_new() -> None:
    case = Case()
    case.heartbeat.report(
        {
            "kind": "iteration",
            "env_steps": 100,
            "episode_reward_mean": 7.0,
            "time_split": {"env": 3.0},
            "training_iteration": 4,
        }
    )
    case.heartbeat.measure_with(lambda: {"env_steps": 180})
    case.clock.now_s += 4.0
    case.heartbeat.beat()
    assert case.events[-1] == {
        "kind": "iteration",
        "trigger": "clock",
        "training_iteration": 4,
        "env_steps": 180,
        "episode_reward_mean": 7.0,
        "env_steps_per_s": 20.0,
    }


def test_while_the_env_changes_only_counters_are_repeated() -> None:
    case = Case()
    case.heartbeat.report({"kind": "iteration", "env_steps": 100, "episode_reward_mean": 7.0})
    case.heartbeat.measure_with(lambda: {"env_steps": 180, "episode_reward_mean": 8.0})
    with case.heartbeat.changing_env():
        case.clock.now_s += 4.0
        case.heartbeat.beat()
    case.clock.now_s += 4.0
    case.heartbeat.beat()
    assert [(event["env_steps"], event["episode_reward_mean"]) for event in case.events[1:]] == [
        (100, None),
        (180, 8.0),
    ]


def test_the_speed_is_a_mean_over_sampling_and_learning_and_is_left_out_where_nothing_was_sampled() -> None:
    case, steps = Case(), [100]
    case.heartbeat.measure_with(lambda: {"env_steps": steps[0]})
    case.heartbeat.report({"kind": "iteration", "env_steps": 100, "env_steps_per_s": 50.0})
    case.clock.now_s += 4.0
    case.heartbeat.beat()
    steps[0] = 180
    for _ in range(3):  # 4 s in which 80 steps are sampled, then 8 s in which the learner learns
        case.clock.now_s += 4.0
        case.heartbeat.beat()
    assert [event.get("env_steps_per_s") for event in case.events] == [50.0, None, 10.0, 80 / 12, 5.0]


def test_a_paused_run_and_a_foreign_program_are_not_reported_for() -> None:
    case = Case()
    case.clock.now_s += 60.0
    case.inbox.paused = True
    case.heartbeat.beat()
    case.inbox.paused = False
    case.heartbeat.every_s = None
    case.heartbeat.beat()
    assert case.events == []


def starting(case: Case) -> Heartbeat:
    heartbeat = Heartbeat(case._report, case.inbox, 2.0, case.patience, clock=case.clock)
    heartbeat.stage("starting Ray")
    return heartbeat


@pytest.mark.parametrize(
    ("sampled", "passed_s", "grace_s"),
    [
        (None, 0.0, 3.0),  # before the first iteration
        (0, 60.0, 3.0),  # nothing was sampled in a minute
        (5, 2.0, 6.0),  # the first samples are no loss, but may be learned from and saved
        (5, 60.0, None),  # in a slow env they are
    ],
)
def test_a_stop_ends_a_start_that_does_not_notice_it(
    sampled: int | None, passed_s: float, grace_s: float | None
) -> None:
    case, left = Case(), []
    heartbeat = starting(case)
    heartbeat.leave = lambda: left.append(case.clock.now_s)
    if sampled is not None:
        heartbeat.measure_with(lambda: {"env_steps": sampled})
    case.clock.now_s += passed_s
    case.inbox.put("stop")
    stopped_s = case.clock.now_s
    for _ in range(200):
        heartbeat.beat()
        if left:
            break
        case.clock.now_s += 0.5
    assert left == ([] if grace_s is None else [stopped_s + grace_s])


@pytest.mark.parametrize("trigger", ["worker", "clock"])
def test_a_stop_after_the_first_report_of_samples_waits_for_the_worker(trigger: str) -> None:
    case, left = Case(), []
    heartbeat = starting(case)
    heartbeat.leave = lambda: left.append(case.clock.now_s)
    heartbeat.measure_with(lambda: {"env_steps": 5})
    if trigger == "worker":
        heartbeat.report({"kind": "iteration", "env_steps": 5})
    else:
        case.clock.now_s += 2.0
        heartbeat.beat()
    case.inbox.put("stop")
    for _ in range(200):
        heartbeat.beat()
        case.clock.now_s += 0.5
    assert left == []


def test_patience_follows_iterations_and_checkpoints() -> None:
    case = Case()
    case.iterate(0.1)
    assert case.told == []  # what the worker declares is enough
    case.iterate(60.0)
    assert case.told == [130.0]
    case.patience.saved(5.0)
    assert case.told == [130.0]  # hardly more
    case.patience.saved(50.0)
    assert case.told[-1] == 230.0
    for _ in range(5):
        case.iterate(1.0)
    assert case.told[-1] == 112.0  # the long one is long ago


def test_patience_grows_while_the_first_iteration_lasts() -> None:
    case = Case()
    with case.heartbeat.iteration():
        for _ in range(4):
            case.clock.now_s += 15.0
            case.heartbeat.beat()
        assert case.told == [40.0, 70.0, 100.0, 130.0]


@pytest.mark.parametrize("seconds", [0.5, 35.0])
def test_a_worker_may_say_what_it_needs(seconds: float) -> None:
    case = Case()
    case.patience.declare(seconds)
    assert case.told == [seconds]


def test_compiling_is_reported_as_such_and_not_as_training_at_no_speed() -> None:
    case, under_way = Case(), [Compilation(3, 4.0, "update")]
    heartbeat = Heartbeat(
        case._report,
        case.inbox,
        2.0,
        case.patience,
        clock=case.clock,
        compiling=lambda: under_way[0] if under_way else None,
    )
    for _ in range(3):  # before the first iteration, too
        heartbeat.beat()
        case.clock.now_s += 2.0
    assert [event["kind"] for event in case.events] == ["compiling"] * 2
    assert "3 functions, 4 s so far" in case.events[0]["message"]
    under_way.clear()
    heartbeat.measure_with(dict)
    heartbeat.beat()
    assert case.events[-1]["kind"] == "iteration"
