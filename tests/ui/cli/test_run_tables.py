"""What `mosaic runs list` and `mosaic runs show` print for people: narrow tables, and the settings that matter."""

import json
from typing import Any

import pytest

from mosaic.config.loading import dump_run_config, load_run_config, parse_run_config
from mosaic.store.store import Store
from mosaic.workers.resolution import resolve

LONG = "baseline with a learning rate that falls slowly"


def create(**settings: Any) -> str:
    asked = {"environment": {"env_id": "classic/connect_four_v3"}, "name": LONG, **settings}
    return Store().create(resolve(parse_run_config(asked)).config).run_id


@pytest.mark.parametrize("width", [80, 90, 100, 120])
def test_long_names_stay_on_their_line(mosaic, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    runs = [create(training={"worker": "native"}) for _ in range(2)]
    lines = mosaic("runs", "list").out.splitlines()
    assert max(map(len, lines)) <= width
    for run in runs:
        (line,) = [line for line in lines if run in line]
        shown = line.rstrip().rpartition("  ")[2]
        start, _, end = shown.partition("…")
        assert len(start) >= 4
        assert LONG.startswith(start)
        assert LONG.endswith(end)
    assert len(lines) < 10


def test_an_env_of_a_long_path_leaves_the_table_a_table(mosaic, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "a folder with a long name" / "and another one"
    folder.mkdir(parents=True)
    file = folder / "greenhouse.py"
    file.write_text("from examples.envs import Corridor as GreenhouseWithWindows\n")
    env = {"env_id": f"python:{file}:GreenhouseWithWindows"}
    run = create(environment=env, training={"worker": "native"})
    lines = mosaic("runs", "list").out.splitlines()
    assert max(map(len, lines)) <= 80
    (line,) = [line for line in lines if run in line]
    assert "queued" in line
    shown = mosaic("runs", "show", run).out
    assert "".join(f"{env['env_id']}: native".split()) in "".join(shown.split())  # lines may end at a blank of the path
    assert "No checkpoint" in shown


def test_a_run_shows_the_settings_that_differ_from_the_defaults(mosaic, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    training = {"worker": "native", "algorithm": "ppo", "preset": False, "params": {"gamma": 0.9, "n_epochs": 10}}
    run = create(training=training, seed=7, agents={"player_1": "random"}, policy_configuration="parameter_sharing")
    answer = mosaic("runs", "show", run)
    rows = [line.split() for line in answer.out.splitlines()]
    assert "classic/connect_four_v3: native, ppo, parameter_sharing" in answer.out
    assert ["training.params.gamma", "0.9", "0.99"] in rows
    assert ["seed", "7", "0"] in rows
    assert ["agents.player_1", "random", "–"] in rows
    assert "n_epochs" not in answer.out  # ten is the default
    assert "keep_best" not in answer.out
    assert len(rows) < 40
    assert f"All settings: mosaic runs show {run} --settings" in answer.err


def test_all_settings_are_a_file_to_train_with(mosaic, tmp_path):
    run = create(training={"worker": "native"})
    file = tmp_path / "all.json"
    file.write_text(mosaic("runs", "show", run, "--settings").out)
    assert dump_run_config(load_run_config(file)) == json.loads(mosaic("runs", "show", run, "--json").out)["config"]


def test_a_run_of_a_worker_that_is_not_installed_is_shown(mosaic):
    asked = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "elsewhere", "algorithm": "new"}}
    answer = mosaic("runs", "show", Store().create(parse_run_config(asked)).run_id)
    assert answer.code == 0
    assert "gym/CartPole-v1: elsewhere, new" in answer.out
    assert "not known here. There is no worker named 'elsewhere'" in answer.err
    assert "--settings" in answer.err


def test_settings_alone_and_everything_as_json_are_not_asked_for_at_once(mosaic):
    answer = mosaic("runs", "show", create(training={"worker": "native"}), "--settings", "--json")
    assert answer.code == 2
    assert "leave one of them out" in answer.err
