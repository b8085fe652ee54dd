"""Alerts about runs, while they run and after their end."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from mosaic.store.state import State
from mosaic.ui.web.data.alerts import EventWatch, collapse_alert, end_alerts, plateau_alert, silence_alert


def iteration(env_steps: int, timestamp: float = 0.0, **learner: float | None) -> dict[str, Any]:
    policies = {"left": {"learner": learner}} if learner else {}
    return {"kind": "iteration", "env_steps": env_steps, "timestamp": timestamp, "policies": policies}


def texts(*events: dict[str, Any]) -> list[str]:
    watch = EventWatch()
    for event in events:
        watch.take(event)
    return [alert.text for alert in watch.alerts()]


def test_a_failed_run_says_what_to_do() -> None:
    (alert,) = end_alerts(State.FAILED, "r", "out of memory")
    assert alert.text == "The worker failed: out of memory"
    assert "log" in alert.advice
    assert end_alerts(State.FINISHED, "r", "done") == []


def test_silence_is_news_only_while_it_runs() -> None:
    (alert,) = silence_alert(State.RUNNING, 100.0, 225.0)
    assert alert.text == "The worker has not reported for 2 min 05 s"
    assert silence_alert(State.PAUSED, 100.0, 225.0) == []
    assert silence_alert(State.RUNNING, 100.0, 130.0) == []
    assert silence_alert(State.RUNNING, 100.0, 225.0, usual_s=50.0) == []  # its iterations are that long


def test_a_plateau_is_told_from_progress() -> None:
    x = [1000.0 * step for step in range(60)]
    flat = plateau_alert(State.RUNNING, x, [min(float(step), 15.0) for step in range(60)])
    assert [alert.text for alert in flat] == ["The return has not improved for 19\u202fk env steps"]
    assert plateau_alert(State.RUNNING, x, [float(step) for step in range(60)]) == []
    assert plateau_alert(State.RUNNING, x[:20], [1.0] * 20) == []


def test_a_loss_that_is_not_a_number_is_named_and_stays_known() -> None:
    broken, sound = iteration(500, value_loss=None, entropy=0.1), iteration(900, value_loss=1.0, entropy=0.1)
    assert texts(broken) == ["Value loss of left is not a number since 500 env steps"]
    assert texts(broken, iteration(600)) == ["Value loss of left is not a number since 500 env steps"]
    assert texts(broken, sound) == ["Metrics of the learner were not finite at 500 env steps"]
    assert texts(broken, {"kind": "resumed", "from_env_steps": 400}, sound) == []
    assert texts(sound) == []
    both = iteration(500, value_loss=None, entropy=None)
    assert texts(both) == ["Value loss of left, entropy of left are not numbers since 500 env steps"]


def test_a_policy_that_explores_no_more_is_named() -> None:
    assert texts(iteration(1, entropy=0.6), iteration(2, entropy=0.003)) == [
        "The entropy of left is almost 0: it no longer explores"
    ]
    assert texts(iteration(1, entropy=0.6), iteration(2, entropy=0.1)) == []
    assert texts(iteration(1, entropy=1.0), iteration(2, entropy=-3.0)) == []  # of a density, which may be negative


def test_a_stall_is_told_from_a_pause_and_from_an_evaluation() -> None:
    moving = iteration(100, 1000.0)
    assert texts(moving, iteration(100, 1090.0), iteration(200, 1095.0)) == [
        "No env step was taken for 1 min 30 s at 100 env steps"
    ]
    assert texts(moving, iteration(200, 5000.0)) == []  # paused: no report came
    evaluation = {"kind": "evaluation", "env_steps": 100, "timestamp": 1080.0}
    assert texts(moving, evaluation, iteration(100, 1090.0)) == []
    assert texts(iteration(0, 1000.0), iteration(0, 1090.0)) == []  # it starts


def test_what_the_worker_reported_is_kept() -> None:
    watch = EventWatch()
    for number in range(7):
        watch.take({"kind": "alert", "message": f"note {number}"})
    assert watch.reported == [f"note {number}" for number in (2, 3, 4, 5, 6)]


def test_a_collapse_is_told_from_noise_and_progress() -> None:
    x = [1000.0 * step for step in range(100)]
    rise_and_fall = [float(step if step < 60 else max(5, 60 - 4 * (step - 60))) for step in range(100)]
    (alert,) = collapse_alert(x, rise_and_fall)
    assert alert.text == "The return fell from 56.00 at 57\u202fk env steps to 5.00"
    random = Random(0)
    assert collapse_alert(x, [random.gauss(0, 1) for _ in x]) == []
    assert collapse_alert(x, [step + random.gauss(0, 5) for step in range(100)]) == []
    assert collapse_alert(x, [100 * (1 - math.exp(-step / 20)) for step in range(100)]) == []
    assert collapse_alert(x[:20], rise_and_fall[:20]) == []
