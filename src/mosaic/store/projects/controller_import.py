"""Import of the Godot RL controller's projects: their files, and which settings these hold."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from mosaic.config.file_formats import parse_document, read_json
from mosaic.core.errors import FormatError, InputError
from mosaic.store.projects import controller_keys as keys
from mosaic.store.projects.controller_keys import GAME, IN_PARAMS, Left, Target
from mosaic.store.projects.controller_project import UNKNOWN, CheckParams, ControllerProject
from mosaic.store.projects.project import read_text

INDEX, METADATA, TRAINING = "index.json", "project.json", "training_config.json"
RLLIB, EXPORT = "rllib_config.yaml", "export_config.json"
_SUBFOLDER = ".rlcontroller"
_FILES = (METADATA, TRAINING, RLLIB, EXPORT)


def find_controller_projects(path: Path) -> list[Path]:
    """Return the folders of the controller's projects: the given one, or those that an index.json lists."""
    path = Path(os.path.abspath(path.expanduser()))
    if path.is_dir() and any(_file(path, name) for name in _FILES):
        return [path]
    index = path / INDEX if path.is_dir() else path
    if path.is_file() and path.name in _FILES:
        parent = path.parent
        return [parent.parent if parent.name == _SUBFOLDER else parent]
    if index.name != INDEX or not index.is_file():
        raise InputError(
            f"There is no project of the controller in '{path}': none of {', '.join((INDEX, *_FILES))} is there."
        )
    entries = read_json(read_text(index))
    if not isinstance(entries, list):
        raise FormatError(f"{index}: it should be a list of projects, each with name and path.")
    found = [entry["path"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("path"), str)]
    if len(found) < len(entries):
        raise FormatError(f"{index}: {len(entries) - len(found)} of its entries have no path.")
    return [Path(os.path.normpath(index.parent / folder)) for folder in found]


def convert_controller_project(folder: Path, check_params: CheckParams) -> ControllerProject:
    """Convert the files of one project; they are read as data, and nothing is written."""
    project = ControllerProject(folder, check_params)
    documents = {name: _read_mapping(file) for name in _FILES if (file := _file(folder, name)) is not None}
    if not documents:
        raise InputError(f"There is no project of the controller in '{folder}'.")
    for key, value in documents.get(METADATA, {}).items():
        if key == "name":
            project.set_top(METADATA, key, value, "name")
        else:
            project.note(METADATA, key, value, Left("Mosaic keeps its own record"))
    if TRAINING in documents:
        _training(project, documents[TRAINING], has_yaml=RLLIB in documents)
    if RLLIB in documents:
        _rllib(project, documents[RLLIB])
    if EXPORT in documents:
        _export(project, documents[EXPORT])
    return project


def _training(project: ControllerProject, document: Mapping[str, object], *, has_yaml: bool) -> None:
    rllib = {key.removeprefix("rllib_"): key for key in document if key.startswith("rllib_")}
    networks = {kind: str(document.get(f"{kind}_policy_type", "mlp")).lower() for kind in ("sb3", "rllib")}
    algorithm = keys.SB3_NETWORKS.get(networks["sb3"], UNKNOWN)
    project.begin_preset("single_agent", "sb3", algorithm if isinstance(algorithm, str) else "ppo")
    presets = ["single_agent"]
    if rllib:
        project.begin_preset("multi_agent", "rllib", "ppo")
        presets.append("multi_agent")
    mode = document.get("mode")
    for key, value in document.items():
        if key == "mode":
            _choose(project, mode, has_yaml)
        elif key == "sb3_policy_type":
            project.note(
                TRAINING,
                key,
                value,
                "train.single_agent.training.algorithm" if isinstance(algorithm, str) else algorithm,
            )
        elif key.startswith("sb3_"):
            target = keys.SB3.get(key.removeprefix("sb3_"), UNKNOWN)
            if "lstm" in key and algorithm != "recurrent_ppo":
                target = Left("the network is not an LSTM")
            project.set_in_preset("single_agent", TRAINING, key, value, target)
        elif key not in rllib.values():
            shared = keys.TRAINING.get(key)
            for preset in presets if shared not in (None, GAME) else presets[:1]:
                project.set_in_preset(preset, TRAINING, key, value, shared or keys.SB3.get(key, UNKNOWN))
    if rllib:
        _rllib_settings(
            project, "multi_agent", TRAINING, {name: document[key] for name, key in rllib.items()}, "rllib_"
        )


def _choose(project: ControllerProject, mode: object, has_yaml: bool) -> None:
    preset = {"single_agent": "single_agent", "multi_agent": "rllib_config" if has_yaml else "multi_agent"}.get(
        str(mode)
    )
    if preset == "rllib_config":
        project.begin_preset(preset, "rllib", "ppo")
    if preset is None or not project.has_preset(preset):
        project.note(TRAINING, "mode", mode, UNKNOWN)
    else:
        project.set_top(TRAINING, "mode", mode, "default_preset", preset)


def _rllib_settings(
    project: ControllerProject, preset: str, file: str, given: Mapping[str, object], prefix: str
) -> None:
    """Take over settings of RLlib by their names in its old and new configuration."""
    if "algorithm" in given:  # first: the others are checked against it
        _algorithm(project, preset, file, f"{prefix}algorithm", given["algorithm"])
    network = str(given.get("policy_type", "mlp")).lower()
    limit = keys.RLLIB_MODES.get(str(given.get("stop_mode")))
    for key, value in given.items():
        target = keys.RLLIB.get(key, UNKNOWN)
        match key:
            case "algorithm":
                continue
            case "framework":
                target = Left("RLlib always uses torch here")
            case "policy_type" if network in ("mlp", "lstm"):
                value, target = network == "lstm", f"{IN_PARAMS}use_lstm"
            case "policy_type":
                target = keys.SB3_NETWORKS["grn"]
            case "stop_mode":
                no_limit = Left("a run without a limit ends after 1,000,000 env steps: --steps N")
                target = Left("the limit itself is taken over") if limit else no_limit if value == "none" else UNKNOWN
            case _ if limit is not None and key == limit[0]:
                target = limit[1]
            case "lstm_cell_size" if network != "lstm" and "policy_type" in given:
                target = Left("the network is not an LSTM")
            case "num_workers" | "num_env_runners" if value == 0:
                target = Left("Mosaic's env runners are processes: at least one")
            case "checkpoint_frequency" if value == 0:
                target = Left("Mosaic saves once a minute unless told otherwise")
        project.set_in_preset(preset, file, f"{prefix}{key}", value, target)


def _algorithm(project: ControllerProject, preset: str, file: str, setting: str, value: object) -> None:
    project.set_in_preset(preset, file, setting, str(value).lower(), "training.algorithm")


def _rllib(project: ControllerProject, document: Mapping[str, object]) -> None:
    preset = "rllib_config"
    if not project.has_preset(preset):
        project.begin_preset(preset, "rllib", "ppo")
    if "algorithm" in document:
        _algorithm(project, preset, RLLIB, "algorithm", document["algorithm"])
    for key, value in document.items():
        match key, value:
            case "algorithm", _:
                continue
            case "stop", dict():
                _section(project, preset, "stop.", value, keys.RLLIB_STOP)
            case "env_config", dict():
                _section(project, preset, "env_config.", value, keys.RLLIB_ENV)
            case "config", dict():
                _section(project, preset, "config.env_config.", _mapping(value.get("env_config")), keys.RLLIB_ENV)
                _rllib_settings(project, preset, RLLIB, _mapping(value.get("model")), "config.model.")
                groups = [name for name in ("env_config", "model") if isinstance(value.get(name), dict)]
                rest = {name: each for name, each in value.items() if name not in groups}
                _rllib_settings(project, preset, RLLIB, rest, "config.")
            case _:
                project.set_in_preset(preset, RLLIB, key, value, keys.RLLIB_TOP.get(key, UNKNOWN))


def _section(
    project: ControllerProject, preset: str, prefix: str, given: Mapping[str, object], known: Mapping[str, Target]
) -> None:
    for key, value in given.items():
        project.set_in_preset(preset, RLLIB, f"{prefix}{key}", value, known.get(key, UNKNOWN))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _export(project: ControllerProject, document: Mapping[str, object]) -> None:
    config = document.get("config")
    given = config if isinstance(config, dict) else {key: each for key, each in document.items() if key != "mode"}
    if "mode" in document:
        project.note(EXPORT, "mode", document["mode"], Left("both kinds of presets are kept: name one with --preset"))
    for key, value in given.items():
        kind = re.match(r"(sb3|rllib)_", key)
        name = key[kind.end() :] if kind else key
        project.set_in_export(kind[1] if kind else "godot", EXPORT, key, value, keys.EXPORT.get(name, UNKNOWN))


def _file(folder: Path, name: str) -> Path | None:
    """Return a file of the project, which lies in its folder or in the controller's folder in it."""
    places = (folder / _SUBFOLDER / name, folder / name)
    return next((place for place in places if place.is_file()), None)


def _read_mapping(file: Path) -> dict[str, object]:
    return parse_document(read_text(file), file)
