"""When a worker that asks `checkpoint_due` is told to save."""

import pytest

from mosaic.config.loading import parse_run_config
from mosaic.core.errors import InputError
from mosaic.telemetry.events.writer import EventWriter
from mosaic.workers.context import WorkerContext
from mosaic.workers.inbox import Inbox
from mosaic.workers.saving_pace import LEAST_SAVE_S, SAVE_SHARE
from tests.workers.hosting import new_folder, run_config


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("mosaic.workers.context.perf_counter", clock)
    return clock


@pytest.fixture
def context_of(tmp_path):
    with EventWriter(tmp_path / "metrics.jsonl", 1) as writer:

        def make(**settings):
            config = run_config("toy", **settings)
            return WorkerContext(config, config, new_folder(tmp_path, config), writer, Inbox())

        yield make


def save(context, clock, env_steps, takes_s=0.0):
    def write(folder):
        clock.now_s += takes_s
        (folder / "weights").write_bytes(b"w")

    context.checkpoint(write, env_steps=env_steps, policies={})


def test_where_nobody_said_the_clock_decides(clock, context_of):
    context = context_of()
    assert not context.checkpoint_due(10**9)
    clock.now_s += LEAST_SAVE_S
    assert context.checkpoint_due(1)
    save(context, clock, 1)
    assert not context.checkpoint_due(2)
    clock.now_s += LEAST_SAVE_S
    assert context.checkpoint_due(2)
    assert not context.checkpoint_due(1)  # nothing was learned since


def test_checkpoints_that_take_long_are_rarer(clock, context_of):
    context = context_of()
    save(context, clock, 1, takes_s=10.0)
    clock.now_s += LEAST_SAVE_S
    assert not context.checkpoint_due(2)
    clock.now_s += 10.0 / SAVE_SHARE - LEAST_SAVE_S
    assert context.checkpoint_due(2)


def test_who_says_a_pace_in_steps_gets_it(clock, context_of):
    context = context_of(checkpoint={"every_steps": 100})
    clock.now_s += 10 * LEAST_SAVE_S
    assert [context.checkpoint_due(steps) for steps in (99, 100)] == [False, True]
    assert [context_of().checkpoint_due(steps, every_steps=50) for steps in (49, 50)] == [False, True]


def test_a_pace_in_iterations_counts_from_the_last_checkpoint(clock, context_of):
    context = context_of(checkpoint={"every_iterations": 3})
    clock.now_s += 10 * LEAST_SAVE_S
    assert [context.checkpoint_due(10**9, every_steps=1) for _ in range(3)] == [False, False, True]
    save(context, clock, 300)
    assert [context.checkpoint_due(10**9) for _ in range(3)] == [False, False, True]


def test_a_pace_in_minutes_is_met_however_long_saving_takes(clock, context_of):
    context = context_of(checkpoint={"every_minutes": 0.5})
    assert not context.checkpoint_due(10**9, every_steps=1)  # the worker's own interval does not count
    clock.now_s += 30
    assert context.checkpoint_due(100)
    save(context, clock, 100, takes_s=20)
    clock.now_s += 29.9
    assert not context.checkpoint_due(200)
    clock.now_s += 0.1
    assert context.checkpoint_due(200)
    assert not context.checkpoint_due(100)  # nothing was learned since


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"every_steps": 10, "every_minutes": 5}, "every_steps=10 and every_minutes=5"),
        ({"every_iterations": 2, "every_minutes": 0.5}, "every_iterations=2 and every_minutes=0.5"),
    ],
)
def test_two_intervals_are_refused(settings, text):
    with pytest.raises(InputError, match=f"it should have one interval, not {text}; set the others to null"):
        parse_run_config({"environment": {"env_id": "gym/CartPole-v1"}, "checkpoint": settings})
