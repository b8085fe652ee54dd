"""Plug-in registry, which imports plug-ins when they are used, and the extras that install what they need."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from mosaic.core.errors import MissingExtraError, MosaicError, unknown

Group = Literal["mosaic.envs", "mosaic.policies", "mosaic.workers", "mosaic.sinks", "mosaic.listeners"]
_WORDS: dict[Group, str] = {
    "mosaic.envs": "environment family",
    "mosaic.policies": "policy",
    "mosaic.workers": "worker",
    "mosaic.sinks": "mirror",
    "mosaic.listeners": "listener",
}
EXTRAS = {  # extra → the modules it installs, each with its distribution, which often has another name
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
    "mujoco": {"mujoco": "mujoco", "imageio": "imageio", "packaging": "packaging"},
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
# Modules that packages of an extra bring along, and that are imported here too.
_BROUGHT_ALONG = {"starlette": "web", "anyio": "mcp", "tree": "rllib", "httpx2": "hub"}


@cache
def plugins(group: Group) -> dict[str, EntryPoint]:
    """Return the entry point of every installed plug-in by name; raise where two packages claim one name."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise MosaicError(
                f"Two packages offer the {_WORDS[group]} '{entry.name}': {other.value} and {entry.value}. "
                "Uninstall one of them."
            )
    return dict(sorted(found.items()))


def distributions(used: Iterable[tuple[Group, str]]) -> tuple[str, ...]:
    """Return the names of the installed packages that offer these plug-ins; other names are left out."""
    entries = (plugins(group).get(name) for group, name in used)
    return tuple(sorted({entry.dist.name for entry in entries if entry is not None and entry.dist is not None}))


def load_plugin(group: Group, name: str) -> Any:
    """Import the plug-in's package and return its object."""
    known = plugins(group)
    if name not in known:
        raise unknown(_WORDS[group], name, known)
    try:
        return known[name].load()
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"The {_WORDS[group]} '{name}' needs the Python package '{error.name}', which is not installed. "
            f"Type: {install_line(error.name or name)}"
        ) from error


def extra_of(module: str) -> str | None:
    """Return the extra that installs this module."""
    return next((extra for extra, modules in EXTRAS.items() if module in modules), _BROUGHT_ALONG.get(module))


def install_line(module: str) -> str:
    """Return the command that installs a module, or a package of it."""
    name = module.partition(".")[0]
    extra = extra_of(name)
    return f"pip install 'mosaic-rl[{extra}]'" if extra else f"pip install {name}"
