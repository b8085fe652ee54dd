"""`mosaic bench`: programs of a folder are run, and what they write down becomes a report."""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path

import pytest

from mosaic.ui.cli import bench_report
from mosaic.ui.cli.commands import bench as command

FIGURES = Path(command.__file__).parents[5] / "benchmarks" / "figures.py"
PROGRAM = '''"""Speed of counting.

More about it.
"""
import sys
from figures import Goal, note_failure, note_figure, note_ratio

def main():
    print("counting", *sys.argv[1:])
    note_ratio("counting", "steps/s", [200, 220, 180], [100, 100, 100], "abacus", Goal("at least", GOAL))
    note_figure("a start", "s", [0.25], Goal("at most", 1))
    FAILURE

"--quick"
main()
'''


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "figures.py").write_bytes(FIGURES.read_bytes())
    (folder / "good.py").write_text(PROGRAM.replace("GOAL", "1.5").replace("FAILURE", ""))
    (folder / "slow.py").write_text(PROGRAM.replace("GOAL", "3").replace("FAILURE", ""))
    (folder / "broken.py").write_text(PROGRAM.replace("GOAL", "1.5").replace("FAILURE", "sys.exit('no abacus')"))
    monkeypatch.setattr(command, "_folder", lambda: folder)
    monkeypatch.setattr(command, "_used_percent", lambda: 80.0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_report_has_ratios_intervals_goals_and_the_machine(mosaic, programs):
    done = mosaic("bench", "good", "--quick", "--out", "here")
    assert done.code == 0, done.err
    for word in ("counting", "2×", "[1.8, 2.2]", "abacus", "at least 1.5", "yes", "0.25 s"):
        assert word in done.out, word
    assert "Other programs use 80 % of the cores" in done.err
    report = json.loads(Path("here/report.json").read_text())
    assert report["machine"]["cores"]
    assert report["machine"]["versions"]["python"]
    assert report["figures"][0]["ratios"] == [2.0, 2.2, 1.8]
    assert (
        "| good | counting | 200 steps/s | 2× [1.8, 2.2] | abacus | at least 1.5 | yes |"
        in Path("here/report.md").read_text()
    )
    assert Path("here/report.png").read_bytes().startswith(b"\x89PNG")


def test_a_missed_goal_and_a_program_that_fails_end_with_1(mosaic, programs):
    missed = mosaic("bench", "slow", "--json")
    assert missed.code == 1
    assert json.loads(missed.out)["figures"][0]["met"] is False
    broken = mosaic("bench", "broken", "good")
    assert broken.code == 1
    assert "ended with exit code 1" in broken.out
    assert "Missed or failed: broken" in broken.err


def test_ctrl_c_keeps_what_was_measured(mosaic, programs):
    stopped = "import os, signal; os.kill(os.getppid(), signal.SIGINT); signal.pause()"
    (programs / "benchmarks" / "stopped.py").write_text(PROGRAM.replace("GOAL", "1").replace("FAILURE", stopped))
    done = mosaic("bench", "good", "stopped", "--out", "here")
    assert done.code == 130
    figures = json.loads(Path("here/report.json").read_text())["figures"]
    assert [(each["benchmark"], each["what"]) for each in figures] == [
        (name, what) for name in ("good", "stopped") for what in ("counting", "a start")
    ]


def test_what_needs_a_missing_package_is_left_out_and_says_what_to_type(mosaic, programs):
    (programs / "benchmarks" / "needy.py").write_text(
        PROGRAM.replace("GOAL", "1").replace("FAILURE", "import abacus_of_1642")
    )
    done = mosaic("bench", "needy", "good", "--out", "here")
    assert done.code == 0, done.err
    assert "Not installed: abacus-of-1642." in done.err
    report = Path("here/report.md").read_text()
    assert "| left out: abacus_of_1642 is not installed. Type: mosaic bench --with-peers |" in report
    assert "| good | counting | 200 steps/s |" in report


def test_peers_are_installed_when_asked(mosaic, programs, monkeypatch):
    asked = []
    (programs / "benchmarks" / "own").mkdir()
    (programs / "benchmarks" / "own" / "conflict.py").write_text("import another_numpy")
    (programs / "benchmarks" / "needy.py").write_text("import abacus_of_1642\n")
    monkeypatch.setattr(command, "_install", lambda folder, packages: asked.append(packages))
    assert mosaic("bench", "good", "--with-peers").code == 0
    assert asked == [["abacus-of-1642"]]


def test_an_installation_that_fails_shows_the_command(mosaic, programs, monkeypatch):
    (programs / "benchmarks" / "needy.py").write_text("import abacus_of_1642\n")
    (programs / "constraints.txt").write_text("not a requirement at all\n")
    done = mosaic("bench", "good", "--with-peers")
    assert done.code == 1
    assert "pip install" in done.err
    assert "abacus-of-1642 failed: " in done.err


def test_programs_are_listed_and_an_unknown_one_is_refused(mosaic, programs):
    assert json.loads(mosaic("bench", "--list", "--json").out)["good"] == "Speed of counting."
    done = mosaic("bench", "god")
    assert (done.code, "Did you mean 'good'?" in done.err) == (2, True)


def test_rows_are_chosen_where_a_benchmark_has_them(mosaic, programs):
    rows = programs / "benchmarks" / "rows.py"
    rows.write_text(PROGRAM.replace("GOAL", "1").replace("FAILURE", "") + "# row_parser(\n")
    done = mosaic("bench", "rows:first", "rows:second", "--quick")
    assert (done.code, "counting first second --quick" in done.err) == (0, True)
    done = mosaic("bench", "good:first")
    assert (done.code, "has no rows to choose from" in done.err) == (2, True)


def test_without_a_repository_it_says_where_the_benchmarks_are(mosaic, monkeypatch):
    monkeypatch.setattr(command, "__file__", "/usr/lib/python3/site-packages/mosaic/ui/cli/commands/bench.py")
    done = mosaic("bench", "--list")
    assert (done.code, "Clone it" in done.err) == (2, True)


def test_figures_are_written_only_where_they_are_asked_for(tmp_path, monkeypatch):
    figures = runpy.run_path(str(FIGURES))
    monkeypatch.delenv(figures["VARIABLE"], raising=False)
    figures["note_figure"]("start", "s", [1.0])
    monkeypatch.setenv(figures["VARIABLE"], str(tmp_path / "found"))
    figures["note_ratio"]("start", "s", [1.0], [4.0], "peer")
    figures["note_failure"]("row", "the gate failed")
    first, second = bench_report.read_figures(tmp_path / "found", "b")
    assert (first["ratios"], second["failed"]) == ([4.0], "the gate failed")
    assert os.listdir(tmp_path) == ["found"]


def test_every_benchmark_of_the_repository_is_listed():
    known = command._benchmarks(command._folder())
    assert {"ppo", "runner", "sb3", "tui"} <= known.keys()
    assert not {"figures", "row_table"} & known.keys()
    assert all(command._summary(path).endswith(".") or ":" in command._summary(path) for path in known.values())
