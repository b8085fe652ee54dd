"""Comparison of methods over seeds and envs: which runs belong together, and the table, numbers and picture of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from PIL import Image

from mosaic.core.errors import InputError
from mosaic.ui.study import (
    ScoredGroup,
    SeveralGroupsError,
    compare_selected,
    make_study,
    table,
    ways_to_compare,
)
from mosaic.ui.study_files import as_csv, as_png, write_study


def group(env: str, algorithm: str, scores: list[float], **params: float) -> ScoredGroup:
    training = {"worker": "native", "algorithm": algorithm, "params": dict(params)}
    return ScoredGroup(env, f"{algorithm} named", {"training": training}, scores)


GROUPS = [
    group("gym/A", "ppo", [1.0, 2.0, 3.0], gamma=0.9),
    group("gym/A", "dqn", [0.0, 1.0, 2.0], gamma=0.8),
    group("gym/B", "ppo", [10.0, 30.0, 20.0], gamma=0.9),
    group("gym/B", "dqn", [10.0, 15.0, 20.0], gamma=0.8),
]


@pytest.mark.parametrize(
    ("by", "methods"),
    [
        ("algorithm", ["native ppo", "native dqn"]),
        ("name", ["ppo named", "dqn named"]),
        ("training.params.gamma", ["gamma 0.9", "gamma 0.8"]),
    ],
)
def test_methods_are_told_apart_as_asked(by: str, methods: list[str]) -> None:
    study = make_study(GROUPS, by)
    assert study is not None
    assert [each["method"] for each in study["methods"]] == methods
    assert study["envs"] == ["gym/A", "gym/B"]
    assert table(study)[0][:3] == [methods[0], "6", "0.625 [0.167, 1.000]"]


def test_what_cannot_be_compared() -> None:
    with pytest.raises(SeveralGroupsError, match=r"Two groups in gym/A are of the method 'native ppo'\..*--by name"):
        make_study([*GROUPS, group("gym/A", "ppo", [5.0])])
    with pytest.raises(InputError, match=r"training\.params\.gama.*training\.params\.gamma"):
        make_study(GROUPS, "training.params.gama")
    with pytest.raises(InputError, match="gym/C"):
        make_study(GROUPS, "algorithm", {"gym/C": (0.0, 1.0)})
    assert make_study([GROUPS[0], GROUPS[3]]) is None


def test_numbers_and_picture(tmp_path: Path) -> None:
    study = make_study(GROUPS)
    assert study is not None
    rows = list(csv.DictReader(io.StringIO(as_csv(study))))
    assert len(rows) == 2 * (4 + len(study["thresholds"])) + 1
    assert (rows[0]["statistic"], rows[0]["method"], float(rows[0]["value"])) == ("iqm", "native ppo", 0.625)
    assert rows[-1]["statistic"] == "probability_of_improvement"
    write_study(study, tmp_path / "study.png")
    picture = Image.open(tmp_path / "study.png").convert("RGB")
    assert picture.width == 1200
    colours = {colour for _, colour in picture.getcolors(1 << 20)}
    assert {(0x3B, 0x7D, 0xD8), (0xD9, 0x82, 0x2B)} <= colours
    with pytest.raises(InputError, match=r"ends with \.png or \.csv"):
        write_study(study, tmp_path / "study.gif")
    alone = make_study([group("gym/A", "ppo", [1.0])])
    assert alone is not None
    assert as_png(alone).startswith(b"\x89PNG")


def test_runs_compare_over_envs(mosaic, runs_here, tmp_path: Path) -> None:
    for env in ("gym/CartPole-v1", "gym/Acrobot-v1"):
        mosaic("train", env, "--worker", "toy", "--steps", "100", "--seeds", "2", "--name", env[4:-3], "--json")
    shown = mosaic("runs", "compare", "CartPole", "Acrobot", "--out", str(tmp_path / "study.png"))
    assert shown.code == 0, shown.err
    assert "Over 2 envs: normalized scores (95 %)" in shown.out
    assert "gym/Acrobot-v1: " in shown.err
    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")
    asked = mosaic("runs", "compare", "CartPole", "Acrobot", "--normalize", "gym/CartPole-v1=0:500", "--json")
    study = json.loads(asked.out)["across_envs"]
    assert study["ranges"]["gym/CartPole-v1"] == [0, 500]
    refused = mosaic("runs", "compare", "CartPole", "Acrobot", "--by", "name", "--out", str(tmp_path / "study.gif"))
    assert (refused.code, "ends with .png or .csv" in refused.err) == (2, True)
    refused = mosaic("runs", "compare", "CartPole", "Acrobot", "--by", "name")
    assert (refused.code, "No env has runs of every method" in refused.err) == (2, True)


def test_a_selection_is_compared_by_the_first_way_that_tells_its_methods_apart() -> None:
    assert ways_to_compare(GROUPS) == ["algorithm", "name"]  # gamma differs with the algorithm
    rates = [group("gym/A", "ppo", [1.0, 2.0], rate=0.1), group("gym/A", "ppo", [3.0, 4.0], rate=0.2)]
    assert ways_to_compare(rates) == ["training.params.rate"]  # their names are alike too
    found = compare_selected(rates)
    assert found.study is not None
    assert [each["method"] for each in found.study["methods"]] == ["rate 0.1", "rate 0.2"]
    one = compare_selected([GROUPS[0], GROUPS[2]]).study  # one method in two envs
    assert one is not None
    assert (len(one["methods"]), len(one["envs"])) == (1, 2)
    assert compare_selected(rates, "algorithm").reason == (
        "'algorithm' does not distinguish the methods of these runs. Choose another: training.params.rate."
    )
    with pytest.raises(InputError, match=r"'training\.params\.rat'.*Did you mean 'training\.params\.rate'"):
        compare_selected(rates, "training.params.rat")


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([], "None of the selected runs has a score yet."),
        (
            GROUPS[:1],
            (
                "The selected runs differ in nothing but their seed: all are of native ppo in gym/A. "
                "Select runs of another method or another environment too."
            ),
        ),
        (
            [GROUPS[0], GROUPS[3]],
            (
                "No environment has runs of every method: native ppo has gym/A; native dqn has gym/B. "
                "Select runs of each method in the same environment."
            ),
        ),
        (
            [GROUPS[0], GROUPS[1]._replace(measure="rating")],
            (
                "Runs in gym/A are scored by different measures: rating and return. "
                "Select runs that are scored by the same one."
            ),
        ),
        (
            [
                group("gym/A", "ppo", [1.0], rate=0.1, gamma=0.9),
                group("gym/A", "ppo", [2.0], rate=0.1, gamma=0.8),
                group("gym/A", "ppo", [3.0], rate=0.2, gamma=0.9),
            ],
            (
                "These runs differ in several settings at once, so that neither algorithm, name nor one setting tells "
                "their methods apart. Give the runs of each method a name of their own, or select fewer."
            ),
        ),
    ],
    ids=["nothing", "one", "apart", "measures", "several"],
)
def test_what_a_selection_lacks_is_said(groups: list[ScoredGroup], words: str) -> None:
    assert compare_selected(groups) == (None, words)
