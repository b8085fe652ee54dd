"""The choice between sources of a run's pictures on the command line."""

from types import SimpleNamespace

import pytest

from mosaic.core.errors import InputError, MosaicError
from mosaic.ui.cli.commands.watch import PictureAlerts, _source, check_drawn, sources_note, waiting_for_evaluation


def run_with(sources, env_steps=10, worker="native"):
    details = SimpleNamespace(sources=sources, env_steps=env_steps, config={"training": {"worker": worker}})
    return SimpleNamespace(id="walk", show=lambda: details)


def test_a_source_is_taken_by_its_name_or_number():
    two = run_with(("env-runner-1", "env-runner-2"))
    assert [_source(two, asked) for asked in ("2", "env runner 2", "evaluation")] == [
        "env-runner-2",
        "env-runner-2",
        "evaluation",
    ]
    assert _source(run_with((), env_steps=None), "2") == "env-runner-2"  # a run that has just begun
    assert _source(run_with((), worker="rllib"), "2") == "env-runner-2"  # a resumed run that starts Ray
    assert _source(run_with((), env_steps=0), "evaluation") == "evaluation"  # it starts Ray
    assert _source(run_with(()), "evaluation") == "evaluation"  # a run with one ring shows its evaluations there


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        ((), "The run walk has one source of pictures, or none, not '3'. Leave --source out, or type --"),
        (("env-runner-1",), "There is no source of pictures named '3'. Did you mean"),
    ],
)
def test_a_source_that_is_not_there_is_refused(sources, text):
    with pytest.raises(InputError) as caught:
        _source(run_with(sources), "3")
    assert text.partition(" Did you")[0] in str(caught.value)


def test_the_view_names_the_sources():
    assert sources_note((), None) == ""
    assert sources_note(("env-runner-1", "env-runner-2"), None) == (
        "Pictures: env-runner-1, env-runner-2, evaluation. Shown: the active one. Another: --source NAME."
    )
    assert "Shown: evaluation." in sources_note(("env-runner-1", "evaluation"), "evaluation")


@pytest.mark.parametrize(
    ("now", "every", "end", "said"),
    [
        (None, 500, 2000, "Waiting for the next evaluation, at 500 env steps (0 env steps so far)"),
        (1100, 500, None, "Waiting for the next evaluation, at 1,500 env steps (1,100 env steps so far)"),
        (
            1600,
            500,
            2000,
            "Waiting for the evaluation at the end of training, at 2,000 env steps (1,600 env steps so far)",
        ),
        (
            7,
            None,
            9,
            "Waiting for the evaluation at the end of training (7 env steps so far; evaluation.every_steps is",
        ),
    ],
)
def test_an_evaluation_is_waited_for_with_the_step_at_which_it_comes(now, every, end, said):
    config = {"evaluation": {"every_steps": every}, "training": {"total_timesteps": end}}
    assert waiting_for_evaluation(SimpleNamespace(env_steps=now, config=config)).startswith(said)


def test_a_run_without_frames_is_not_waited_for():
    with pytest.raises(InputError, match=r"The run walk draws no pictures: it was started with telemetry.frames=false"):
        check_drawn("walk", SimpleNamespace(config={"telemetry": {"frames": False}}))


def test_an_alert_that_says_why_there_is_no_picture_ends_the_waiting():
    why = "No pictures: python:mazes:Maze draws none."
    told = [
        {"seq": 1, "attempt": 1, "kind": "alert", "message": "No pictures: of an earlier attempt."},
        {"seq": 2, "attempt": 2, "kind": "alert", "message": "The loss is not a number."},
        {"seq": 3, "attempt": 2, "kind": "iteration"},
        {"seq": 4, "attempt": 2, "kind": "alert", "message": why},
    ]
    asked = []
    events = lambda after: asked.append(after) or iter(told[after:])  # noqa: E731
    alerts = PictureAlerts(SimpleNamespace(events=events))
    alerts.check(SimpleNamespace(last_seq=3, attempts=(1, 2)))
    alerts.check(SimpleNamespace(last_seq=3, attempts=(1, 2)))
    assert asked == [0]
    with pytest.raises(MosaicError, match=why):
        alerts.check(SimpleNamespace(last_seq=4, attempts=(1, 2)))
    assert asked == [0, 3]
