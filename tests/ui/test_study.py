"""Comparison of methods over seeds and envs: which runs belong together, and the table, numbers and picture of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from PIL import Image

from mosaic.core.errors import InputError
from mosaic.ui.study import ScoredGroup, SeveralGroupsError, as_csv, as_png, make_study, table, write_study


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
