"""What people read when their settings do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mosaic.config.loading import apply_overrides, load_run_config, parse_run_config, upgrade
from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import FormatError, InputError, UnknownNameError

ENV = {"environment": {"env_id": "gym/CartPole-v1"}}
SECTIONS = (
    "version, run_id, name, project, tags, seed, environment, policy_configuration, agents, policies_to_train, "
    "training, resources, checkpoint, evaluation, export, telemetry"
)
TRAINING = "worker, algorithm, total_timesteps, episodes, stop_reward, init, preset, params, policies"
FOLDER_RULE = (
    "it names a folder, so it should be 1 to 100 letters, digits, '-', '_' and '.', "
    "begin with a letter or digit, not end with '.' and not be 'latest'."
)


def refusal(data: Any, overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(InputError) as caught:
        parse_run_config(data, overrides)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"training": {"algorithim": "ppo"}},
            (f"There is no setting 'training.algorithim'. Did you mean 'training.algorithm'? Known: {TRAINING}."),
        ),
        (
            {"total_timestep": 5},
            f"There is no setting 'total_timestep'. Did you mean 'training.total_timesteps'? Known: {SECTIONS}.",
        ),
        (
            {"gamma": 0.9},
            (
                "There is no setting 'gamma'. Options of the worker belong under 'training.params', "
                f"those of the env under 'environment.options'. Known: {SECTIONS}."
            ),
        ),
        (
            {"resources": {"num_env_runners": 0}},
            (
                "'resources.num_env_runners' cannot be 0: --num-env-runners should be at least 1. With the "
                "worker rllib, --set training.params.num_env_runners=0 lets the learner's own process step the envs."
            ),
        ),
        ({"training": {"total_timesteps": -5}}, "'training.total_timesteps' cannot be -5: it should be at least 1."),
        (
            {"training": {"total_timesteps": "lots"}},
            "'training.total_timesteps' cannot be 'lots': it should be a whole number.",
        ),
        ({"training": {"episodes": 1.5}}, "'training.episodes' cannot be 1.5: it should be a whole number."),
        (
            {"training": {"episodes": True}},
            "'training.episodes' cannot be True: it should not be true or false; in quotes it would be text.",
        ),
        (
            {"training": {"stop_reward": float("inf")}},
            "'training.stop_reward' cannot be inf: it should be a finite number.",
        ),
        ({"training": {"worker": 5}}, "'training.worker' cannot be 5: it should be text: put it in quotes."),
        ({"training": {"worker": ""}}, "'training.worker' cannot be '': it should not be empty."),
        ({"training": 5}, "'training' cannot be 5: it should be a group of settings."),
        (
            {"training": {"params": {1: 2}}},
            "A name in 'training.params' cannot be 1: it should be text: put it in quotes.",
        ),
        (
            {"training": {"params": {"a": [{1: 2}]}}},
            "'training.params' cannot be {'a': [{1: 2}]}: its names should be text: put 1 in 'a.0' in quotes.",
        ),
        (
            {"training": {"params": {"a": float("nan")}}},
            "'training.params' cannot be {'a': nan}: its numbers should be finite: 'a' is nan.",
        ),
        (
            {"environment": {"env_id": "gym/x", "options": {"a": {"b": b"c"}}}},
            (
                "'environment.options' cannot be {'a': {'b': b'c'}}: it should hold text, numbers, true, false, null, "
                "lists and mappings: 'a.b' is of type bytes; put it in quotes to mean text."
            ),
        ),
        ({"seed": 2**31}, "'seed' cannot be 2147483648: it should be less than 2147483648."),
        ({"seed": -1}, "'seed' cannot be -1: it should be at least 0."),
        ({"tags": "x"}, "'tags' cannot be 'x': it should be a list, such as [a, b]."),
        ({"tags": ["x", 1]}, "'tags.1' cannot be 1: it should be text: put it in quotes."),
        ({5: 1}, "'5' cannot be 5: names of settings should be text."),
        ({"telemetry": {"frames": "some"}}, "'telemetry.frames' cannot be 'some': it should be true or false."),
        (
            {"policy_configuration": "selfplay"},
            (
                "'policy_configuration' cannot be 'selfplay': it should be 'parameter_sharing', 'independent', "
                "'self_play' or 'shared_value_function'. Did you mean 'self_play'?"
            ),
        ),
        ({"run_id": "../x"}, f"'run_id' cannot be '../x': {FOLDER_RULE}"),
        ({"run_id": "latest"}, f"'run_id' cannot be 'latest': {FOLDER_RULE}"),
        (
            {"name": "a@b"},
            (
                "'name' cannot be 'a@b': it can be used in run:NAME@best/POLICY, so it should be printable, "
                "without '@' and '/', without blanks at either end, not begin with '-' and not be 'latest'."
            ),
        ),
        (
            {"agents": "random"},
            (
                "'agents' cannot be 'random': it should be {AGENT: POLICY}, such as {player_0: random}, "
                "or python:MODULE:FUNCTION."
            ),
        ),
        (
            {"agents": {"a": 3}},
            "'agents' cannot be {'a': 3}: the policy of 'a' should be text, such as random or run:latest, not 3.",
        ),
        (
            {"agents": {7: "random"}},
            "'agents' cannot be {7: 'random'}: an agent's name should be text: put 7 in quotes.",
        ),
        (
            {"policies_to_train": []},
            (
                "'policies_to_train' cannot be []: it should be a list of policy names, such as [red, blue], "
                "or python:MODULE:FUNCTION."
            ),
        ),
        (
            {"resources": {"runtime": "mpi", "ray_address": "auto"}},
            "'resources.ray_address' needs the runtime ray, but 'resources.runtime' is 'mpi'. Leave one of them out.",
        ),
        ({"version": "new"}, "'version' is 'new': it should be a whole number from 1 to 3."),
        (
            {"version": 4},
            (
                "This document has version 4, but this Mosaic reads versions up to 3. "
                "Install a newer one: pip install --upgrade mosaic-rl"
            ),
        ),
    ],
)
def test_settings_that_do_not_fit(settings: dict[Any, Any], message: str) -> None:
    assert refusal({**ENV, **settings}) == message


def test_what_is_missing_is_named_whole() -> None:
    message = (
        "The setting 'environment.env_id' is missing: Name within the family, with or without version: "
        "chess_v6, CartPole-v1. Add it to the document or type --set environment.env_id=VALUE."
    )
    assert refusal({}) == message
    assert refusal({"environment": None}) == message


def test_misspelt_keys_come_before_what_is_missing() -> None:
    first, second = refusal({"environment": {"env": "gym/x"}}).splitlines()
    assert first.startswith("There is no setting 'environment.env'. Did you mean 'environment.env_id'?")
    assert second.startswith("The setting 'environment.env_id' is missing")


def test_every_complaint_is_told_up_to_five() -> None:
    lines = refusal({**ENV, **dict.fromkeys("abcdefg", 1)}).splitlines()
    assert len(lines) == 6
    assert lines[5] == "There are 2 more errors."


def test_a_document_is_a_mapping() -> None:
    assert refusal([1]) == "Settings are names with values, such as {'seed': 7}, not [1]."


@pytest.mark.parametrize("run_id", ["", ".", "..", "a/b", "a.", "-a", ".a", "a b", "a\n", "ä", "a" * 101, "a\x00"])
def test_a_run_id_is_a_safe_folder_name(run_id: str) -> None:
    assert refusal({**ENV, "run_id": run_id}).endswith(FOLDER_RULE)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("gamma", "'gamma' is not KEY=VALUE, for example training.params.gamma=0.98 or seed=7."),
        ("a..b=1", "'a..b=1' is not KEY=VALUE, for example training.params.gamma=0.98 or seed=7."),
        (
            "training.algorithim=ppo",
            f"There is no setting 'training.algorithim'. Did you mean 'training.algorithm'? Known: {TRAINING}.",
        ),
        ("trainig.params.x=1", f"There is no setting 'trainig'. Did you mean 'training'? Known: {SECTIONS}."),
        ("seed.x=3", "'seed' is one value: there is no 'seed.x' in it."),
        (
            "training.params.net=[64, 64",
            (
                "The value of 'training.params.net=[64, 64' cannot be read. Type a number, true, false, null, a list "
                "such as [1, 2], or text; put text that begins like a list in quotes: '\"[a\"'."
            ),
        ),
        ("training.params.x.y=1", "'training.params.x.y' cannot be set: 'training.params.x' is 5."),
        ("agents.a=random", "'agents.a' cannot be set: 'agents' is 'python:m:f'."),
    ],
)
def test_overrides_that_do_not_fit(override: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        apply_overrides({"training": {"params": {"x": 5}}, "agents": "python:m:f"}, [override])
    assert str(caught.value) == message


def test_an_unknown_key_in_an_override_is_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError):
        apply_overrides({}, ["sead=1"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.json", '{"seed": 1,\n "seed"}', ", line 2, column 8: Expecting ':' delimiter."),
        ("run.json", '{"seed": 1, "seed": 2}', ": the key 'seed' is duplicated."),
        ("run.json", '{"seed": NaN}', ": NaN is not JSON; numbers must be finite."),
        ("run.json", "[" * 100_000, ": it is nested too deeply to be read."),
        ("run.json", "[1]", ": it holds [1], but settings are names with values, such as seed: 7."),
        ("run.yaml", "", ": it is empty, but settings are names with values, such as seed: 7."),
        ("run.yaml", "seed: 1\nname: x\nseed: 2\n", ", line 3, column 1: the key 'seed' is duplicated."),
        ("run.yaml", "seed: 1\nname: [x\n", ", line 3, column 1: expected ',' or ']', but got '<stream end>'."),
        (
            "run.yaml",
            "a: !!python/name:os.system x",
            (", line 1, column 4: the tag tag:yaml.org,2002:python/name:os.system is not plain data."),
        ),
        ("run.yaml", "a: !!timestamp x", ", line 1, column 4: the tag tag:yaml.org,2002:timestamp is not plain data."),
        ("run.yaml", "a: !!int x", ", line 1, column 4: 'x' is not a valid int."),
        ("run.toml", "seed = 1\nseed = 2\n", ": Cannot overwrite a value (at line 2, column 9)."),
        ("run.toml", "seed = \n", ": Invalid value (at line 1, column 8)."),
        (
            "run.yaml",
            "environment: {env_id: gym/x}\nversion: 9",
            (
                ": This document has version 9, but this Mosaic reads versions up to 3. "
                "Install a newer one: pip install --upgrade mosaic-rl"
            ),
        ),
    ],
)
def test_corrupt_files(tmp_path: Path, name: str, content: str, message: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(FormatError) as caught:
        load_run_config(file)
    assert str(caught.value) == f"{file}{message}"


def test_wrong_settings_name_the_file_but_wrong_overrides_do_not(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('seed = -1\nenvironment.env_id = "gym/CartPole-v1"\n')
    with pytest.raises(InputError) as caught:
        load_run_config(file)
    assert str(caught.value) == f"{file}: 'seed' cannot be -1: it should be at least 0."
    with pytest.raises(UnknownNameError) as unknown:
        load_run_config(file, ["sede=1"])
    assert str(unknown.value) == f"There is no setting 'sede'. Did you mean 'seed'? Known: {SECTIONS}."
    assert load_run_config(file, ["seed=3"]).seed == 3


def test_dates_in_toml_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('environment.env_id = "gym/x"\ntraining.params.since = 2024-01-01\n')
    with pytest.raises(InputError, match=r"'since' is of type date; put it in quotes to mean text\.$"):
        load_run_config(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "cartpole.yaml").write_text("seed: 1")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    (tmp_path / "folder.yaml").mkdir()
    expected = {
        "cartpol.yaml": f"There is no file '{tmp_path}/cartpol.yaml'. Did you mean 'cartpole.yaml'?",
        "no/run.yaml": f"There is no file '{tmp_path}/no/run.yaml'. There is no folder '{tmp_path}/no' either.",
        "folder.yaml": f"'{tmp_path}/folder.yaml' is a folder: name the file in it.",
        "latin.yaml": f"{tmp_path}/latin.yaml: it is not UTF-8 text (byte 9).",
        "a\x00.yaml": f"'{tmp_path}/a\x00.yaml' cannot be read: embedded null byte.",
        "run.ini": f"'{tmp_path}/run.ini' has an unknown extension. "
        "Settings are read from .json, .yaml, .yml, .toml files.",
    }
    for name, message in expected.items():
        with pytest.raises(InputError) as caught:
            load_run_config(tmp_path / name)
        assert str(caught.value) == message


def test_an_alias_bomb_does_not_explode(tmp_path: Path) -> None:
    """Ten lines that stand for a billion values: refused by counting, not by running out of memory."""
    lines = ["environment: {env_id: gym/x}", "training:", "  params:", "    a0: &a0 [x]"]
    lines += [f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"'training\.params' cannot be .*: it should hold at most 10000 values\.$"):
        load_run_config(file)


def test_a_document_that_holds_itself_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "loop.yaml"
    file.write_text("environment: {env_id: gym/x}\ntraining: {params: {x: &x [*x]}}\n")
    with pytest.raises(InputError, match="nested at most 32 levels deep"):
        load_run_config(file)


def test_an_actor_that_was_shared_in_version_2_stays_shared() -> None:
    asked = {"policy_configuration": "shared_value_function", "training": {"worker": "rllib", "params": {"lr": 0.1}}}
    assert upgrade({"version": 2, **asked})["training"] == {
        "worker": "rllib",
        "params": {"shared_actor": True, "lr": 0.1},
    }
    assert upgrade({**asked})["training"] == asked["training"]
    assert upgrade({"version": 2, "training": asked["training"]})["training"] == asked["training"]


def test_version_1_with_both_names_is_refused() -> None:
    with pytest.raises(FormatError) as caught:
        upgrade({"version": 1, "environment": {"name": "a", "env_id": "b"}})
    assert str(caught.value) == (
        "'environment.name' (its name in version 1) and 'environment.env_id' are both in the document: remove one."
    )


def test_a_run_config_is_frozen() -> None:
    config = parse_run_config(ENV)
    with pytest.raises(ValidationError, match="frozen"):
        config.seed = 3  # type: ignore[misc]


def test_a_run_config_does_not_share_its_options_with_the_caller() -> None:
    params: dict[str, Any] = {"net": {"layers": [64]}}
    config = parse_run_config({**ENV, "training": {"params": params}})
    params["net"]["layers"].append(7)
    assert config.training.params == {"net": {"layers": [64]}}


def test_defaults() -> None:
    config = parse_run_config(ENV)
    assert (config.version, config.run_id, config.seed) == (3, None, 0)
    assert (config.resources.num_env_runners, config.resources.num_gpus, config.resources.num_cpus) == (None, 0.0, 1)
    assert config.resources.env_runners == 2
    assert config.environment.id == "gym/CartPole-v1"
    assert config.policy_configuration is None
    assert config == RunConfig(environment=EnvironmentConfig(family="gym", env_id="CartPole-v1"))


def test_upper_case_and_auto_are_understood() -> None:
    assert parse_run_config({**ENV, "policy_configuration": "SELF_PLAY"}).policy_configuration == "self_play"
    assert parse_run_config({**ENV, "policy_configuration": "AUTO"}).policy_configuration is None
    assert parse_run_config({**ENV, "training": {"worker": "auto"}}).training.worker is None
    assert parse_run_config({**ENV, "resources": {"ray_address": "auto"}}).resources.ray_address == "auto"


def test_yaml_is_read_by_the_rules_of_1_2(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "environment: {env_id: gym/x}\nname: no\ntags: [on, 12:30, 2024-01-01]\nevaluation:\n"
        "training: {total_timesteps: 1e6, params: {learning_rate: 3e-4, size: 012,\n"
        "  base: &b {x: 1}, more: {<<: *b, x: 2}}}\n"
    )
    config = load_run_config(file)
    assert config.name == "no"
    assert config.tags == ("on", "12:30", "2024-01-01")
    assert config.training.total_timesteps == 1_000_000
    assert config.training.params == {"learning_rate": 3e-4, "size": 12, "base": {"x": 1}, "more": {"x": 2}}
    assert config.evaluation.episodes == 10


def test_whole_names_of_envs() -> None:
    for whole in ["gym/ALE/Pong-v5", "python:my_env:make", "CartPole-v1", "/odd", "godot//home/me/game"]:
        config = EnvironmentConfig(env_id=whole)
        assert config.id == whole
        assert EnvironmentConfig.model_validate(config.model_dump()) == config
