"""Checker of the Env contract for plug-in authors: `check_env`."""

from __future__ import annotations

from mosaic.envs.contract.check import check_env as check_env
from mosaic.envs.contract.errors import ContractError as ContractError
from mosaic.envs.contract.report import AgentRow as AgentRow
from mosaic.envs.contract.report import EnvReport as EnvReport
