"""Checks of this machine: what is installed, what is missing, and how to install it."""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from mosaic.core.errors import unknown
from mosaic.core.plugins import EXTRAS


class Finding(NamedTuple):
    id: str
    ok: bool
    detail: str
    install: str | None = None
    optional: bool = False  # not installed, which is a choice; what is not ok and not optional is a fault


_REQUIRED = {  # modules of the packages that every installation has, each with its distribution
    "gymnasium": "gymnasium",
    "msgspec": "msgspec",
    "numba": "numba",
    "numpy": "numpy",
    "openskill": "openskill",
    "pettingzoo": "pettingzoo",
    "PIL": "pillow",
    "platformdirs": "platformdirs",
    "psutil": "psutil",
    "pydantic": "pydantic",
    "yaml": "pyyaml",
    "rich": "rich",
    "safetensors": "safetensors",
    "scipy": "scipy",
    "typer": "typer",
}

_SERVICES = {"wandb", "mlflow", "trackio"}  # not part of the extra `all`
_IMPORT = """
import importlib, json, sys
failures = {}
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except BaseException as error:
        failures[name] = f"{type(error).__name__}: {error}".partition("\\n")[0]
print("@" + json.dumps(failures))
"""


def examine() -> list[Finding]:
    """Check every part without importing it."""
    return [_python(), _machine(), *_required(), *map(_extra, EXTRAS), _godot(), _engine()]


def examine_closely(asked: Collection[str]) -> tuple[list[Finding], list[Finding]]:
    """Import required and requested packages; return all findings, and those that must pass.

    Without names, all parts are checked; with names, only those and the required packages.
    """
    names = dict.fromkeys(name for one in asked for name in _members(one))
    modules = [module for name in names for module in EXTRAS.get(name, {})]
    failures = _failures([*_REQUIRED, *modules])
    required = [_python(), *_required(failures)]
    wanted = [_named(name, failures) for name in names]
    found = examine() if not asked else [*required, *wanted]
    closely = {finding.id: finding for finding in (*required, *wanted)}
    return [closely.get(finding.id, finding) for finding in found], list(closely.values())


def _members(asked: str) -> list[str]:
    if asked == "all":
        return [extra for extra in EXTRAS if extra not in _SERVICES]
    known = [*EXTRAS, "godot", "stockfish"]
    if asked not in known:
        raise unknown("extra", asked, [*known, "all"])
    return [asked]


def _named(name: str, failures: Mapping[str, str]) -> Finding:
    if name == "godot":
        return _godot()
    return _engine() if name == "stockfish" else _extra(name, failures)


def _failures(modules: Collection[str]) -> dict[str, str]:
    """Import modules in a process of their own, which they may end or print in; return why some do not load."""
    there = [module for module in dict.fromkeys(modules) if importlib.util.find_spec(module) is not None]
    command = [sys.executable, "-c", _IMPORT, json.dumps(there)]
    done = subprocess.run(command, capture_output=True, text=True)
    last = done.stdout.rpartition("@")[2]
    if done.returncode or not last:
        return dict.fromkeys(there, f"a process that imports {', '.join(there)} ended with {done.returncode}")
    failures: dict[str, str] = json.loads(last)
    return failures


def not_installed(count: int) -> str:
    return "1 optional part is not installed" if count == 1 else f"{count} optional parts are not installed"


def _python() -> Finding:
    ok = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding("python", ok, platform.python_version(), None if ok else "Python 3.11, 3.12 or 3.13")


def _machine() -> Finding:
    from mosaic.core.machine import available_cores

    return Finding("machine", True, f"{platform.system()} {platform.machine()}, {available_cores()} cores")


def _required(failures: Mapping[str, str] | None = None) -> list[Finding]:
    advice = "pip install --force-reinstall mosaic-rl"
    return [_part(name, {module: name}, failures or {}, advice) for module, name in _REQUIRED.items()]


def _extra(extra: str, failures: Mapping[str, str] | None = None) -> Finding:
    return _part(f"extra {extra}", EXTRAS[extra], failures or {}, f"pip install 'mosaic-rl[{extra}]'")


def _part(name: str, modules: Mapping[str, str], failures: Mapping[str, str], advice: str) -> Finding:
    absent = [distribution for module, distribution in modules.items() if importlib.util.find_spec(module) is None]
    hollow = [distribution for distribution in absent if _version(distribution)]
    missing = [distribution for distribution in absent if distribution not in hollow]
    broken = [
        f"{_versioned(modules[module])} does not load: {failures[module]}" for module in modules if module in failures
    ] + [f"{_versioned(distribution)} is installed, but its modules cannot be found" for distribution in hollow]
    if missing or broken:
        detail = [f"without {', '.join(missing)}"] * bool(missing) + broken
        repair = f"pip install --force-reinstall {' '.join(hollow)}" if hollow else advice
        return Finding(name, False, "; ".join(detail), repair, name.startswith("extra ") and not broken)
    return Finding(name, True, ", ".join(map(_versioned, modules.values())))


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:  # it is not installed, or not by pip
        return None


def _versioned(distribution: str) -> str:
    return " ".join(filter(None, (distribution, _version(distribution))))


def _godot() -> Finding:
    """Find the Godot engine, which only projects and packs need: exported games bring their own."""
    from mosaic.envs.godot.process import installed_engines

    engines = installed_engines()
    detail = f"engine {engines[0]}" if engines else "exported games and godot/debug; no engine for project folders"
    return Finding("extra godot", True, detail)


def _engine() -> Finding:
    from mosaic.policies.uci import stockfish

    missing = stockfish.missing()
    found = shutil.which("stockfish") or shutil.which("stockfish", path="/usr/games:/usr/local/bin")
    return Finding("stockfish", missing is None, found or "no chess engine", missing, missing is not None)
