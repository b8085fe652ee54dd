"""Code, programs and addresses that a configuration names.

A request or an imported run may not run them unasked; files of code get absolute paths, to be found from any folder.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.reference import COMMAND, FILES, MODEL, absolute_command, absolute_file, split_path, split_reference
from mosaic.core.user_code import PREFIX, absolute_code

PROJECT_FILE = "mosaic.toml"
_CODE = re.compile(r"python:[^:\n]+:\S")  # in free text only the complete form counts; paths may contain blanks
_GYM_COMPATIBILITY = re.compile(r"GymV\d+Environment")  # these take another env's name, including `module:EnvId`


def named_programs(config: RunConfig, home: Path | None = None) -> list[str]:
    """List the code and programs of a run: «environment: python:maze:make», one text for each place.

    `home` is the store that may contain the paths.
    """
    return [f"{place}: {form}" for place, form in _forms(config, home)]


def programs_of_environment(environment: EnvironmentConfig) -> list[str]:
    return [f"{place}: {form}" for place, form in _environment(environment)]


def programs_of_policies(policies: Mapping[str, str], home: Path | None = None) -> list[str]:
    """List the programs among `policies`, a mapping from agent or pattern to policy."""
    return [f"agents.{agent}: {policy}" for agent, policy in policies.items() if _names_program(policy, home)]


def code_in_document(document: object, place: str) -> list[str]:
    """List the `python:` references in nested values: «facts.json.network: python:net:make»."""
    return [f"{where}: {text}" for where, text in _texts(document, place) if _CODE.match(text)]


def _forms(config: RunConfig, home: Path | None) -> Iterator[tuple[str, str]]:
    yield from _environment(config.environment)
    for place, reference in _references(config):
        if _names_program(reference, home):
            yield place, reference
    if config.training.worker == "script":
        yield "training.worker", "script"
    options = _texts({"params": config.training.params, "policies": config.training.policies}, "training")
    for place, text in options:
        if _is_written_reference(text) and _names_program(text, home):
            yield place, text
    if config.checkpoint.folder is not None:  # a place to write to
        yield "checkpoint.folder", config.checkpoint.folder
    # The owner of a Ray cluster decides what is unpickled by the processes that join it.
    if config.resources.ray_address not in (None, "auto", "local"):
        yield "resources.ray_address", str(config.resources.ray_address)


def _environment(environment: EnvironmentConfig) -> Iterator[tuple[str, str]]:
    family, name = environment.family, environment.env_id
    if family == "python" or (family == "godot" and name != "debug") or ":" in name:
        yield "environment", environment.id
    if family in ("godot", "external"):  # a file to write to, and who may connect
        for option in environment.options.keys() & {"log", "host"}:
            yield f"environment.options.{option}", str(environment.options[option])
    described = environment.options.get("env")
    if family == "external" and isinstance(described, str) and ":" in described:
        yield "environment.options.env", described
    for index, wrapper in enumerate(environment.wrappers):
        if split_reference(wrapper)[0] == "python":
            yield f"environment.wrappers.{index}", wrapper
    borrowed = bool(_GYM_COMPATIBILITY.match(name))
    stages = {
        f"environment.curriculum.{index}.options": each.options for index, each in enumerate(environment.curriculum)
    }
    found = [each for place, options in stages.items() for each in _texts(options, place)]
    for place, text in (*_texts(environment.options, "environment.options"), *found):
        if _CODE.match(text) or (borrowed and ":" in text):
            yield place, text


def _references(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield every setting that names a policy, a function or a sink."""
    if isinstance(config.agents, str):
        yield "agents", config.agents
    else:
        yield from ((f"agents.{pattern}", policy) for pattern, policy in config.agents.items())
    match config.policies_to_train:
        case None:
            pass
        case str() as function:
            yield "policies_to_train", function
        case names:
            yield from ((f"policies_to_train.{index}", name) for index, name in enumerate(names))
    if config.training.init is not None:
        yield "training.init", config.training.init
    for index, policy in enumerate(config.evaluation.opponents):
        yield f"evaluation.opponents.{index}", policy
    for index, sink in enumerate(config.telemetry.mirrors):
        yield f"telemetry.mirrors.{index}", sink


def _names_program(reference: str, home: Path | None) -> bool:
    name, rest = split_reference(reference)
    if name in FILES:
        return not _is_inside(split_path(rest)[0], home)
    path = reference.partition(",")[0]
    if path.endswith(".safetensors") and name != "run":  # a saved table
        return not _is_inside(path, home)
    return name in ("python", "uci", COMMAND, MODEL, "godot", "http", "https") or reference.startswith("godot/")


def _is_inside(path: str, home: Path | None) -> bool:
    """Compare by text alone: a relative path depends on the worker's directory, so it counts as outside."""
    if home is None or not os.path.isabs(path):
        return False
    return Path(os.path.normpath(path)).is_relative_to(os.path.normpath(home / "runs"))


def _is_written_reference(text: str) -> bool:
    """Return whether the text is a complete reference; among a worker's own options anything less is plain text."""
    name, rest = split_reference(text)
    return (
        bool(_CODE.match(text))
        or (bool(rest) and name in (*FILES, "uci", COMMAND, MODEL))
        or text.startswith(_ADDRESSES)
    )


_ADDRESSES = ("http://", "https://", "godot/")


def _texts(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Yield every text in nested options, including keys."""
    match value:
        case str():
            yield place, value
        case dict():
            for key, item in value.items():
                yield from _texts(key, place)
                yield from _texts(item, f"{place}.{key}")
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _texts(item, f"{place}.{index}")
        case _:
            pass


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """Return the configuration with absolute paths: of files of code and of policies, and of the checkpoint folder."""
    document = dump_run_config(config)
    changed = _absolute_table(document)
    if config.checkpoint.folder is not None:
        folder = str(Path(config.checkpoint.folder).expanduser().absolute())
        changed["checkpoint"] = {**document["checkpoint"], "folder": folder}
    changed["environment"] = absolute_environment(config.environment).model_dump(mode="json")
    return config if changed == document else parse_run_config(changed)


def absolute_environment(config: EnvironmentConfig) -> EnvironmentConfig:
    """Return the env's configuration with absolute paths."""
    document = _absolute_table(config.model_dump(mode="json"))
    if config.family == "python":
        document["env_id"] = absolute_code(config.id).removeprefix(PREFIX)
    if config.family == "godot":
        document |= _absolute_game(config)
    return config if document == config.model_dump(mode="json") else EnvironmentConfig.model_validate(document)


def _absolute_game(config: EnvironmentConfig) -> dict[str, object]:
    """Return the paths of a Godot game as absolute ones; a relative one may start at the project's folder too."""
    options = dict(config.options)
    for name in ("log", "engine"):
        value = options.get(name)
        if isinstance(value, str) and (name == "log" or "/" in value):
            options[name] = os.path.abspath(os.path.expanduser(value))
    if config.env_id == "debug":
        return {"options": options}
    asked = Path(config.env_id).expanduser()
    here = Path.cwd()
    projects = (folder for folder in (here, *here.parents) if (folder / PROJECT_FILE).is_file())
    places = (here / asked, *(folder / asked for folder in projects))
    found = next((place for place in places if place.exists()), here / asked)
    return {"env_id": os.path.normpath(found), "options": options}


def _absolute_table(table: Mapping[str, object]) -> dict[str, object]:
    return {key: _absolute(item) for key, item in table.items()}


def _absolute(value: object) -> object:
    match value:
        case str():
            return _absolute_reference(value)
        case Mapping():
            return _absolute_table(value)
        case list() | tuple():
            return [_absolute(item) for item in value]
    return value


def _absolute_reference(text: str) -> str:
    name, _ = split_reference(text)
    if name in FILES:
        return absolute_file(text, Path.cwd())
    if name == MODEL:  # its prompt may be a file of code
        return ",".join(_absolute_prompt(part) for part in text.split(","))
    return absolute_command(text, Path.cwd()) if name == COMMAND else absolute_code(text)


def _absolute_prompt(option: str) -> str:
    key, equals, value = option.partition("=")
    return f"{key}={absolute_code(value)}" if equals and key == "prompt" else option
