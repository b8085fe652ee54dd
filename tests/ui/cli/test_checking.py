"""The live view of `mosaic check`: totals by agent, plain lines, how long it goes on, and Ctrl-C."""

import io
import json
from itertools import count

import numpy as np
import pytest
from rich.console import Console

from mosaic.testing import Crowd, Fading, check_env
from mosaic.ui.cli import checking
from mosaic.ui.cli.checking import CheckView, describe_observation

FADING = "python:mosaic.testing.toys:Fading"


def seen(env, episodes=1, **options):
    """Return a view that has seen whole episodes."""
    view = CheckView(env.spec.env_id, **options)
    for _ in range(episodes):
        turn, steps = env.reset(), count(1)
        view.see(turn, 0)
        while not turn.over:
            turn = env.step(dict.fromkeys(turn.observations, 0))
            view.see(turn, next(steps))
    return view


def drawn(view, width, height):
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False)
    console.print(view)
    return console.file.getvalue().splitlines()


def test_every_agent_has_its_own_totals():
    # Fading pays a 1 + 2, b 1 + 2 + 3 + 4 and c 0 + 2 + 3 + 4; a acts twice, c joins after the first step
    lines = drawn(seen(Fading(), episodes=2), 100, 24)
    rows = {line.split()[0]: line.split()[1:6] for line in lines if line[:2] in ("a ", "b ", "c ")}
    assert rows == {
        "a": ["4", "2", "2.000", "3.000", "3.000"],
        "b": ["8", "2", "4.000", "10.000", "10.000"],
        "c": ["6", "2", "4.000", "9.000", "9.000"],
    }
    assert "8 env steps" in lines[1]
    assert "2 resets" in lines[1]


def test_a_low_terminal_shows_as_many_agents_as_it_has_lines_for():
    lines = drawn(seen(Crowd(20)), 80, 12)
    assert [line[0] for line in lines[4:9]] == list("abcde")
    assert lines[9] == "… and 15 more agents"
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("observation", "text"),
    [
        (np.array([0.25, -1.0]), "0.25 -1"),
        (np.arange(10), "0 1 2 3 4 5 … (10)"),
        (np.zeros((8, 8, 1), np.uint8), "8×8×1 from 0 to 0"),
        ({"obs": np.array([0.5]), "camera_2d": np.full((2, 2), 7)}, "obs: 0.5, camera_2d: 2×2 from 7 to 7"),
        ((3, np.array([1.0])), "3, 1"),
        ("a sentence", "a sentence"),
    ],
)
def test_observations_are_described_in_one_line(observation, text):
    assert describe_observation(observation) == text


def test_random_play_goes_on_for_the_seconds_that_were_asked():
    clock = iter(range(1000)).__next__
    view = CheckView("x/y", seconds=2.0, clock=lambda: float(clock()))
    assert [view.wants_more() for _ in range(3)] == [True, False, False]
    assert not CheckView("x/y", seconds=0.0).wants_more()


class Stopped(CheckView):
    """View that meets Ctrl-C at a Turn of its choice."""

    def __init__(self, at, seconds):
        super().__init__("x/y", seconds)
        self.left = at

    def see(self, turn, step):
        super().see(turn, step)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_ctrl_c_after_the_check_ends_random_play_with_the_report():
    watched = seen(Fading(), episodes=0)
    report = check_env(Fading, watcher=watched)
    turns = watched._env_steps + watched._resets
    assert check_env(Fading, watcher=Stopped(turns + 7, seconds=3600)) == report
    with pytest.raises(KeyboardInterrupt):
        check_env(Fading, watcher=Stopped(turns, seconds=3600))


def test_the_command_shows_totals_where_random_play_was_asked(mosaic):
    answer = mosaic("check", FADING, "--seconds", "0.05")
    assert answer.code == 0
    assert "mean return" in answer.out
    assert "keeps the contract" in answer.out
    assert "mean return" not in mosaic("check", FADING).out
    document = json.loads(mosaic("check", FADING, "--json", "--seconds", "0.05").out)
    assert [row["agent"] for row in document["agents"]] == ["a", "b", "c"]


def test_an_interrupted_check_says_so_and_shows_what_it_saw(mosaic, monkeypatch):
    monkeypatch.setattr(checking, "CheckView", lambda _, seconds: Stopped(6, seconds))
    answer = mosaic("check", FADING)
    assert answer.code == 130
    assert "4 env steps" in answer.out
    assert "Interrupted: the contract was not checked to the end." in answer.out


def test_without_a_terminal_lines_are_printed_at_most_every_few_seconds(mosaic, monkeypatch):
    assert "steps/s" not in mosaic("check", FADING).err
    monkeypatch.setattr(checking, "LINE_EVERY_S", 0.0)
    lines = mosaic("check", FADING).err.splitlines()
    assert f"{FADING}: 1 env steps" in lines[1]
    assert "a: reward 1.000, return 1.000" in lines[1]
    assert mosaic("check", FADING, "--json").err == ""
