"""Order of reports, checkpoints and evaluations in the training loop that workers share."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

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

    def __init__(self, total: int, evaluate_every: int | None = None, stop_after: int | None = None) -> None:
        self.calls: list[str] = []
        self._total, self._stop_after = total, stop_after
        self.config = SimpleNamespace(
            evaluation=SimpleNamespace(every_steps=evaluate_every),
            checkpoint=SimpleNamespace(at_end=True),
            training=SimpleNamespace(total_timesteps=total),
        )
        self.inbox = SimpleNamespace(wait_while_paused=lambda save: None, stop_asked=self._stop_asked)
        self.training_began_at = self.training_ended_at = None

    def _stop_asked(self) -> str | None:
        iterations = sum(call.startswith("iterate") for call in self.calls)
        return "asked" if self._stop_after is not None and iterations >= self._stop_after else None

    def done(self, env_steps: int, episodes: int, reward: float | None) -> str | None:
        assert (episodes, reward) == (env_steps // 100, env_steps / 100)
        return self._stop_asked() or ("total reached" if env_steps >= self._total else None)

    def iteration(self) -> nullcontext[None]:
        return nullcontext()

    def report_due(self) -> bool:
        return False

    def report(self, *, kind: str, env_steps: int, env_steps_per_s: float = 0.0, **also: Any) -> None:
        self.calls.append(f"{kind if kind == 'evaluation' else 'report'} {env_steps}")

    def checkpoint_due(self, env_steps: int, every_steps: int | None) -> bool:
        return every_steps is not None and env_steps % every_steps == 0


def test_a_report_comes_before_a_checkpoint_and_both_before_an_evaluation() -> None:
    context = Context(total=400, evaluate_every=200)
    train(context, Counting(context.calls), report_every_steps=200, save_every_steps=200)
    assert context.calls == [
        "iterate 100", "iterate 200", "report 200", "save 200", "evaluation 200",
        "iterate 300", "iterate 400", "report 400", "save 400", "evaluation 400",
        "save 400",  # at the end; the evaluation of the same policies is not repeated
    ]  # fmt: skip
    assert context.training_began_at is not None
    assert context.training_ended_at is not None


def test_the_last_iteration_is_reported_whatever_the_interval() -> None:
    context = Context(total=250)
    train(context, Counting(context.calls), report_every_steps=1000)
    assert context.calls == ["iterate 100", "iterate 200", "iterate 300", "report 300", "save 300", "evaluation 300"]


def test_the_first_iteration_is_reported_on_request() -> None:
    context = Context(total=200)
    train(context, Counting(context.calls), report_every_steps=1000, report_first=True)
    assert [call for call in context.calls if call.startswith("report")] == ["report 100", "report 200"]


def test_a_stop_reports_and_saves_but_does_not_evaluate() -> None:
    context = Context(total=10_000, stop_after=2)
    train(context, Counting(context.calls), report_every_steps=1000)
    assert context.calls == ["iterate 100", "iterate 200", "report 200", "save 200"]


def test_a_failing_evaluation_loses_nothing() -> None:
    context = Context(total=200)
    with pytest.raises(RuntimeError, match="an opponent is missing"):
        train(context, Counting(context.calls, fails_to_evaluate=True), report_every_steps=100)
    assert context.calls[-2:] == ["report 200", "save 200"]


def test_without_an_interval_there_are_about_two_hundred_reports() -> None:
    assert default_pace(Context(total=1_000_000)) == 5000
    assert default_pace(Context(total=50)) == 1
