"""Drafts of the Train page as files: form, file and form again hold the same settings."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.config.file_formats import parse_document, write_document
from mosaic.config.loading import parse_run_config
from mosaic.config.run import RunConfig
from mosaic.config.yaml import has_aliases, read_yaml, write_yaml
from mosaic.core.errors import InputError
from mosaic.ui.web.data.draft import Draft, rows_of, train_command

FULL = {
    "run_id": "mine-1",
    "name": "a: name #1",
    "project": "my project",
    "tags": ["2024-01-01", "no", "0o17", "a, b", "1_000"],
    "seed": 7,
    "environment": {
        "env_id": "classic/tictactoe_v3",
        "api_type": "aec",
        "options": {"screen_height": 400},
        "wrappers": ["time_limit:max_steps=9"],
        "num_envs": 4,
    },
    "policy_configuration": "self_play",
    "agents": {"player_2": "self@-1000", "player_*": "learner"},
    "policies_to_train": ["learner"],
    "training": {
        "worker": "native",
        "algorithm": "ppo",
        "total_timesteps": 5000,
        "stop_reward": -0.5,
        "preset": False,
        "params": {"learning_rate": 1e-05, "hidden": [32, 32], "gamma": 1.0},
    },
    "resources": {"num_env_runners": 2, "max_wall_s": 60.0},
    "checkpoint": {"every_steps": 100, "keep_best": 0},
    "evaluation": {"every_steps": 1000, "opponents": ["random", "minimax:depth=2"]},
    "export": {"at_end": True, "target": "godot"},
    "telemetry": {"report_every_s": 0.5},
}
FORMATS = [".yaml", ".toml", ".json"]


def test_the_full_document_sets_every_section_and_setting():
    assert FULL.keys() | {"version"} == RunConfig.model_fields.keys()


@pytest.mark.parametrize("suffix", FORMATS)
def test_form_to_file_to_form_loses_nothing(suffix):
    draft = Draft.of(parse_run_config(FULL))
    text = write_document(draft.document(), suffix)
    again = parse_run_config(parse_document(text, Path(f"run{suffix}")))
    assert again == parse_run_config(FULL)
    assert list(again.agents) == ["player_2", "player_*"]  # their order matters
    assert Draft.of(again) == draft
    assert again.model_fields_set == parse_run_config(FULL).model_fields_set


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_small_draft_stays_small(suffix):
    draft = Draft(env="gym/CartPole-v1", worker="toy", algorithm="walk")
    text = write_document(draft.document(), suffix)
    assert Draft.of(parse_run_config(parse_document(text, Path(f"run{suffix}")))) == draft
    assert "telemetry" not in text


def test_a_function_that_decides_for_every_agent_is_kept_and_typed():
    document = {"environment": {"env_id": "gym/CartPole-v1"}, "agents": "python:my:choose"}
    draft = Draft.of(parse_run_config(document))
    assert draft.document()["agents"] == "python:my:choose"
    assert "--agent python:my:choose" in train_command(draft.document())


def test_the_command_has_the_settings_without_a_field_too():
    command = train_command(Draft.of(parse_run_config(FULL)).document())
    assert "--set run_id=mine-1" in command
    assert "--set 'policies_to_train=[\"learner\"]'" in command


def test_null_is_kept_where_a_format_has_it_and_refused_where_not():
    document = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"params": {"target_kl": None}}}
    for suffix in (".yaml", ".json"):
        assert parse_document(write_document(document, suffix), Path(f"run{suffix}")) == document
    with pytest.raises(InputError, match=r"TOML cannot hold null, which 'training.params.target_kl' is"):
        write_document(document, ".toml")


def test_patterns_become_rows():
    default = {"player_1": "learner", "player_2": "learner"}
    assert rows_of({}, default) == {"player_1": "learn:learner", "player_2": "learn:learner"}
    assert rows_of({"player_2": "random", "player_*": "hers"}, default) == {
        "player_1": "learn:hers",
        "player_2": "random",
    }
    assert rows_of({"*": "minimax:depth=1"}, default) == dict.fromkeys(default, "minimax:depth=1")
    assert rows_of({"player_2": "self@-1000"}, default)["player_2"] == "self@-1000"


ODD = st.text("abné:#-?[]{},&*!|>'\"%@`~ \n0123456789eExo.+_<=yYnN", max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ODD,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(ODD, below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abxyz", min_size=1), VALUES, max_size=4))
def test_yaml_is_read_as_it_was_written(document):
    assert read_yaml(write_yaml(document)) == document


@pytest.mark.parametrize(
    "text", ["no", "0o17", "<<", "~", "null", "1e5", "12:30", "2024-01-01", "#", "- a", "a: b", "é"]
)
def test_text_stays_text_in_yaml(text):
    assert read_yaml(write_yaml({text: text})) == {text: text}


def test_aliases_are_seen():
    assert has_aliases("a: &x [1]\nb: [*x, *x]\n")
    assert not has_aliases("a: &x [1]\nb: '*x'\n")
