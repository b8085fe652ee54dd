"""Handling of lost env runners: the run continues with the others, and ends if none is left.

RLlib writes a runner's exception into a log, restarts the runner and tells the driver only that it was lost, as with a
lost machine. The exception is therefore also put where the driver finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_initialized,
    _internal_kv_put,
)
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

from mosaic.core.errors import MosaicError, describe_error
from mosaic.workers.rllib.config.setup import RUN

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.env.env_runner import EnvRunner
    from ray.rllib.env.env_runner_group import EnvRunnerGroup

    _AnyRunner = EnvRunner
else:
    _AnyRunner = object

_PLACE = b"mosaic-failures"  # namespace in Ray's key-value store, which all nodes share


class Telling(_AnyRunner):
    """Mixin that reports exceptions from env runners to the driver."""

    def make_env(self) -> None:
        with _told(self.config):
            super().make_env()  # type: ignore[no-untyped-call]

    def sample(self, **asked: Any) -> Any:
        with _told(self.config):
            return super().sample(**asked)  # type: ignore[safe-super]


def telling(own: type[EnvRunner]) -> type[EnvRunner]:
    """Return a subclass of an env runner, with the same name, that reports why it fails."""
    return type(own.__name__, (Telling, own), {"__module__": __name__})


def take_failure(config: AlgorithmConfig) -> str | None:
    """Return the last reported failure and remove it."""
    key = _key(config)
    if key is None:
        return None
    found: bytes | None = _internal_kv_get(key, namespace=_PLACE)
    if found is not None:
        _internal_kv_del(key, namespace=_PLACE)
    return None if found is None else found.decode()


@contextmanager
def failures_named(config: AlgorithmConfig) -> Iterator[None]:
    """Raise what an env runner has reported instead of the error with which RLlib ends if none could start."""
    try:
        yield
    except MosaicError:
        raise
    except Exception as error:
        failure = take_failure(config)
        if failure is None:
            raise
        raise _as_error(failure, config) from error


def _as_error(failure: str, config: AlgorithmConfig) -> MosaicError:
    run = Path(config.env_config[RUN]).name
    return MosaicError(f"An env runner failed: {failure.rstrip('.')}. All that it said: mosaic runs log {run}")


@contextmanager
def _told(config: AlgorithmConfig) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        key = _key(config)
        if key is not None:
            _internal_kv_put(key, describe_error(error).encode(), overwrite=True, namespace=_PLACE)
        raise


def _key(config: AlgorithmConfig) -> bytes | None:
    """Return the key of the run's failures; None if there is no driver to report to."""
    run = config.env_config.get(RUN)
    return str(run).encode() if run is not None and _internal_kv_initialized() else None  # type: ignore[no-untyped-call]


_LOG = logging.getLogger(__name__)
PROBE_TIMEOUT_S = 2.0  # for a lost runner to report that it is back; sampling waits meanwhile
PROBE_EVERY_S = 30.0  # RLlib itself asks before every step
PATIENCE_S = 60.0  # without any runner; a node that restarts is back by then


class Patience:
    """Mixin for RLlib's algorithms, which probe lost runners at every step and wait forever if all are lost."""

    _ask_at_s = 0.0
    _alone_since_s: float | None = None
    _failed_at_steps = 0
    _after_restore: Callable[[], None] | None = None

    def restore_env_runners(self, env_runner_group: EnvRunnerGroup | None) -> list[int]:
        if env_runner_group is None:  # a dataset is learned from
            return []
        there = env_runner_group.num_healthy_remote_workers()
        if there == env_runner_group.num_remote_workers():
            self._alone_since_s = None
            return []
        self._hear_of_failures()
        now_s = monotonic()
        if there:
            self._alone_since_s = None
            if now_s < self._ask_at_s:
                return []
        elif self._alone_since_s is None:
            self._alone_since_s = now_s
        elif now_s - self._alone_since_s > PATIENCE_S:
            raise MosaicError(
                f"No env runner is left: all {env_runner_group.num_remote_workers()} were lost, and none came back "
                f"within {PATIENCE_S:g} s. When the cluster has CPUs again, resume the run: it continues from its last "
                "checkpoint."
            )
        restored: list[int] = super().restore_env_runners(env_runner_group)  # type: ignore[misc]
        self._ask_at_s = monotonic() + PROBE_EVERY_S
        if restored and self._after_restore is not None:
            self._after_restore()
        return restored

    def _hear_of_failures(self) -> None:
        """Log a runner's failure, or raise it if nothing was sampled since the last one.

        Otherwise the restarted runner may succeed.
        """
        algorithm: Any = self
        failure = take_failure(algorithm.config)
        if failure is None:
            return
        steps = int(algorithm.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0))
        if steps == self._failed_at_steps:
            raise _as_error(failure, algorithm.config)
        self._failed_at_steps = steps
        _LOG.warning("An env runner failed and is restarted: %s", failure)


def after_restore(algorithm: Algorithm, action: Callable[[], None]) -> None:
    """Set what happens when lost env runners are back, before they sample."""
    assert isinstance(algorithm, Patience)
    algorithm._after_restore = action


def patient(algorithm: type[Algorithm]) -> type[Algorithm]:
    """Return a subclass of an algorithm that raises when all its runners are lost."""
    return type(algorithm.__name__, (Patience, algorithm), {"__module__": algorithm.__module__})
