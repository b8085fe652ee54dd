"""Layers of settings: documents of which each takes precedence over those below it, and relative paths in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mosaic.config.sections import INTERVALS, EnvironmentConfig, split_id
from mosaic.core.reference import COMMAND, FILES, absolute_command, absolute_file, split_reference
from mosaic.core.user_code import PREFIX

_WHOLE = ("agents", "policies_to_train")  # rules depend on their order, so a layer replaces all of them
_DEBUG = "debug"  # godot/debug is a game in the editor, not a file


def merge_settings(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Return both documents as one, setting by setting; `above` wins.

    Options of an env belong to it: where `above` names another env, what `below` says about its own is left out.
    """
    env = env_of(above)
    merged = dict(below if env is None else without_other_env(below, env))
    for name, value in above.items():
        earlier = merged.get(name)
        if name in _WHOLE or not isinstance(value, Mapping) or not isinstance(earlier, Mapping):
            merged[name] = value
            continue
        dropped: tuple[str, ...] = ()
        if name == "environment" and env is not None:
            dropped = ("family", "env_id")  # two spellings of one env
        elif name == "checkpoint" and any(value.get(each) is not None for each in INTERVALS):
            dropped = INTERVALS  # at most one may be set
        merged[name] = _merged({key: kept for key, kept in earlier.items() if key not in dropped}, value)
    return merged


def _merged(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Merge two tables and those inside them."""
    merged = dict(below)
    for key, value in above.items():
        earlier = merged.get(key)
        merged[key] = _merged(earlier, value) if isinstance(value, Mapping) and isinstance(earlier, Mapping) else value
    return merged


def env_of(document: Mapping[str, object]) -> str | None:
    """Return the complete id of the env that a document names."""
    section = document.get("environment")
    env_id = section.get("env_id") if isinstance(section, Mapping) else None
    if not isinstance(section, Mapping) or not isinstance(env_id, str) or not env_id:
        return None
    family = section.get("family")
    known = {"family": family} if isinstance(family, str) else {}
    return EnvironmentConfig.model_validate({"env_id": env_id, **known}).id


def without_other_env(document: Mapping[str, object], env: str) -> dict[str, object]:
    """Return the document without its settings of the env, if it names another one."""
    named = env_of(document)
    if named is None or named == env:
        return dict(document)
    return {key: value for key, value in document.items() if key != "environment"}


def setting_sources(
    document: Mapping[str, object], layers: Sequence[tuple[str, Mapping[str, object]]]
) -> dict[str, str]:
    """Return the layer that each setting of a merged document comes from; `layers` from the highest to the lowest."""
    given = [(label, dict(_settings(layer))) for label, layer in layers]
    found: dict[str, str] = {}
    for name, value in _settings(document):
        for label, settings in given:
            if name in settings and settings[name] == value:
                found[name] = label
                break
    return found


def _settings(document: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for name, value in document.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping) and value and name not in _WHOLE:
            yield from _settings(value, f"{path}.")
        else:
            yield path, value


def absolute_settings(document: Mapping[str, object], folder: Path) -> dict[str, object]:
    """Return the document with paths that are relative to `folder` made absolute, to be used from any folder.

    These are files of code and modules beside them (`python:`), files of policies, Godot games, and the folder of
    checkpoints.
    """
    changed = {name: _absolute(value, folder) for name, value in document.items()}
    environment = changed.get("environment")
    if isinstance(environment, dict) and isinstance(environment.get("env_id"), str):
        environment["env_id"] = _absolute_env(environment, folder)
    checkpoint = changed.get("checkpoint")
    if isinstance(checkpoint, dict) and isinstance(checkpoint.get("folder"), str):
        checkpoint["folder"] = _joined(folder, checkpoint["folder"])
    return changed


def _absolute_env(environment: Mapping[str, object], folder: Path) -> str:
    family, env_id = environment.get("family"), str(environment["env_id"])
    if not family:
        family, name = split_id(env_id)
        return f"godot/{_joined(folder, name)}" if family == "godot" and name != _DEBUG else env_id
    if family == "python":
        return absolute_reference(f"{PREFIX}{env_id}", folder).removeprefix(PREFIX)
    return _joined(folder, env_id) if family == "godot" and env_id != _DEBUG else env_id


def _absolute(value: object, folder: Path) -> object:
    match value:
        case str():
            return absolute_reference(value, folder)
        case Mapping():
            return {key: _absolute(item, folder) for key, item in value.items()}
        case list() | tuple():
            return [_absolute(item, folder) for item in value]
    return value


def absolute_reference(reference: str, folder: Path) -> str:
    """Return `python:FILE.py:NAME`, `checkpoint:PATH` and the like with an absolute path; anything else as it is."""
    kind, rest = split_reference(reference)
    if kind in FILES:
        return absolute_file(reference, folder)
    if kind == COMMAND:
        return absolute_command(reference, folder)
    if not reference.startswith(PREFIX):
        return reference
    file, dot_py, name = rest.partition(".py:")
    if dot_py and name:
        return f"{PREFIX}{_joined(folder, f'{file}.py')}:{name}"
    module, _, name = rest.partition(":")
    beside = folder / f"{module}.py"
    return f"{PREFIX}{beside}:{name}" if module.isidentifier() and name and beside.is_file() else reference


def _joined(folder: Path, path: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))
