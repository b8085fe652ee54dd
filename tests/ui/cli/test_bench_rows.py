"""Rows of a benchmark: what the report says about what they measured."""

from __future__ import annotations

import re

import pytest

from mosaic.ui.cli.bench.programs import choose, find_programs
from tests.ui.cli.bench_folder import FIGURES, ask

__all__ = ["ask"]

FOLDER = FIGURES.parent


def test_the_peer_of_cleanrl_trains_to_the_goal_once_beside_ours_of_the_same_seed(ask):
    text = """
import sys
from types import SimpleNamespace
from ppo_rows import single
from ppo_rows.measure import Outcome, Plan
single.make_learner = lambda *_: SimpleNamespace(close=lambda: None)
single.train = lambda learner, steps, goal: Outcome(steps, 2.0, 2.0, 480.0)
sys.modules["ppo_peers.cleanrl_style"] = SimpleNamespace(train=lambda seed, *_: Outcome(100, 8.0, 8.0, 480.0))
single.cleanrl(Plan(3, quick=False, with_peers=False))
"""
    done, figures = ask(text)
    assert done.returncode == 0, done.stderr
    speed, time = figures
    assert len(speed["ratios"]) == 3
    assert (time["values"], time["peer_values"], time["ratios"]) == ([2.0], [8.0], [4.0])


def test_rows_that_only_learn_report_what_they_reached(ask):
    text = """
from ppo_rows.measure import Plan
from rllib_rows import learning
from row_table import run_row
found = {"reward": 460.0, "steps": 90_000, "wall_s": 30.0}
learning.ask = lambda script, question: found
print(run_row("ppo", lambda: learning.ppo(Plan(5, quick=False, with_peers=False))))
found["reward"] = 440.0
print(run_row("ppo", lambda: learning.ppo(Plan(5, quick=False, with_peers=False))))
"""
    done, figures = ask(text)
    reached = "ppo CartPole, mean return"
    names = [reached, f"{reached}: time until then", f"{reached}: env steps until then", "ppo"]
    assert [each["what"] for each in figures] == names
    assert [each["values"] for each in figures[1:3]] == [[30.0], [90_000]]
    assert (figures[0]["values"], figures[0]["bound"], figures[0]["met"]) == ([460.0], 450, True)
    assert figures[3]["failed"] == "the gate failed: ppo reaches 440.0 of 450 in 30 s", done.stderr


def test_rows_of_tables_name_their_peer_and_keep_goals_of_times(ask):
    text = """
from tabular_rows.rows import row
row("counting", [6.0, 8.0], "steps/s", [2.0, 2.0], 2, name="abacus")
row("time to count", [60.0], "ms", at_most=50)
"""
    _, (speed, time) = ask(text)
    assert (speed["what"], speed["peer"], speed["ratios"], speed["met"]) == ("counting", "abacus", [3.0, 4.0], True)
    assert (time["goal"], time["bound"], time["met"]) == ("at most", 50, False)


def test_the_ratio_that_is_printed_is_that_of_the_report(ask):
    text = """
from ppo_rows.measure import Outcome, show_speed, show_time
ours = [Outcome(100, wall_s, wall_s) for wall_s in (1.0, 1.0, 4.0)]
peer = [Outcome(100, wall_s, wall_s) for wall_s in (9.0, 2.0, 6.0)]
show_speed("counting", ours, peer, "abacus")
show_time("counting", ours, peer, "abacus", None)
show_time("counting", ours, peer, "abacus", None, unit="µs")
"""
    done, figures = ask(text)
    assert [each["peer_values"] for each in figures[1:]] == [[9.0, 2.0, 6.0], [9e6, 2e6, 6e6]]
    assert [each["unit"] for each in figures] == ["steps/s", "s", "µs"]
    assert [sorted(each["ratios"])[1] for each in figures] == [2.0] * 3
    assert [line.partition("ratio ")[2][:15] for line in done.stdout.splitlines()] == ["2.00 (cpu 2.00)"] * 3


def test_speed_does_not_count_where_continuous_control_did_not_learn(ask):
    text = """
import continuous
from row_table import run_row
reached = {"ours": 90.0}
continuous.ours = lambda row, steps, seed: continuous.Trained(1.0, 1.0, reached["ours"])
continuous.peer = lambda row, steps, seed: continuous.Trained(2.0, 2.0, 100.0)
row = continuous.ROWS["sac-pendulum"]
for seeds in (range(1), range(2)):
    print(run_row("sac-pendulum", lambda: continuous.measure("sac-pendulum", row, 1000, seeds)))
"""
    _, figures = ask(text)
    assert figures[0]["ratios"] == [2.0]
    assert figures[1]["failed"] == "the gate failed: a return of 90.0, and 100.0 is the least"


def test_repeats_of_the_apps_reach_the_report_and_the_short_form_keeps_goals_of_memory(ask):
    text = """
import fastlane, figures, tui
figures.loosen_goals()
tui.show("start", [0.5, 0.9, 0.7], "s", 0.8)
fastlane.say("memory", 5.0, "MB", 4)
fastlane.say("wanted()", 5.0, "µs", 4)
"""
    done, (start, memory, wanted) = ask(text)
    assert (start["values"], "    0.7 s" in done.stdout) == ([0.5, 0.9, 0.7], True), done.stderr
    assert (memory["bound"], memory["met"], "bound" in wanted) == (4, False, False)


@pytest.mark.parametrize("name", ["runs", "tui", "fastlane"])
def test_rows_that_follow_one_that_crashes_are_measured(ask, name):
    text = f"""
import {name} as benchmark
from figures import note_figure
def crash(*_): 1 / 0
def good(*_): note_figure("good", "s", [1.0])
benchmark.ROWS = {{"crash": crash, "good": good}}
benchmark.main()
"""
    done, figures = ask(text)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "failed: crash")
    assert [each.get("failed") or each["what"] for each in figures] == ["ZeroDivisionError: division by zero", "good"]


def test_the_smoke_benchmark_fails_when_its_time_is_over(ask):
    """A part of `make test` must not hang."""
    text = """
import signal
import smoke
def waiting(): signal.pause()
smoke.LIMIT_S, smoke.PARTS = 0.2, (waiting,)
smoke.main()
"""
    done, figures = ask(text)
    assert (done.returncode, done.stderr) == (1, "not done after 0.2 s, in the row waiting: is the machine busy?\n")
    assert [each["what"] for each in figures] == ["time limit"]


def test_rows_and_short_forms_are_found_without_running_a_benchmark():
    """An unknown row is refused before anything runs, and `make bench` takes the short form of everything long."""
    programs = find_programs(FOLDER)
    with_rows = {name for name, each in programs.items() if "ROW" in each.path.read_text().partition("def main")[2]}
    assert {name for name, each in programs.items() if each.rows} == with_rows
    assert {"fastlane", "gpu", "ppo", "runs", "tabular", "tui", "web"} <= with_rows
    short = {"smoke", "imitation"}  # two minutes at most, and their goals are what was learned
    assert {name for name, each in programs.items() if "--quick" not in each.options} == short


@pytest.mark.parametrize("page", ["README.md", "docs/benchmarks.md"])
def test_benchmarks_and_rows_that_pages_name_exist(page):
    text = (FOLDER.parent / page).read_text()
    named = re.findall(r"^mosaic bench ([^-#`\n][^#`\n]*)|`mosaic bench ([^-`]+)[^`]*`", text, re.M)
    words = [(first or second).split() for first, second in named]
    assert words
    for each in words:
        choose(each, find_programs(FOLDER))
