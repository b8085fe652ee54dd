"""Checks of this machine: what is installed, what is missing, and how to install it."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple


class Finding(NamedTuple):
    id: str
    ok: bool
    detail: str
    install: str | None = None


_EXTRAS = {  # extra → the modules it installs, each with its distribution
    "torch": {"torch": "torch"},
    "sb3": {"stable_baselines3": "stable-baselines3", "sb3_contrib": "sb3-contrib"},
    "rllib": {"ray": "ray"},
    "mpi": {"mpi4py": "mpi4py"},
    "tui": {"textual": "textual", "textual_plot": "textual-plot"},
    "web": {
        "nicegui": "nicegui",
        "fastapi": "fastapi",
        "uvicorn": "uvicorn",
        "httpx": "httpx",
        "websockets": "websockets",
    },
    "gym": {"pygame": "pygame-ce", "Box2D": "Box2D"},
    "mujoco": {"mujoco": "mujoco", "imageio": "imageio"},
    "classic": {"chess": "chess", "rlcard": "rlcard", "shimmy": "shimmy", "pyspiel": "open-spiel"},
    "sisl": {"pymunk": "pymunk", "Box2D": "Box2D"},
    "butterfly": {"pymunk": "pymunk", "pygame": "pygame-ce"},
    "mpe": {"mpe2": "mpe2"},
    "demos": {"minari": "minari", "h5py": "h5py"},
    "tensorboard": {"tensorboardX": "tensorboardX"},
    "wandb": {"wandb": "wandb"},
    "mlflow": {"mlflow": "mlflow-skinny"},
    "trackio": {"trackio": "trackio"},
    "onnx": {"onnx": "onnx", "onnxruntime": "onnxruntime"},
    "video": {"imageio_ffmpeg": "imageio-ffmpeg"},
    "hub": {"huggingface_hub": "huggingface_hub"},
    "mcp": {"mcp": "mcp"},
    "window": {"webview": "pywebview"},
}


def examine() -> list[Finding]:
    return [
        _python(),
        _machine(),
        *(_core(name) for name in ("gymnasium", "pettingzoo", "numba", "numpy")),
        *_extras(),
        _godot(),
        _engine(),
    ]


def extra_of(module: str) -> str | None:
    """Return the extra that installs this module."""
    return next((extra for extra, modules in _EXTRAS.items() if module in modules), None)


def _python() -> Finding:
    ok = sys.version_info >= (3, 11)
    return Finding("python", ok, platform.python_version(), None if ok else "Python 3.11 or newer")


def _machine() -> Finding:
    from mosaic.core.machine import available_cores

    return Finding("machine", True, f"{platform.system()} {platform.machine()}, {available_cores()} cores")


def _core(distribution: str) -> Finding:
    return Finding(distribution, True, version(distribution))


def _extras() -> list[Finding]:
    findings = []
    for extra, modules in _EXTRAS.items():
        missing = [name for module, name in modules.items() if importlib.util.find_spec(module) is None]
        detail = f"without {', '.join(missing)}" if missing else ", ".join(map(_versioned, modules.values()))
        line = f"pip install 'mosaic-rl[{extra}]'" if missing else None
        findings.append(Finding(f"extra {extra}", not missing, detail, line))
    return findings


def _versioned(distribution: str) -> str:
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:  # the module was not installed by pip
        return distribution


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
    return Finding("stockfish", missing is None, found or "no chess engine", missing)
