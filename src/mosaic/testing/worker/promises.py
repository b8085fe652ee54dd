"""Results of the worker contract check: proofs, the report and the error."""

from __future__ import annotations

from dataclasses import dataclass

from mosaic.envs.contract.report import CheckPosition, ContractError


class WorkerContractError(ContractError):
    """Error for a worker that does not do what it declares."""

    def __init__(self, worker: str, capability: str, found: str, promise: str, advice: str) -> None:
        super().__init__(CheckPosition(f"worker {worker}, {capability}"), found, promise, advice)
        self.worker, self.capability = worker, capability


@dataclass(frozen=True, slots=True)
class ContractProof:
    """Evidence of one kept promise."""

    capability: str
    seen: str


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """Evidence that every promise was kept."""

    worker: str
    proofs: tuple[ContractProof, ...]

    @property
    def proven(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(proof.capability for proof in self.proofs))
