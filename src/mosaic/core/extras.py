"""Extras of the package: the modules that each of them installs, and the line to type for a missing module.

Here rather than in pyproject.toml, because modules and their distributions have different names.
"""

from __future__ import annotations

EXTRAS = {  # extra → the modules it installs, each with its distribution
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
_REQUIREMENTS = {
    "starlette": "web",
    "anyio": "mcp",
    "tree": "rllib",
    "httpx2": "hub",
}  # of packages of extras, used too


def extra_of(module: str) -> str | None:
    """Return the extra that installs this module."""
    return next((extra for extra, modules in EXTRAS.items() if module in modules), _REQUIREMENTS.get(module))


def install_line(module: str) -> str:
    """Return the command that installs a module, or a package of it."""
    name = module.partition(".")[0]
    extra = extra_of(name)
    return f"pip install 'mosaic-rl[{extra}]'" if extra else f"pip install {name}"
