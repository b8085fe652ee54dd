"""Contract checks and small envs for testing plug-ins; Mosaic's own tests use them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "Alternating",
    "ContractError",
    "Crowd",
    "Duel",
    "EnvReport",
    "Fading",
    "SecrecyError",
    "SecrecyReport",
    "Uneven",
    "WorkerContractError",
    "WorkerReport",
    "check_env",
    "check_search_rules",
    "check_secrecy",
    "check_worker",
]

if TYPE_CHECKING:
    from mosaic.envs.contract.check import check_env
    from mosaic.envs.contract.compiled_game import check_search_rules
    from mosaic.envs.contract.report import ContractError, EnvReport
    from mosaic.testing.duel import Duel
    from mosaic.testing.secrecy import SecrecyError, SecrecyReport, check_secrecy
    from mosaic.testing.toys import Alternating, Crowd, Fading, Uneven
    from mosaic.testing.worker import WorkerContractError, WorkerReport, check_worker
else:
    from mosaic.core.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "mosaic.envs.contract.check": ("check_env",),
            "mosaic.envs.contract.compiled_game": ("check_search_rules",),
            "mosaic.envs.contract.report": ("ContractError", "EnvReport"),
            "mosaic.testing.duel": ("Duel",),
            "mosaic.testing.secrecy": ("SecrecyError", "SecrecyReport", "check_secrecy"),
            "mosaic.testing.toys": ("Alternating", "Crowd", "Fading", "Uneven"),
            "mosaic.testing.worker": ("WorkerContractError", "WorkerReport", "check_worker"),
        },
    )
