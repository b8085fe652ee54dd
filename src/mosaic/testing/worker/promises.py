"""How kept and broken promises of a worker are told."""

from __future__ import annotations

from dataclasses import dataclass

from mosaic.envs.contract import ContractError
from mosaic.envs.contract.errors import Place


class WorkerContractError(ContractError):
    """A worker does not do what it declares."""

    def __init__(self, worker: str, capability: str, found: str, promise: str, advice: str) -> None:
        super().__init__(Place(f"worker {worker}, {capability}"), found, promise, advice)
        self.worker, self.capability = worker, capability


@dataclass(frozen=True, slots=True)
class Proof:
    """One promise, and what was seen of it."""

    capability: str
    seen: str


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """Every promise was kept; this is what was seen."""

    worker: str
    proofs: tuple[Proof, ...]

    @property
    def proven(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(proof.capability for proof in self.proofs))
