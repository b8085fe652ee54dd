"""Order of reports, checkpoints and evaluations in the training loop that workers share."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from mosaic.core.errors import MosaicError
from mosaic.workers import loop
from mosaic.workers.loop import Progress, default_pace, train


class Counting:
    """A training of 100 env steps per iteration that writes down what the loop calls."""

    def __init__(self, calls: list[str], fails_to_evaluate: bool = False) -> None:
        self.calls, self._steps, self._fails = calls, 0, fails_to_evaluate

    def iterate(self) -> None:
        self._steps += 100
        self.calls.append(f"iterate {self._steps}")

    def progress(self) -> Progress:
        return Progress(self._steps, self._steps // 100, self._steps / 100)

    def metrics(self) -> dict[str, Any]:
        return {"env_steps": self._steps}

    def save(self) -> None:
        self.calls.append(f"save {self._steps}")

    def evaluate(self) -> list[dict[str, Any]]:
        if self._fails:
            raise RuntimeError("an opponent is missing")
        return [{"wins": 1}]


class Context:
    """The part of WorkerContext that the loop uses."""

    def __init__(
        self, total: int, evaluate_every: int | None = None, stop_after: int | None = None, clock_due: bool = False
    ) -> None:
        self.calls: list[str] = []
        self.events: list[dict[str, Any]] = []
        self._total, self._stop_after, self._clock_due = total, stop_after, clock_due
        self.stopped_in_pause = False
        self.asked_in_pause = 0  # checkpoints in each pause
        self.config = SimpleNamespace(
            evaluation=SimpleNamespace(every_steps=evaluate_every),
            checkpoint=SimpleNamespace(at_end=True),
            training=SimpleNamespace(total_timesteps=total),
        )
        self.inbox = SimpleNamespace(wait_while_paused=self._paused, stop_asked=self._stop_asked)
        self.training_began_at = self.training_ended_at = None

    def _paused(self, save: Callable[[], None]) -> None:
        for _ in range(self.asked_in_pause):
            save()
        if self.stopped_in_pause:
            self._stop_after = 0

    def _stop_asked(self) -> str | None:
        iterations = sum(call.startswith("iterate") for call in self.calls)
        return "asked" if self._stop_after is not None and iterations >= self._stop_after else None

    def done(self, env_steps: int, episodes: int, reward: float | None) -> str | None:
        assert (episodes, reward) == (env_steps // 100, env_steps / 100)
        return self._stop_asked() or ("total reached" if env_steps >= self._total else None)

    def stage_is_over(self, env_steps: int, reward: float | None) -> bool:
        return False

    def iteration(self) -> nullcontext[None]:
        return nullcontext()

    def report_due(self) -> bool:
        return self._clock_due

    def report(self, *, kind: str, env_steps: int, env_steps_per_s: float = 0.0, **also: Any) -> None:
        self.events.append({"speed": env_steps_per_s, **also})
        names = {"iteration": "report", "checkpoint_exists": "exists"}
        self.calls.append(f"{names.get(kind, kind)} {env_steps}")

    def has_checkpoint_at(self, env_steps: int) -> bool:
        return f"save {env_steps}" in self.calls

    def checkpoint_due(self, env_steps: int, every_steps: int | None) -> bool:
        return every_steps is not None and env_steps % every_steps == 0


def test_a_report_comes_before_a_checkpoint_and_both_before_an_evaluation() -> None:
    context = Context(total=400, evaluate_every=200)
    train(context, Counting(context.calls), report_every_steps=200, save_every_steps=200)
    assert context.calls == [
        "iterate 100", "iterate 200", "report 200", "save 200", "evaluation 200",
        "iterate 300", "iterate 400", "report 400", "save 400", "evaluation 400",
    ]  # fmt: skip
    # at the end neither the checkpoint nor the evaluation of the same policies is repeated
    assert context.training_began_at is not None
    assert context.training_ended_at is not None


def test_the_last_iteration_is_reported_whatever_the_interval() -> None:
    context = Context(total=250)
    train(context, Counting(context.calls), report_every_steps=1000)
    assert context.calls == ["iterate 100", "iterate 200", "iterate 300", "report 300", "save 300", "evaluation 300"]


@pytest.mark.parametrize(("iteration_s", "reported"), [(0.3, [100, 200, 300, 400, 500]), (0.1, [300, 500])])
def test_every_iteration_is_reported_unless_many_take_no_time(monkeypatch, iteration_s, reported) -> None:
    context, now = Context(total=500), [0.0]
    training = Counting(context.calls)
    monkeypatch.setattr(loop, "perf_counter", lambda: now[0])

    def iterate() -> None:
        now[0] += iteration_s
        Counting.iterate(training)

    monkeypatch.setattr(training, "iterate", iterate)
    train(context, training, report_gap_s=0.25)
    assert [int(call.split()[1]) for call in context.calls if call.startswith("report")] == reported


def test_a_step_is_saved_once_however_often_that_is_asked_for() -> None:
    context = Context(total=200)
    context.asked_in_pause = 2
    train(context, Counting(context.calls), report_every_steps=1000, save_every_steps=100)
    assert [call for call in context.calls if call.startswith(("save", "exists"))] == [
        "save 0", "exists 0", "save 100", "exists 100", "exists 100", "save 200",
    ]  # fmt: skip


def test_the_first_iteration_is_reported_on_request() -> None:
    context = Context(total=200)
    train(context, Counting(context.calls), report_every_steps=1000, report_first=True)
    assert [call for call in context.calls if call.startswith("report")] == ["report 100", "report 200"]


def test_a_stop_reports_and_saves_but_does_not_evaluate() -> None:
    context = Context(total=10_000, stop_after=2)
    train(context, Counting(context.calls), report_every_steps=1000)
    assert context.calls == ["iterate 100", "iterate 200", "report 200", "save 200"]


def test_a_stop_during_a_pause_trains_no_further() -> None:
    context = Context(total=10_000)
    context.stopped_in_pause = True
    train(context, Counting(context.calls))
    assert context.calls == ["save 0"]


def test_a_report_that_is_due_by_the_clock_says_so() -> None:
    context = Context(total=200, clock_due=True)
    train(context, Counting(context.calls), report_every_steps=1000)
    by_clock, at_the_end, _ = context.events
    assert by_clock["trigger"] == "clock"
    assert "trigger" not in at_the_end


def test_the_speed_is_that_since_the_last_report(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(loop, "working_time", lambda: float(next(seconds)))  # each iteration takes one second
    context = Context(total=400)
    train(context, Counting(context.calls), report_every_steps=200)
    assert [event["speed"] for event in context.events[:2]] == [100.0, 100.0]


def test_a_failing_evaluation_loses_nothing() -> None:
    context = Context(total=200)
    with pytest.raises(RuntimeError, match="an opponent is missing"):
        train(context, Counting(context.calls, fails_to_evaluate=True), report_every_steps=100)
    assert context.calls[-2:] == ["report 200", "save 200"]


def test_without_an_interval_there_are_about_two_hundred_reports() -> None:
    assert default_pace(Context(total=1_000_000)) == 5000
    assert default_pace(Context(total=50)) == 1


def test_training_that_cannot_change_its_env_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(total=400)
    monkeypatch.setattr(context, "stage_is_over", lambda *_: True)
    monkeypatch.setattr(context, "next_stage", lambda _: nullcontext(), raising=False)
    with pytest.raises(MosaicError, match="declares a curriculum, and Counting has no change_env"):
        train(context, Counting(context.calls))
