"""Contract check for workers, to be run by plug-in authors: `check_worker`."""

from __future__ import annotations

from mosaic.testing.worker.check import WorkerReport as WorkerReport
from mosaic.testing.worker.check import check_worker as check_worker
from mosaic.testing.worker.rehearsal import ContractProof as ContractProof
from mosaic.testing.worker.rehearsal import WorkerContractError as WorkerContractError
