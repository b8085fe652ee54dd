"""Whatever run can be asked for survives every file format, and garbage is refused in words."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mosaic.config.field_types import INTEGER_LIMIT, MOST_STEPS
from mosaic.config.loading import apply_overrides, dump_run_config, load_run_config, parse_run_config, upgrade
from mosaic.config.run import CURRENT_VERSION, RunConfig
from mosaic.config.validation import list_settings
from mosaic.config.yaml import read_scalar, read_yaml
from mosaic.core.errors import MosaicError

# Every example overwrites the one file in tmp_path; how long an example takes is no property of ours.
thorough = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

# Hypothesis finds few of the words on which YAML readers disagree by itself.
TRAPS = (
    *("no", "on", "null", "~", "1e5", "0o7", "0x1", "012", "12:30", "2024-01-01", ".inf", "=", "<<"),
    *("- a", "a: b", "#", "a\n b", "a\x85b", "a\u2028b"),
)
texts = st.text(min_size=1, max_size=12) | st.sampled_from(TRAPS)
numbers = st.floats(allow_nan=False, allow_infinity=False)
steps = st.integers(1, MOST_STEPS)
scalars = st.booleans() | st.integers(1 - INTEGER_LIMIT, INTEGER_LIMIT - 1) | numbers | texts | st.just("")


def write_yaml(data: Any) -> str:
    """Write everything in double quotes with its tag, for PyYAML and YAML 1.2 differ in what is plain."""
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1 << 30, default_style='"')


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
    )


def tables(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts, trees(leaves), max_size=3)


def section(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


codes = st.just("python:my_module:choose")
names = st.text("abc123 é#:-", max_size=10).map(lambda text: text.strip(" -"))
run_ids = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,10}[0-9]\Z")


def documents(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "environment": st.fixed_dictionaries(
                {
                    "env_id": texts.map(lambda text: f"gym/{text}")
                    | st.just("python:my_env:make")
                    | st.just("CartPole-v1")
                },
                optional={
                    "api_type": st.sampled_from(["aec", "parallel", "gym", "auto"]),
                    "options": tables(leaves),
                    "wrappers": st.lists(texts, max_size=2),
                    "num_envs": st.integers(1, 1000),
                },
            )
        },
        optional={
            "version": st.just(CURRENT_VERSION),
            "run_id": run_ids,
            "name": names,
            "tags": st.lists(texts, max_size=2),
            "seed": st.integers(0, 2**31 - 1),
            "policy_configuration": st.sampled_from(["SELF_PLAY", "independent", "auto", "shared_value_function"]),
            "agents": codes | st.dictionaries(texts, texts, max_size=4),
            "policies_to_train": codes | st.lists(texts, min_size=1, max_size=2),
            "training": section(
                worker=texts,
                algorithm=texts,
                total_timesteps=steps,
                episodes=steps,
                stop_reward=numbers,
                init=texts,
                params=tables(leaves),
            ),
            "resources": section(
                num_env_runners=st.integers(1, 64) | st.sampled_from(["auto", None]),
                num_gpus=st.floats(0, 8),
                num_cpus=st.integers(1, 8),
                ray_address=texts,
                max_wall_s=st.floats(0.1, 1e6),
                max_memory_mb=st.integers(1, 10**6),
            )
            | section(runtime=st.sampled_from(["single", "parallel", "ray", "mpi", "auto"])),
            "checkpoint": section(
                every_steps=steps, keep_last=st.integers(1, 9), keep_best=st.integers(0, 9), at_end=st.booleans()
            ),
            "evaluation": section(
                every_steps=steps, episodes=st.integers(1, 99), opponents=st.lists(texts, max_size=2)
            ),
            "export": section(at_end=st.booleans(), on_best=st.booleans()),
            "telemetry": section(
                report_every_s=st.floats(0.01, 60), mirrors=st.lists(texts, max_size=2), frames=st.booleans()
            ),
        },
    )


def configs(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[RunConfig]:
    return documents(leaves).map(parse_run_config)


def assert_same(read: RunConfig, asked: RunConfig) -> None:
    """Equal in types and in order too: the order of the agents' rules decides who plays."""
    assert read == asked
    assert json.dumps(dump_run_config(read)) == json.dumps(dump_run_config(asked))


@thorough
@given(configs(scalars | st.none()))
def test_any_run_survives_json(tmp_path: Path, config: RunConfig) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(dump_run_config(config)))
    assert_same(load_run_config(file), config)


@thorough
@given(configs(scalars | st.none()))
def test_any_run_survives_yaml(tmp_path: Path, config: RunConfig) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(write_yaml(dump_run_config(config)), encoding="utf-8")
    assert_same(load_run_config(file), config)


@thorough
@given(configs(scalars))
def test_any_run_survives_toml(tmp_path: Path, config: RunConfig) -> None:
    file = tmp_path / "run.toml"
    lines = [f"{key} = {toml(value)}\n" for key, value in dump_run_config(config).items() if value is not None]
    file.write_text("".join(lines), encoding="utf-8")
    assert_same(load_run_config(file), config)


def toml(value: Any) -> str:
    """One value as TOML. It has no null, so what is null is left out."""
    match value:
        case dict():
            pairs = (f"{toml(key)} = {toml(item)}" for key, item in value.items() if item is not None)
            return "{" + ", ".join(pairs) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            return json.dumps(value)


def test_leaving_out_what_is_null_changes_nothing() -> None:
    """TOML relies on it: wherever None is stored it is the default."""
    for path, field in list_settings(RunConfig):
        if type(None) in get_args(field.annotation):
            assert field.default is None, path


settable = st.sampled_from(
    [
        ("seed",), ("tags",), ("training", "total_timesteps"), ("training", "stop_reward"), ("training", "params"),
        ("training", "params", "gamma"), ("training", "params", "net", "layers"), ("environment", "options", "map"),
        ("resources", "num_gpus"), ("telemetry", "frames"), ("environment", "num_envs"), ("checkpoint",),
    ]
)  # fmt: skip
nested_inputs = section(
    seed=st.integers(),
    training=section(params=tables(scalars), worker=texts) | st.none(),
    environment=section(options=st.dictionaries(st.just("other"), scalars)),
)


@thorough
@given(nested_inputs, settable, trees(scalars | st.none()))
def test_an_override_is_a_nested_edit(data: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    assume(not isinstance((data.get("training") or {}).get("params", {}).get("net", {}), str | int | float | list))
    before = json.dumps(data)
    expected = json.loads(before)
    place = expected
    for name in path[:-1]:
        if place.get(name) is None:
            place[name] = {}
        place = place[name]
    place[path[-1]] = value
    assert apply_overrides(data, [f"{'.'.join(path)}={json.dumps(value)}"]) == expected
    assert json.dumps(data) == before


def test_an_override_of_text_keeps_the_text() -> None:
    for text in [*TRAPS, "7", "true", "stockfish:elo=1500", "[draft"]:
        assert apply_overrides({}, [f"name={text}"]) == {"name": text}
        assert apply_overrides({}, [f"agents.red.0={text}"]) == {"agents": {"red.0": text}}


@thorough
@given(trees(scalars | st.none()))
def test_yaml_is_read_as_it_was_written(data: Any) -> None:
    read = read_yaml(write_yaml(data))
    assert json.dumps(read) == json.dumps(data)


@thorough
@given(st.integers(-(10**30), 10**30) | numbers)
def test_numbers_are_read_as_json_writes_them(number: float) -> None:
    read = read_scalar(json.dumps(number))
    assert (read, type(read)) == (number, type(number))


# Garbage: anything that a parser or a Python caller could hand over, monsters included.
monsters = st.sampled_from(
    [None, float("nan"), float("inf"), b"bytes", object(), {1, 2}, "\ud800", 1j, print, ["\x00"]]
) | st.sampled_from([1, -1]).map(lambda sign: sign * 10**5000)  # Python refuses to print these
keys = (
    st.sampled_from([path.split(".")[-1] for path, _ in list_settings(RunConfig)] + list(RunConfig.model_fields))
    | texts
    | st.sampled_from(["", "\ud800", 1, None, (1, 2)])
)
garbage = st.recursive(
    scalars | monsters,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
paths = st.lists(st.sampled_from([*RunConfig.model_fields, "params", "options", "env_id", "", "x"]), max_size=4)


@thorough
@given(garbage | st.dictionaries(keys, garbage, max_size=5), st.lists(st.text() | paths.map(".".join), max_size=2))
def test_garbage_is_refused_in_words(data: Any, overrides: list[str]) -> None:
    with suppress(MosaicError):
        config = parse_run_config(data, overrides)
        assert_same(parse_run_config(dump_run_config(config)), config)


@thorough
@given(documents(scalars), st.sampled_from(list(RunConfig.model_fields)), garbage)
def test_garbage_in_one_place_is_refused_in_words(data: dict[str, Any], place: str, value: Any) -> None:
    with suppress(MosaicError):
        config = parse_run_config({**data, place: value})
        assert_same(parse_run_config(dump_run_config(config)), config)


@thorough
@given(paths.map(".".join), st.text() | st.sampled_from(["[" * 5000, "9" * 5000, '"\\ud800"', "{a", "!!set {a}", "*x"]))
def test_garbage_overrides_are_refused_in_words(path: str, text: str) -> None:
    with suppress(MosaicError):
        config = parse_run_config({"environment": {"env_id": "gym/x"}}, [f"{path}={text}"])
        assert_same(parse_run_config(dump_run_config(config)), config)


yamlish = st.text("{}[]:,-#&*!|>'\"%@` \n\t?=<~.0123456789exaTn", max_size=40)


@thorough
@given(st.sampled_from([".json", ".yaml", ".toml"]), st.text() | yamlish | st.binary(max_size=40))
def test_garbage_files_are_refused_in_words(tmp_path: Path, ending: str, content: str | bytes) -> None:
    file = tmp_path / f"run{ending}"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(MosaicError, match="run"):
        load_run_config(file)


def as_version_1(data: dict[str, Any]) -> dict[str, Any]:
    old = {**data, "version": 1, "environment": dict(data["environment"])}
    old["environment"]["name"] = old["environment"].pop("env_id")
    if "total_timesteps" in data.get("training", {}):
        old["training"] = dict(data["training"])
        old["training"]["timesteps"] = old["training"].pop("total_timesteps")
    return old


@thorough
@given(documents(scalars).map(as_version_1) | documents(scalars))
def test_upgrading_twice_is_upgrading_once(data: dict[str, Any]) -> None:
    before = json.dumps(data)
    once = upgrade(data)
    assert upgrade(once) == once
    assert json.dumps(data) == before


@thorough
@given(documents(scalars))
def test_version_1_means_the_same_run(data: dict[str, Any]) -> None:
    said = dict(data)
    if str(data.get("policy_configuration")).lower() == "shared_value_function":  # its actor was shared then
        training = data.get("training", {})
        if training.get("worker") in (None, "native", "rllib"):
            said["training"] = {**training, "params": {"shared_actor": True, **training.get("params", {})}}
    assert parse_run_config(as_version_1(data)) == parse_run_config(said)
