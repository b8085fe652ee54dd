"""Contract checks and toys: what plug-in authors test with, and what we test with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mosaic.envs.contract import ContractError as ContractError
    from mosaic.envs.contract import EnvReport as EnvReport
    from mosaic.envs.contract import check_env as check_env
    from mosaic.testing.worker import WorkerReport as WorkerReport
    from mosaic.testing.worker import check_worker as check_worker

_HOMES = {
    **dict.fromkeys(("ContractError", "EnvReport", "check_env"), "mosaic.envs.contract"),
    **dict.fromkeys(("WorkerReport", "check_worker"), "mosaic.testing.worker"),
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mosaic.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
