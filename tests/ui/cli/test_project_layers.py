"""`mosaic train` in a project: no arguments needed, and which layer of settings wins."""

import json

import pytest

PROJECT = """
name = "cart"
env = "gym/CartPole-v1"
default_preset = "quick"

[train.quick]
seed = 3
training = { worker = "native", total_timesteps = 5_000, params = { gamma = 0.91, n_epochs = 3 } }
environment = { num_envs = 24 }

[train.toy]
training = { worker = "toy", total_timesteps = 300 }
"""


@pytest.fixture
def project(tmp_path, monkeypatch, mosaic):
    folder = tmp_path / "cart"
    (folder / "notes" / "old").mkdir(parents=True)
    (folder / "mosaic.toml").write_text(PROJECT)
    monkeypatch.chdir(folder / "notes" / "old")  # below the project
    return folder


def dry(mosaic, *words):
    answer = mosaic("train", *words, "--dry-run", "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_each_layer_wins_over_those_below(mosaic, project):
    document = dry(mosaic)
    params = document["training"]["params"]
    assert (document["project"], document["seed"], document["environment"]["env_id"]) == ("cart", 3, "CartPole-v1")
    assert params["gamma"] == 0.91  # project preset over env preset
    assert params["n_epochs"] == 3
    tuned = dry(mosaic, "gym/CartPole-v1", "--worker", "native", "--no-project")
    assert tuned["project"] == ""
    assert tuned["training"]["params"]["gamma"] != 0.91
    assert params["learning_rate"] == tuned["training"]["params"]["learning_rate"]  # env preset over default
    default = dry(mosaic, "gym/CartPole-v1", "--worker", "native", "--no-project", "--set", "training.preset=false")
    assert default["training"]["params"]["learning_rate"] != params["learning_rate"]

    (project / "run.toml").write_text("seed = 4\n[training]\ntotal_timesteps = 6000\nparams = { gamma = 0.92 }\n")
    file = ("--config", str(project / "run.toml"))
    document = dry(mosaic, *file)
    assert (document["seed"], document["training"]["total_timesteps"]) == (4, 6000)  # --config over preset
    assert document["training"]["params"]["gamma"] == 0.92
    assert document["training"]["params"]["n_epochs"] == 3
    document = dry(mosaic, *file, "--seed", "5", "--steps", "7000", "--set", "training.params.gamma=0.93")
    assert (document["seed"], document["training"]["total_timesteps"]) == (5, 7000)  # command line over all
    assert document["training"]["params"]["gamma"] == 0.93
    assert document["environment"]["num_envs"] == 24


def test_another_env_is_trained_without_the_options_of_the_projects(mosaic, project):
    document = dry(mosaic, "gym/Acrobot-v1")
    assert document["environment"]["env_id"] == "Acrobot-v1"
    assert document["environment"]["num_envs"] != 24
    assert document["training"]["params"]["gamma"] == 0.91
    assert document["project"] == "cart"


def test_a_dry_run_says_where_values_come_from(mosaic, project):
    (project / "run.toml").write_text("seed = 4\n")
    said = mosaic("train", "--config", str(project / "run.toml"), "--steps", "7000", "--dry-run").err
    assert "Project 'cart', preset 'quick', from" in said
    assert "From the command line: training.total_timesteps." in said
    assert f"From --config {project}/run.toml: seed." in said
    assert "From the preset 'quick' of the project 'cart': environment.env_id" in said
    assert "From the preset for gym/CartPole-v1: training.params." in said


def test_training_needs_no_arguments_and_lists_the_project(mosaic, project, runs_here):
    result = json.loads(mosaic("train", "--preset", "toy", "--json").out)
    assert (result["state"], result["env_steps"]) == ("finished", 300)
    (row,) = json.loads(mosaic("runs", "list", "--project", "cart", "--json").out)
    assert (row["run_id"], row["project"]) == (result["run_id"], "cart")
    (listed,) = json.loads(mosaic("projects", "list", "--json").out)
    assert (listed["name"], listed["folder"], listed["state"]) == ("cart", str(project), "ok")
    assert json.loads(mosaic("runs", "list", "--project", ".", "--json").out) == [row]
    unknown = mosaic("runs", "list", "--project", "card")
    assert unknown.code == 2
    assert "There is no project named 'card'. Did you mean 'cart'? Known: cart." in unknown.err


def test_a_named_project_is_trained_from_anywhere(mosaic, project, monkeypatch, tmp_path):
    mosaic("projects", "open", str(project))
    monkeypatch.chdir(tmp_path)
    assert dry(mosaic, "--project", "cart")["seed"] == 3
    assert dry(mosaic, "--project", str(project), "--preset", "toy")["training"]["worker"] == "toy"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--preset", "quik"), "no train preset 'quik'. Did you mean 'quick'? Known: quick, toy."),
        (("--project", "card"), "There is no project named 'card'"),
        (("--no-project", "--preset", "quick"), "--preset and --no-project contradict each other"),
        (("--no-project", "--project", "cart"), "--project and --no-project contradict each other"),
        (("--no-project",), "Name an environment"),
    ],
)
def test_what_is_refused(mosaic, project, words, said):
    answer = mosaic("train", *words, "--dry-run")
    assert answer.code == 2
    assert said in answer.err


def test_an_invalid_project_can_be_left_aside(mosaic, project):
    (project / "mosaic.toml").write_text('name = "cart"\nenv =\n')
    answer = mosaic("train", "--dry-run")
    assert answer.code == 2
    assert "mosaic.toml: Invalid value (at line 2, column 6)." in answer.err
    assert "To train without it: --no-project" in answer.err
    assert dry(mosaic, "gym/CartPole-v1", "--worker", "toy", "--no-project")["project"] == ""


def test_a_preset_without_a_project_is_refused(mosaic):
    answer = mosaic("train", "gym/CartPole-v1", "--preset", "quick")
    assert answer.code == 2
    assert "there is no mosaic.toml in this folder or above it" in answer.err


def test_a_second_project_of_one_name_trains_unlisted(mosaic, project, tmp_path, monkeypatch, runs_here):
    mosaic("projects", "open", str(project))
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "mosaic.toml").write_text(PROJECT)
    monkeypatch.chdir(copy)
    answer = mosaic("train", "--preset", "toy")
    assert answer.code == 0
    assert "This project is not listed. There is a project 'cart' already" in answer.err


def test_a_project_inside_a_foreign_run_runs_no_code_unasked(mosaic, project, monkeypatch, tmp_path):
    (project / "env.py").write_text("raise SystemExit('executed')")
    (project / "mosaic.toml").write_text('name = "evil"\nenv = "python:env.py:make"\n')
    (project / "imported.json").write_text("{}")  # what an unpacked archive has
    (project / "state.json").write_text("{}")
    answer = mosaic("train", "--dry-run")
    assert answer.code == 2
    assert "names code or programs to run" in answer.err
    assert "executed" not in answer.err
