"""Comparison of methods over seeds and envs: which runs belong together, and the table, numbers and picture of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from PIL import Image

from mosaic.core.errors import InputError
from mosaic.store.state import State
from mosaic.ui.cli.group_results import Group, env_key
from mosaic.ui.study import (
    ScoredGroup,
    SeveralGroupsError,
    StudiedRun,
    caveats,
    compare_selected,
    make_study,
    study_of,
    table,
    ways_to_compare,
)
from mosaic.ui.study_files import as_csv, as_png, envs_in_words, write_study


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
        make_study([*GROUPS, group("gym/A", "ppo", [5.0], gamma=0.5)])
    with pytest.raises(InputError, match=r"training\.params\.gama.*training\.params\.gamma"):
        make_study(GROUPS, "training.params.gama")
    with pytest.raises(InputError, match="gym/C"):
        make_study(GROUPS, "algorithm", {"gym/C": (0.0, 1.0)})
    assert make_study([GROUPS[0], GROUPS[3]]) is None


def test_numbers_and_picture(tmp_path: Path) -> None:
    study = make_study(GROUPS)
    assert study is not None
    rows = list(csv.DictReader(io.StringIO(as_csv(study))))
    assert len(rows) == 2 * (4 + len(study["thresholds"])) + 1 + 2
    assert (rows[0]["statistic"], rows[0]["method"], float(rows[0]["value"])) == ("iqm", "native ppo", 0.625)
    assert rows[-3]["statistic"] == "probability_of_improvement"
    assert [(row["statistic"], row["env"], row["low"], row["high"]) for row in rows[-2:]] == [
        ("range", "gym/A", "0.0", "3.0"),
        ("range", "gym/B", "10.0", "30.0"),
    ]
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


def test_files_say_on_which_scale_scores_are_and_what_is_left_out() -> None:
    study = make_study([*GROUPS, group("gym/C", "ppo", [1.0], gamma=0.9)])
    assert study is not None
    assert envs_in_words(study) == [
        (
            "Normalized per env, so that these scores are 0 and 1: gym/A: 0 to 3; gym/B: 10 to 30. "
            "Left out, as a method has no run there: gym/C."
        )
    ]
    assert as_csv(study).splitlines()[-1] == "left_out,,,gym/C,,,,"


def test_scores_below_a_given_range_are_drawn_beside_the_names(tmp_path: Path) -> None:
    study = make_study(GROUPS, ranges={"gym/A": (100.0, 200.0), "gym/B": (100.0, 200.0)})
    assert study is not None
    picture = Image.open(io.BytesIO(as_png(study))).convert("RGB")
    names = picture.crop((0, 80, 198, 150))
    assert (0x3B, 0x7D, 0xD8) not in {colour for _, colour in names.getcolors(1 << 20)}


def test_two_seed_groups_with_the_same_settings_are_one_group() -> None:
    study = make_study([*GROUPS, group("gym/A", "ppo", [5.0], gamma=0.9)])
    assert study is not None
    assert [each["runs"] for each in study["methods"]] == [7, 6]
    assert study["ranges"]["gym/A"] == [0.0, 5.0]


def test_a_method_without_scores_leaves_the_others_to_be_compared() -> None:
    def made(env: str, algorithm: str, scores: list[float]) -> Group:
        config = {"training": {"worker": "native", "algorithm": algorithm}}
        return Group(f"{env} {algorithm}", env, [], scores, config, "episode_reward_mean", [])

    groups = [made(each.env, str(each.label.split()[0]), list(each.scores)) for each in GROUPS]
    compared = study_of([*groups, made("gym/A", "sac", []), made("gym/B", "sac", [])], None, (), None)
    assert compared.study is not None
    assert [each["method"] for each in compared.study["methods"]] == ["native ppo", "native dqn"]


def test_returns_that_a_wrapper_changes_are_of_another_env() -> None:
    def key(*wrappers: str) -> str:
        return env_key({"environment": {"family": "gym", "env_id": "A", "options": {"n": 3}, "wrappers": [*wrappers]}})

    assert key("grayscale", "frame_stack:num=4", "python:mine:wrap") == key() == 'gym/A {"n": 3}'
    assert (
        key("time_limit:max_steps=9", "flatten", "clip_reward") == 'gym/A {"n": 3} time_limit:max_steps=9 clip_reward'
    )


def test_caveats_of_a_comparison() -> None:
    def run(state: State, score: float | None, seed: int, measure: str = "episode_reward_mean") -> StudiedRun:
        return StudiedRun(state, score, measure, seed, "settings")

    assert caveats([run(State.FINISHED, 1.0, 1), run(State.FINISHED, 1.0, 2)]) == []
    assert caveats(
        [
            run(State.FINISHED, 1.0, 1),
            run(State.FAILED, 2.0, 1),
            run(State.STOPPED, 3.0, 2),
            run(State.FAILED, None, 3),
            run(State.RUNNING, 1.0, 4, "policies/learner/rating"),
        ]
    ) == [
        "Left out, as they have no score: 1 of 5 runs.",
        "1 of 5 runs is not over: the score so far counts.",
        "2 of 5 runs ended early (failed, stopped): the last score before that counts.",
        (
            "1 of 5 runs repeats the seed of another with the same settings: "
            "intervals count them as independent and are too narrow."
        ),
        "A rating of self-play is against the run's own snapshots. Let runs play: mosaic tournament ENV run:A run:B",
    ]


def test_runs_compare_over_envs(mosaic, runs_here, tmp_path: Path) -> None:
    for env in ("gym/CartPole-v1", "gym/Acrobot-v1"):
        mosaic("train", env, "--worker", "toy", "--steps", "100", "--seeds", "2", "--name", env[4:-3], "--json")
    shown = mosaic("runs", "compare", "CartPole", "Acrobot", "--out", str(tmp_path / "study.png"))
    assert shown.code == 0, shown.err
    assert "Over 2 envs: normalized scores (95 %)" in shown.out
    assert "mean over" not in shown.out  # a curve with a single point is not drawn
    assert "gym/Acrobot-v1: " in shown.err
    assert (tmp_path / "study.png").read_bytes().startswith(b"\x89PNG")
    assert f"The statistics over envs are in {tmp_path / 'study.png'}" in shown.err
    asked = mosaic("runs", "compare", "CartPole", "Acrobot", "--normalize", "gym/CartPole-v1=0:500", "--json")
    study = json.loads(asked.out)["across_envs"]
    assert study["ranges"]["gym/CartPole-v1"] == [0, 500]
    refused = mosaic("runs", "compare", "CartPole", "Acrobot", "--by", "name", "--out", str(tmp_path / "study.gif"))
    assert (refused.code, "ends with .png or .csv" in refused.err) == (2, True)
    refused = mosaic("runs", "compare", "CartPole", "--out", str(tmp_path / "none" / "study.PNG"))
    assert (refused.code, f"Type: mkdir -p {tmp_path / 'none'}" in refused.err) == (2, True)
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
