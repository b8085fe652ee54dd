"""The content of a mosaic.toml: what it may say, and what is refused with which words."""

from __future__ import annotations

import tomllib

import pytest

from mosaic.config.project import ExportPreset, parse_project, project_schema
from mosaic.core.errors import InputError

WHOLE = """
version = 1
name = "platformer"
game = "bin/game.x86_64"
default_preset = "full"

[train.quick]
seed = 7
training.total_timesteps = 20_000

[train.full.training]
worker = "native"
total_timesteps = 2_000_000
params = { learning_rate = 3e-4 }

[export.game]
target = "godot"
out = "models"
checkpoint = 5000
"""


def parsed(text=WHOLE, **changes):
    return parse_project({**tomllib.loads(text), **changes})


def refusal(document):
    with pytest.raises(InputError) as caught:
        parse_project(document)
    return str(caught.value)


def test_presets_are_settings_of_a_run():
    project = parsed()
    assert project.env_id == "godot/bin/game.x86_64"
    assert project.settings(project.preset_name()) == {
        "environment": {"env_id": "godot/bin/game.x86_64"},
        "training": {"worker": "native", "total_timesteps": 2_000_000, "params": {"learning_rate": 3e-4}},
        "project": "platformer",
    }
    assert project.settings("quick")["seed"] == 7
    assert project.export_preset().out == "models"
    assert parsed(env="gym/CartPole-v1").env_id == "gym/CartPole-v1"


def test_the_env_of_a_preset_replaces_the_projects():
    train = {"other": {"environment": {"env_id": "gym/Acrobot-v1"}}}
    assert parsed(train=train, default_preset=None).settings("other")["environment"] == {"env_id": "gym/Acrobot-v1"}


def test_a_project_needs_a_name_alone():
    project = parse_project({"name": "empty"})
    assert project.preset_name() is None
    assert project.settings(None) == {"project": "empty"}
    assert project.export_preset() == ExportPreset()


def test_which_preset_is_used():
    assert parsed().preset_name() == "full"
    assert parsed().preset_name("quick") == "quick"
    assert parse_project({"name": "x", "train": {"only": {}}}).preset_name() == "only"
    with pytest.raises(InputError, match=r"several training presets and no default_preset.*--preset quick \| full"):
        parsed(default_preset=None).preset_name()
    with pytest.raises(InputError, match=r"no train preset 'quik'\. Did you mean 'quick'\? Known: quick, full\."):
        parsed().preset_name("quik")
    with pytest.raises(InputError, match=r"no export preset 'gane'\. Did you mean 'game'\?"):
        parsed().export_preset("gane")
    with pytest.raises(InputError, match=r"several export presets\. Name one: --preset a \| b"):
        parsed(export={"a": {}, "b": {}}).export_preset()


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "The setting 'name' is missing"),
        ({"name": ""}, "should not be empty"),
        ({"name": "a/b"}, "without '/'"),
        ({"name": "x", "trian": {}}, "There is no setting 'trian'. Did you mean 'train'?"),
        ({"name": "x", "version": 2}, "'version' is 2, but this Mosaic reads projects of version 1. Install a"),
        ({"name": "x", "version": "1"}, "'version' is '1'"),
        ({"name": "x", "version": True}, "'version' is True"),
        ({"name": "x", "default_preset": "quik", "train": {"quick": {}}}, "no [train.quik]. Did you mean 'quick'?"),
        ({"name": "x", "train": {"a": {"sed": 3}}}, "train.a: There is no setting 'sed'. Did you mean 'seed'?"),
        ({"name": "x", "train": {"a": {"seed": -1}}}, "train.a: 'seed' cannot be -1: it should be at least 0"),
        ({"name": "x", "train": {"a": {"run_id": "r"}}}, "train.a: 'run_id' cannot be set in a preset"),
        ({"name": "x", "train": {"a": 3}}, "'train.a' is 3, but presets are groups of settings: [train.NAME]."),
        ({"name": "x", "train": {"a b": {}}}, "'a b' cannot name a preset"),
        ({"name": "x", "train": 3}, "'train' should hold presets, [train.NAME], not 3."),
        ({"name": "x", "export": {"a": {"opst": 3}}}, "export.a: There is no setting 'opst'. Did you mean 'opset'?"),
        ({"name": "x", "export": {"a": {"target": "onix"}}}, "Did you mean 'onnx'?"),
        ({"name": "x", "export": {"a": {"checkpoint": "bast"}}}, "best, latest or a number of env steps"),
    ],
)  # fmt: skip
def test_what_is_refused(document, words):
    assert words in refusal(document)


def test_the_schema_names_every_setting():
    schema = project_schema()
    assert set(schema["properties"]) == {"version", "name", "env", "game", "default_preset", "train", "export"}
    assert schema["title"] == "Mosaic project"
