"""`mosaic bench`: programs of a folder are run, and what they write down becomes a report."""

from __future__ import annotations

import errno
import json
import os
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFont

from mosaic.ui.cli.bench import packages, report
from mosaic.ui.cli.commands import bench as command
from tests.ui.cli.bench_folder import FIGURES, program, programs

__all__ = ["programs"]


def test_the_report_has_medians_intervals_goals_and_the_machine(mosaic, programs):
    done = mosaic("bench", "good", "--quick", "--out", "here")
    assert done.code == 0, done.err
    for word in ("counting", "200 steps/s [180, 220]", "2× [1.8, 2.2]", "abacus", "at least 1.5", "yes", "0.25 s"):
        assert word in done.out, word
    assert "Other programs use 80 % of the cores" in done.err
    document = json.loads(Path("here/report.json").read_text())
    assert document["machine"]["cores"]
    assert document["machine"]["versions"].keys() >= {"python", "numpy", "pytest"}
    assert document["machine"]["used_percent"] == 80
    counting, start = document["figures"]
    assert counting["ratios"] == [2.0, 2.2, 1.8]
    assert counting["medians"] == {
        "ours": {"median": 200.0, "low": 180.0, "high": 220.0},
        "peer": {"median": 100.0, "low": 100.0, "high": 100.0},
        "ratio": {"median": 2.0, "low": 1.8, "high": 2.2},
    }
    assert start["medians"] == {"ours": {"median": 0.25, "low": None, "high": None}}
    row = (
        "| good | counting | 200 steps/s [180, 220] | 100 steps/s [100, 100] | abacus | 2× [1.8, 2.2] | at least 1.5 |"
    )
    text = Path("here/report.md").read_text()
    assert f"{row} yes |" in text
    for said in ("`mosaic bench good --quick`", "other programs used 80 % of the cores", "](report.png)", "the range"):
        assert said in text, said
    assert Path("here/report.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_names_the_commit_and_its_changes():
    about = report.circumstances(FIGURES.parent, "mosaic bench", 3.2, [])
    about["git"] = {"commit": "c0ffee", "dirty": True}
    assert "Commit c0ffee, with uncommitted changes; python 3" in report.markdown(about, [])
    assert "no repository" in report.markdown({**about, "git": None}, [])


def test_reasons_of_several_lines_stay_in_their_row_of_the_table():
    about = report.circumstances(FIGURES.parent, "mosaic bench", 3.2, [])
    text = report.markdown(about, [{"benchmark": "b", "what": "row", "failed": "Traceback\n  a | b\nno beads"}])
    assert "| b | row | Traceback a / b no beads |" in text


def test_the_picture_of_an_earlier_report_is_not_kept_beside_other_figures(mosaic, programs):
    (programs / "alone.py").write_text(program().replace("note_ratio(", "(lambda *_: None)("))
    assert mosaic("bench", "good", "--out", "here").code == 0
    assert mosaic("bench", "alone", "--out", "here").code == 0
    assert sorted(os.listdir("here")) == ["report.json", "report.md"]
    assert "report.png" not in Path("here/report.md").read_text()


def test_labels_of_the_picture_have_only_letters_of_its_font_and_fit():
    font = ImageFont.load_default(15)
    label = report._label({"what": "one decision, 64×64, p50 (141 µs)", "peer": "SB3"}, font, 410)
    assert label == "one decision, 64x64, p50 (141 us) / SB3"
    missing = bytes(font.getmask("\uffff"))
    assert [letter for letter in label.replace(" ", "") if bytes(font.getmask(letter)) == missing] == []
    long = report._label(
        {"what": "PPO CartPole, 512 compiled envs, env steps/s", "peer": "Gymnasium in NumPy"}, font, 410
    )
    assert long.startswith("PPO CartPole, 512 compiled envs, env steps/s / ")
    assert (long[-1], font.getlength(long) <= 410) == ("…", True)


@pytest.mark.parametrize("bound", [50.0, 0.01])
def test_the_mark_of_a_goal_is_in_the_picture_also_where_it_is_far_from_every_ratio(tmp_path, bound):
    figure = {"what": "counting", "peer": "abacus", "ratios": [2.0], "goal": "at least", "bound": bound}
    report._draw([figure], tmp_path / "drawn.png")
    with Image.open(tmp_path / "drawn.png") as drawn:
        dark = (np.asarray(drawn.convert("RGB")) == (27, 36, 48)).all(axis=2)
    (marks,) = np.nonzero(dark[46:69].all(axis=0))  # as high as the row, which no letter is
    assert 430 < marks.min() < marks.max() < 430 + 520


def test_a_full_disk_ends_no_benchmark_and_the_report_is_tried_again(mosaic, programs, monkeypatch):
    write, refused = report.write_report, [OSError(errno.ENOSPC, "No space left on device")]

    def writing(folder, about, figures):
        if refused:
            raise refused.pop()
        return write(folder, about, figures)

    monkeypatch.setattr(report, "write_report", writing)
    done = mosaic("bench", "good", "slow", "--out", "here")
    assert "The report cannot be written to 'here': No space left on device." in done.err
    assert [each["benchmark"] for each in json.loads(Path("here/report.json").read_text())["figures"]] == [
        *("good", "good"),
        *("slow", "slow"),
    ]
    refused.append(OSError(errno.ENOSPC, "No space left on device"))
    last = mosaic("bench", "good", "--out", "here")
    assert (last.code, "200 steps/s" in last.out, "Written" in last.err) == (1, True, False)


def test_a_figure_that_was_cut_off_is_a_failure(tmp_path):
    (tmp_path / "found").write_text('{"what": "counting", "unit": "s", "values": [1.0]}\n{"what": "a st')
    whole, cut = report.read_figures(tmp_path / "found", "good")
    assert whole["values"] == [1.0]
    assert cut["failed"] == 'a figure was not written whole (is the disk full?): {"what": "a st'


def test_a_missed_goal_and_a_program_that_fails_end_with_1(mosaic, programs):
    missed = mosaic("bench", "slow", "--json")
    assert missed.code == 1
    assert json.loads(missed.out)["figures"][0]["met"] is False
    assert json.loads(missed.out)["figures"][0]["medians"]["peer"]["median"] == 100.0
    broken = mosaic("bench", "broken", "good")
    assert broken.code == 1
    assert "ended with exit code 1: no abacus" in " ".join(broken.out.split())
    assert "Missed or failed: broken" in broken.err


def test_what_needs_a_missing_package_is_left_out_and_says_what_to_type(mosaic, programs, monkeypatch):
    (programs / "needy.py").write_text(program("1", "import abacus_of_1642"))
    (programs / "peer.py").write_text(program("1", "note_skipped('a row', 'no tree. Type: this', 'tree')"))
    monkeypatch.setattr(packages, "missing", lambda root: ["abacus[wood]==1642"])
    done = mosaic("bench", "needy", "peer", "good", "--out", "here")
    assert done.code == 0, done.err
    assert "Not installed: abacus[wood]==1642. What needs them is left out. Type: mosaic bench --with-peers" in done.err
    text = Path("here/report.md").read_text()
    assert "| left out: abacus_of_1642 is not installed. Type: mosaic bench --with-peers |" in text
    assert "| left out: no tree. Type: this |" in text
    assert "| good | counting | 200 steps/s" in text


def test_what_is_missing_after_peers_were_installed_is_a_failure(mosaic, programs, monkeypatch):
    """To type the same command again would not help."""
    (programs / "needy.py").write_text(program("1", "import abacus_of_1642"))
    (programs / "peer.py").write_text(program("1", "note_skipped('a row', 'no tree. Type: this', 'tree')"))
    monkeypatch.setattr(packages, "missing", lambda root: ["abacus[wood]==1642"])
    asked = []
    monkeypatch.setattr(packages, "install", lambda root, wanted: asked.append((root, wanted)))
    done = mosaic("bench", "needy", "peer", "--with-peers", "--out", "here")
    assert done.code == 1
    assert asked == [(programs.parent, ["abacus[wood]==1642"])]
    text = Path("here/report.md").read_text()
    assert "| needy | ended with exit code 1: ModuleNotFoundError: No module named 'abacus_of_1642' |" in text
    assert "| a row | tree is not installed, although --with-peers has installed what pyproject.toml names |" in text
    assert "left out" not in text


def test_programs_and_rows_are_listed(mosaic, programs):
    (programs / "rows.py").write_text(program() + "ROWS = {'first': 1, 'second': 2}\n")
    listed = json.loads(mosaic("bench", "--list", "--json").out)
    assert listed["good"] == {"what": "Speed of counting.", "rows": []}
    assert listed["rows"]["rows"] == ["first", "second"]
    assert list(json.loads(mosaic("bench", "rows", "--list", "--json").out)) == ["rows"]
    assert "first, second" in mosaic("bench", "--list").out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("god", "There is no benchmark named 'god'. Did you mean 'good'?"),
        ("rows:furst", "There is no row of 'rows' named 'furst'. Did you mean 'first'? Known: first, second."),
        ("rows:", "There is no row of 'rows' named ''."),
        ("good:first", "The benchmark 'good' has no rows to choose from. Type: mosaic bench good"),
    ],
)
def test_an_unknown_name_is_refused_before_anything_runs(mosaic, programs, asked, said):
    (programs / "rows.py").write_text(program() + "ROWS = {'first': 1, 'second': 2}\n")
    done = mosaic("bench", "slow", asked, "--out", "here")
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert "counting" not in done.err
    assert not Path("here").exists()


def test_rows_are_chosen_where_a_benchmark_has_them(mosaic, programs):
    (programs / "rows.py").write_text(program("1") + "ROWS = {'first': 1, 'second': 2}\n")
    done = mosaic("bench", "rows:first", "rows:second", "--quick")
    assert (done.code, "counting first second --quick" in done.err) == (0, True)
    whole = mosaic("bench", "rows", "rows:second", "--quick")
    assert "counting --quick" in whole.err


@pytest.mark.parametrize("out", ["taken", "taken/below", "/proc/nothing"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(mosaic, programs, out):
    Path("taken").write_text("a file")
    done = mosaic("bench", "good", "--out", out)
    assert done.code == 2
    assert f"The report cannot be written to '{out}': " in " ".join(done.err.split())
    assert "Name another folder: --out FOLDER" in " ".join(done.err.split())
    assert "counting" not in done.err


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
    first, second = report.read_figures(tmp_path / "found", "b")
    assert (first["ratios"], second["failed"]) == ([4.0], "the gate failed")
    assert os.listdir(tmp_path) == ["found"]


def test_an_indented_figure_is_reported_with_the_name_that_it_stands_below(tmp_path, monkeypatch):
    figures = runpy.run_path(str(FIGURES))
    monkeypatch.setenv(figures["VARIABLE"], str(tmp_path / "found"))
    figures["note_figure"]("  alone", "s", [1.0])
    figures["note_ratio"]("start", "s", [1.0], [4.0], "peer")
    figures["note_figure"]("  in CPU time", "s", [1.0])
    figures["note_ratio"]("  beside threads", "s", [1.0], [2.0], "peer")
    figures["note_figure"]("redraw", "s", [1.0])
    names = [each["what"] for each in report.read_figures(tmp_path / "found", "b")]
    assert names == ["alone", "start", "start: in CPU time", "start: beside threads", "redraw"]


def test_goals_of_the_short_form_leave_room_for_a_slow_machine(tmp_path, monkeypatch):
    figures = runpy.run_path(str(FIGURES))
    at_least, at_most, goal = figures["at_least"], figures["at_most"], figures["Goal"]
    monkeypatch.setenv(figures["VARIABLE"], str(tmp_path / "found"))
    assert figures["note_figure"]("start", "s", [1.0], at_most(0.5)) == "at most 0.5: NO"
    figures["loosen_goals"]()
    said = [
        figures["note_ratio"]("ratio", "steps/s", [60.0], [100.0], "peer", at_least(0.97)),
        figures["note_figure"]("ratio without a peer", "×", [2.5], at_most(1.5)),
        figures["note_figure"]("ratio without a peer", "×", [3.5], at_most(1.5)),
        figures["note_figure"]("start", "s", [1.0], at_most(0.5)),
        figures["note_figure"]("optimal moves", "%", [96.0], goal("at least", 97, fixed=True)),
    ]
    assert said == ["at least 0.485: yes", "at most 3: yes", "at most 3: NO", "", "at least 97: NO"]
    bounds = [each.get("bound") for each in report.read_figures(tmp_path / "found", "b")]
    assert bounds == [0.5, 0.485, 3.0, 3.0, None, 97]
