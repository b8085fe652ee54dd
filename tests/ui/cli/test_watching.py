"""What `mosaic train` shows before there are numbers."""

import io
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from mosaic.core.compile_time import timer
from mosaic.ui.cli import output as screen
from mosaic.ui.cli import watching as following
from mosaic.ui.cli.commands.train import _advise
from mosaic.ui.cli.watching import TrainingView, follow


def shown(*events, view=None):
    view = view or TrainingView("a-run", "gym/CartPole-v1   rllib ppo", clock=lambda: 1.0)
    for event in events:
        view.add(event)
    console = Console(width=80, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(view.render(80))
    return captured.get()


def test_a_run_that_has_reported_nothing_says_what_it_waits_for():
    started = {"kind": "started", "attempt": 1}
    assert "0 env steps   waiting for the first iteration …" in shown(started)
    assert "0 env steps   waiting for the first iteration …" in shown(started, {"kind": "alert", "message": "1 runner"})


def test_a_note_stands_where_a_reward_will_be():
    without = {"kind": "iteration", "env_steps": 400, "note": "no episode yet"}
    assert "400 env steps   no episode yet" in shown(without)
    later = shown(without, {"kind": "iteration", "env_steps": 800, "episode_reward_mean": 2.5})
    assert "800 env steps   reward 2.500" in later
    assert "no episode yet" not in later


def test_what_a_worker_picked_stands_below_the_title():
    picked = {"kind": "equipped", "message": "ppo: fused engine (a plain net), 8 × gym/CartPole-v1, one thread"}
    lines = shown({"kind": "started", "attempt": 1}, picked).splitlines()
    assert lines[1].strip() == picked["message"]


def iteration(steps, at_s, **more):
    return {"kind": "iteration", "env_steps": steps, "timestamp": 1e9 + at_s, **more}


def test_the_speed_is_that_of_the_run_however_fast_its_events_are_read():
    """`watch --once` reads hours of events in a moment."""
    assert "2,000 env steps   100/s" in shown(*(iteration(100 * second, second) for second in range(1, 21)))


def test_reports_that_are_far_apart_have_a_speed_too():
    assert "900 env steps   10/s" in shown(iteration(300, 0.0), iteration(900, 60.0))


def test_times_that_do_not_grow_give_no_speed():
    assert "/s" not in shown(iteration(100, 5.0), iteration(200, 5.0))


def test_a_first_update_that_takes_long_gives_no_speed_of_0():
    later = [iteration(100, second, training_iteration=1) for second in range(1, 30)]
    assert "/s" not in shown(*later)


class Told:
    """A run that has told these events."""

    id = "a-run"

    def __init__(self, *events):
        self._events = events

    def events(self):
        return iter(self._events)


def test_a_run_into_a_pipe_prints_a_line_now_and_then(monkeypatch):
    text, seconds = io.StringIO(), iter(range(0, 100, 2))
    monkeypatch.setattr(screen, "err", Console(file=text, width=80))
    monkeypatch.setattr(following, "err", screen.err)
    monkeypatch.setattr(following, "monotonic", lambda: float(next(seconds)))
    view = TrainingView("a-run", "title", 2_000)
    alert = {"kind": "alert", "message": "one runner was lost"}
    told = Told({"kind": "started"}, *(iteration(100 * k, k, episode_reward_mean=k) for k in range(1, 11)), alert)
    follow(told, view)
    lines = text.getvalue().splitlines()
    assert lines[0] == "a-run: 0 env steps of 2,000   waiting for the first iteration …"
    assert lines[1] == "a-run: 300 env steps of 2,000   100/s   0:17 left   reward 3.000"
    assert [line.split()[1] for line in lines[1:4]] == ["300", "600", "900"]
    assert lines[4:] == ["one runner was lost"]


def test_stages_of_the_start_are_shown_until_the_first_step():
    now = [10.0]
    view = TrainingView("a-run", "title", 2_000, clock=lambda: now[0])
    view.add({"kind": "stage", "message": "starting Ray"})
    now[0] = 17.2
    assert view.line() == "a-run: 0 env steps of 2,000   starting Ray … 7 s"
    assert "starting Ray … 7 s" in shown({"kind": "started"}, view=view)
    view.add(iteration(0, 18))
    assert "starting Ray" in view.line()
    view.add(iteration(100, 19))
    assert "starting Ray" not in view.line()


def test_stages_into_a_pipe_are_printed_as_they_come(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(screen, "err", Console(file=text, width=80))
    monkeypatch.setattr(following, "err", screen.err)
    stages = ({"kind": "stage", "message": message} for message in ("starting Ray", "building the algorithm"))
    follow(Told({"kind": "started"}, *stages), TrainingView("a-run", "title"))
    assert text.getvalue().splitlines()[1:] == ["a-run: starting Ray …", "a-run: building the algorithm …"]


@pytest.mark.parametrize(
    ("state", "checkpoints", "text"),
    [
        ("stopped", ["100"], "Resume it: mosaic runs resume a-run\n"),
        ("stopped", [], "Nothing was saved: a-run ended before its first checkpoint.\n"),
        ("finished", ["100"], ""),
    ],
)
def test_resuming_is_advised_only_where_something_was_saved(capsys, state, checkpoints, text):
    _advise(SimpleNamespace(run_id="a-run", state=state, checkpoints=checkpoints))
    assert capsys.readouterr().err == text


def test_json_prints_no_lines(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(screen, "err", Console(file=text, width=80))
    follow(Told(*(iteration(k, k) for k in range(9))), TrainingView("a-run", "title"), shown=False)
    assert text.getvalue() == ""


def test_compiling_is_shown_until_training_begins_and_is_left_out_of_the_speed():
    view = TrainingView("a-run", "title", 2_000)
    view.add(iteration(100, 1))
    view.add({"kind": "compiling", "message": "compiling machine code (3 functions, 4 s so far)", "timestamp": 3})
    assert view.line() == "a-run: 100 env steps of 2,000   compiling machine code (3 functions, 4 s so far)"
    view.add(iteration(200, 50))
    view.add(iteration(300, 51))
    assert view.steps_per_s == 100
    assert "compiling" not in view.line()


def test_a_command_says_on_a_terminal_that_it_compiles(mosaic, monkeypatch, capsys):
    monkeypatch.setattr(timer, "on_first", None)
    mosaic("--version")
    assert timer.on_first is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    mosaic("--version")
    timer.on_first()  # as the first function that is not in the cache does
    assert capsys.readouterr().err == "Compiling machine code, once after an installation or upgrade …\n"


def test_the_speed_counts_whole_iterations():
    """Sampling takes 2 s and 1,000 env steps, learning 18 s: 50 a second, not 0 while it learns."""
    view = TrainingView("a-run", "title", 100_000)
    for number in range(4):
        began = 20.0 * number
        view.add(iteration(1_000 * number + 500, began + 1, training_iteration=number))
        view.add(iteration(1_000 * number + 1_000, began + 2, training_iteration=number))
        for second in range(4, 20, 2):
            view.add(iteration(1_000 * number + 1_000, began + second, training_iteration=number))
            assert number < 2 or view.steps_per_s == pytest.approx(50, rel=0.01)
        view.add(iteration(1_000 * number + 1_000, began + 20, training_iteration=number + 1))


@pytest.mark.parametrize(
    ("family", "env_id", "title"),
    [
        ("gym", "CartPole-v1", "gym/CartPole-v1   tabular sarsa"),
        ("python", "my_envs:Corridor", "python:my_envs:Corridor   tabular sarsa"),
    ],
)
def test_the_title_names_the_env_as_commands_do(family, env_id, title):
    training = {"worker": "tabular", "algorithm": "sarsa"}
    config = {"environment": {"family": family, "env_id": env_id}, "training": training}
    view = following.view_of(SimpleNamespace(id="a-run", show=lambda: SimpleNamespace(config=config)))
    assert shown(view=view).startswith(title)


def test_following_a_run_imports_nothing_that_reads_pictures():
    program = "import sys, mosaic.ui.cli.watching; sys.exit(sum(name in sys.modules for name in ('numba', 'PIL')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
