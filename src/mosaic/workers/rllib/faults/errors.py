"""Reporting of env runners' exceptions to the driver.

RLlib writes them into a log, restarts the runner and tells the driver only that it was lost, as with a lost machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_initialized,
    _internal_kv_put,
)

from mosaic.workers.rllib.config.setup import RUN

if TYPE_CHECKING:
    from ray.rllib.env.env_runner import EnvRunner

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


def telling(own: type[Any]) -> type[Any]:
    """Return a subclass of an env runner, with the same name, that reports why it fails."""
    return type(own.__name__, (Telling, own), {"__module__": __name__})


def take_failure(config: Any) -> str | None:
    """Return the last reported failure and remove it."""
    key = _key(config)
    if key is None:
        return None
    found: bytes | None = _internal_kv_get(key, namespace=_PLACE)
    if found is not None:
        _internal_kv_del(key, namespace=_PLACE)
    return None if found is None else found.decode()


@contextmanager
def _told(config: Any) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        key = _key(config)
        if key is not None:
            _internal_kv_put(key, _words(error).encode(), overwrite=True, namespace=_PLACE)
        raise


def _words(error: BaseException) -> str:
    """Describe an error by the first one in its chain of causes with a message: RLlib raises some without."""
    while not str(error) and (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return f"{type(error).__name__}: {error}"


def _key(config: Any) -> bytes | None:
    """Return the key of the run's failures; None if there is no driver to report to."""
    run = config.env_config.get(RUN)
    return str(run).encode() if run is not None and _internal_kv_initialized() else None  # type: ignore[no-untyped-call]
