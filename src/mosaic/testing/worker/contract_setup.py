"""Shared state of the worker checks: the worker, the config, and a store of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from mosaic.config.field_types import MOST_STEPS
from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, MosaicError
from mosaic.runs.trainer import Trainer
from mosaic.testing.worker.rehearsal import Rehearsal, WorkerContractError
from mosaic.workers.api import Worker, WorkerCapabilities

_HOME = "MOSAIC_HOME"


@dataclass(frozen=True, slots=True)
class ContractSetup:
    worker: Worker
    config: RunConfig
    home: Path
    patience_s: float
    quiet_s: float
    rng: Random

    @property
    def info(self) -> WorkerCapabilities:
        return self.worker.info

    def rehearse(self, config: RunConfig | None = None, **changes: object) -> Rehearsal:
        config = (config or self.config).model_copy(update={"run_id": None, **changes})
        return Rehearsal(Trainer(self.home).submit(config), self.patience_s)

    @staticmethod
    def changed(config: RunConfig, changes: Mapping[str, object]) -> RunConfig:
        """Return the configuration with sections replaced, or merged where they are mappings; values are as typed by a
        user.
        """
        document = dump_run_config(config)
        for name, value in changes.items():
            if isinstance(value, Mapping) and name != "agents":
                document[name] = {**document[name], **value}
            else:
                document[name] = value
        return parse_run_config(document)

    def refusal(
        self,
        config: RunConfig,
        capability: str,
        changes: Mapping[str, object],
        promise: str,
        refused: type[MosaicError] = InputError,
    ) -> str:
        """Return the message with which a run with these changes is refused; raise if it is accepted instead."""
        try:
            run = Trainer(self.home).submit(self.changed(config, changes), start=False)
        except refused as error:
            return str(error)
        run.delete()
        raise WorkerContractError(
            self.info.name,
            capability,
            f"a run with {changes} was accepted",
            promise,
            "declare no more than is met (agent_mapping, resources), and raise InputError in check(…)",
        )

    def endless(self) -> RunConfig:
        """Return a configuration of a run that only a command ends."""
        limits = {"total_timesteps": MOST_STEPS, "episodes": None, "stop_reward": None}
        return self.config.model_copy(update={"training": self.config.training.model_copy(update=limits)})

    @contextmanager
    def at_home(self) -> Iterator[None]:
        """Set the home in the environment, where `run:` policies are looked up."""
        before = os.environ.get(_HOME)
        os.environ[_HOME] = str(self.home)
        try:
            yield
        finally:
            if before is None:
                del os.environ[_HOME]
            else:
                os.environ[_HOME] = before
