"""Contract check for workers, to be run by plug-in authors: `check_worker`."""

from __future__ import annotations

from mosaic.testing.worker.check import check_worker as check_worker
from mosaic.testing.worker.promises import ContractProof as ContractProof
from mosaic.testing.worker.promises import WorkerContractError as WorkerContractError
from mosaic.testing.worker.promises import WorkerReport as WorkerReport
