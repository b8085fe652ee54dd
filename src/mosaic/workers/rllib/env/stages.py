"""Stages of a curriculum in env runners: which env they make, also when they are restarted.

The driver tells every runner between two iterations. Ray restarts a lost one with the arguments of its beginning, so
the stage is also in Ray's key-value store, which all nodes of a cluster share.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_initialized, _internal_kv_put

from mosaic.config.sections import EnvironmentConfig
from mosaic.workers.rllib.config.setup import SESSION, STAGE
from mosaic.workers.rllib.env.sampling import NAMESPACE

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.env.env_runner import EnvRunner

    _AnyRunner = EnvRunner
else:
    _AnyRunner = object

_ENVIRONMENT = "environment"  # key of the env's configuration in that of RLlib's envs


class Staged(_AnyRunner):
    """Mixin for env runners whose env changes at the stages of a curriculum."""

    @property
    def stage(self) -> int:
        """Stage of the runner's envs, counted from 1."""
        return int(self.config.env_config[STAGE])

    def enter_stage(self, stage: int, environment: dict[str, Any]) -> None:
        """Make the envs of a stage; their episodes begin at the next sample. A runner without envs only notes it."""
        runner: Any = self
        self.config.env_config.update({STAGE: stage, _ENVIRONMENT: environment})
        if runner.env is not None:
            runner.make_env()

    def make_env(self) -> None:
        newest = _read_stage(str(self.config.env_config[SESSION]))
        if newest is not None:
            self.config.env_config.update(newest)
        super().make_env()  # type: ignore[no-untyped-call]


def staged(own: type[EnvRunner]) -> type[EnvRunner]:
    """Return a subclass of an env runner, with the same name, that follows a curriculum."""
    return type(own.__name__, (Staged, own), {"__module__": __name__})


def enter_stage(algorithm: Algorithm, session: str, stage: int, environment: EnvironmentConfig) -> None:
    """Let all env runners make the envs of a stage before their next sample. Call it between two iterations."""
    document = environment.model_dump(mode="json")
    if _internal_kv_initialized():  # type: ignore[no-untyped-call]
        told = json.dumps({STAGE: stage, _ENVIRONMENT: document}).encode()
        _internal_kv_put(_key(session), told, overwrite=True, namespace=NAMESPACE)
    group = algorithm.env_runner_group
    assert group is not None
    group.foreach_env_runner(partial(_enter, stage=stage, environment=document))


def _enter(env_runner: Any, stage: int, environment: dict[str, Any]) -> None:
    env_runner.enter_stage(stage, environment)


def _read_stage(session: str) -> dict[str, Any] | None:
    if not _internal_kv_initialized():  # type: ignore[no-untyped-call]
        return None
    found: bytes | None = _internal_kv_get(_key(session), namespace=NAMESPACE)
    return None if found is None else dict(json.loads(found))


def _key(session: str) -> bytes:
    return f"{session}/stage".encode()
