"""Import of the Godot RL controller's files: every setting is taken over, or reported with the reason."""

from __future__ import annotations

import json

import pytest

from mosaic.config.project import parse_project
from mosaic.core.errors import FormatError, InputError, MissingExtraError
from mosaic.store.projects.controller_import import convert_controller_project, find_controller_projects

TRAINING = {
    "mode": "multi_agent",
    "env_path": "bin/game.x86_64",
    "timesteps": 500_000,
    "experiment_name": "first",
    "sb3_policy_type": "mlp",
    "sb3_policy_layers": [64, 64],
    "sb3_lstm_hidden_size": 128,
    "sb3_viz": False,
    "sb3_speedup": 30,
    "sb3_n_parallel": 2,
    "sb3_learning_rate": 3e-4,
    "rllib_algorithm": "appo",
    "rllib_num_workers": 4,
    "rllib_lambda": 0.95,
    "rllib_framework": "torch",
    "rllib_stop_mode": "time_seconds",
    "rllib_stop_time_seconds": 100,
    "rllib_stop_timesteps_total": 1000,
    "rllib_policy_type": "lstm",
    "rllib_lstm_cell_size": 64,
    "rllib_resume_from": "",
}
YAML = """
algorithm: PPO
env_is_multiagent: true
checkpoint_frequency: 10
stop: {time_total_s: 1200, training_iteration: 5}
config:
    env: godot
    env_config: {env_path: null, show_window: true, speedup: 20}
    lr: 0.0003
    sgd_minibatch_size: 64
    num_workers: 0
    made_up: 3
    model: {fcnet_hiddens: [64, 64], custom_model: tui_grn}
"""
EXPORT = {
    "mode": "rllib",
    "config": {"rllib_output_dir": "out", "rllib_opset": 13, "rllib_checkpoint_path": "/x", "sb3_skip_verify": True},
}


def accept(worker, algorithm, params):
    pass


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        file = folder / (name + (".yaml" if name == "rllib_config" else ".json"))
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def outcomes(project):
    return {f"{each.file}:{each.setting}": each.place or each.why for each in project.report}


def test_a_whole_project(tmp_path):
    folder = write(
        tmp_path / "game" / ".rlcontroller",
        project={"name": "arena", "created": 1},
        training_config=TRAINING,
        rllib_config=YAML,
        export_config=EXPORT,
    ).parent
    project = convert_controller_project(folder, accept)
    config = parse_project(project.document())
    assert (config.name, config.game, config.default_preset) == ("arena", "bin/game.x86_64", "rllib_config")
    assert config.train["single_agent"] == {
        "training": {
            "worker": "sb3",
            "algorithm": "ppo",
            "total_timesteps": 500_000,
            "params": {"net_arch": [64, 64], "learning_rate": 3e-4},
        },
        "tags": ["first"],
        "environment": {"options": {"show_window": False, "speedup": 30}, "num_envs": 2},
    }
    assert config.train["multi_agent"] == {
        "training": {
            "worker": "rllib",
            "algorithm": "appo",
            "params": {"lambda_": 0.95, "use_lstm": True, "lstm_cell_size": 64},
        },
        "tags": ["first"],
        "resources": {"num_env_runners": 4, "max_wall_s": 100},
    }
    assert config.train["rllib_config"] == {
        "training": {
            "worker": "rllib",
            "algorithm": "ppo",
            "params": {"fcnet_hiddens": [64, 64], "lr": 3e-4, "minibatch_size": 64},
        },
        "checkpoint": {"every_iterations": 10},
        "resources": {"max_wall_s": 1200},
        "environment": {"options": {"show_window": True, "speedup": 20}},
    }
    assert config.export["rllib"].opset == 13
    report = outcomes(project)
    assert report["training_config.json:sb3_lstm_hidden_size"] == "the network is not an LSTM"
    assert report["training_config.json:rllib_stop_timesteps_total"] == "the chosen way of stopping does not use it"
    assert report["training_config.json:rllib_resume_from"] == "it has no value"
    assert report["rllib_config.yaml:config.made_up"] == "Mosaic does not know it"
    assert report["rllib_config.yaml:config.model.custom_model"] == "Mosaic does not know it"
    assert "at least one" in report["rllib_config.yaml:config.num_workers"]
    assert report["export_config.json:sb3_skip_verify"] == "every export is verified"
    given = len(TRAINING) + 2 + 15 + 5
    assert len({(each.file, each.setting) for each in project.report}) == given  # nothing is dropped silently


def test_plain_names_of_sb3_are_understood(tmp_path):
    flat = {"env_path": "g", "learning_rate": 1e-3, "n_steps": 128, "total_timesteps": 9, "speedup": 8, "seed": 5,
            "action_repeat": 4, "n_parallel": 3, "viz": True}  # fmt: skip
    project = convert_controller_project(write(tmp_path, training_config=flat), accept)
    preset = project.document()["train"]["single_agent"]
    assert preset["training"]["params"] == {"learning_rate": 1e-3, "n_steps": 128}
    assert (preset["seed"], preset["training"]["total_timesteps"]) == (5, 9)
    assert preset["environment"] == {
        "options": {"speedup": 8, "action_repeat": 4, "show_window": True}, "num_envs": 3
    }  # fmt: skip
    assert all(each.outcome == "taken over" for each in project.report)


def test_an_lstm_of_sb3_is_another_algorithm(tmp_path):
    flat = {"sb3_policy_type": "lstm", "sb3_lstm_hidden_size": 32, "sb3_lstm_num_layers": 2}
    project = convert_controller_project(write(tmp_path, training_config=flat), accept)
    training = project.document()["train"]["single_agent"]["training"]
    assert training == {
        "worker": "sb3", "algorithm": "recurrent_ppo", "params": {"lstm_hidden_size": 32, "n_lstm_layers": 2}
    }  # fmt: skip


def test_values_that_no_run_accepts_are_reported(tmp_path):
    def check(worker, algorithm, params):
        if params.get("gamma", 0) > 1:
            raise InputError("gamma: at most 1")
        if "clip_range" in params:
            raise MissingExtraError("pip install it")

    flat = {"timesteps": -4, "sb3_gamma": 7, "sb3_clip_range": 0.2, "seed": "x", "mode": "mars"}
    project = convert_controller_project(write(tmp_path, training_config=flat), check)
    report = outcomes(project)
    assert "at least 1" in report["training_config.json:timesteps"]
    assert report["training_config.json:sb3_gamma"] == "gamma: at most 1"
    assert report["training_config.json:sb3_clip_range"] == "train.single_agent.training.params.clip_range"
    assert "whole number" in report["training_config.json:seed"]
    assert report["training_config.json:mode"] == "Mosaic does not know it"


def test_paths_stay_right_in_another_folder(tmp_path):
    folder = write(tmp_path / "old", training_config={"env_path": "game"}, export_config=EXPORT)
    document = convert_controller_project(folder, accept).document(into=tmp_path / "new")
    assert document["game"] == f"{folder}/game"
    assert document["export"]["rllib"]["out"] == f"{folder}/out"


def test_where_projects_are_found(tmp_path):
    one = write(tmp_path / "one", project={"name": "one"})
    two = write(tmp_path / "two" / ".rlcontroller", training_config={}).parent
    (tmp_path / "index.json").write_text(
        json.dumps([{"name": "one", "path": str(one)}, {"name": "two", "path": "two"}])
    )
    assert find_controller_projects(tmp_path / "index.json") == [one, two]
    assert find_controller_projects(tmp_path) == [one, two]
    assert find_controller_projects(one) == [one]
    assert find_controller_projects(two / ".rlcontroller" / "training_config.json") == [two]
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(FormatError, match="it should be a list of projects"):
        find_controller_projects(tmp_path)
    with pytest.raises(InputError, match=r"none of index\.json, project\.json"):
        find_controller_projects(tmp_path / "nowhere")


def test_hostile_files_are_refused(tmp_path):
    write(tmp_path / "a", rllib_config="algorithm: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(FormatError, match=r"rllib_config\.yaml, line 1.*not plain data"):
        convert_controller_project(tmp_path / "a", accept)
    write(tmp_path / "b", training_config="{" + " " * (1 << 20))
    with pytest.raises(FormatError, match="more than 1024 KiB"):
        convert_controller_project(tmp_path / "b", accept)
    write(tmp_path / "c", training_config="[1]")
    with pytest.raises(FormatError, match="settings are names with values"):
        convert_controller_project(tmp_path / "c", accept)
