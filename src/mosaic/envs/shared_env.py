"""Env instance that is made once for everything that describes it while a run is resolved or set up.

A run's agents and spaces, the constants of its compiled twin and its transition table are all read from an instance.
Making one can take seconds, so within `sharing_envs` all of them read the same one, and training takes it over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env, EnvSpec


class _SharedEnvs:
    """Instances that nothing has reset yet, and the specs of all that were made, by configuration."""

    def __init__(self) -> None:
        self.specs: dict[str, EnvSpec] = {}
        self.masked: dict[str, bool] = {}
        self._envs: dict[str, Env] = {}

    def get(self, config: EnvironmentConfig) -> Env:
        key = _key(config)
        if key not in self._envs:
            self._envs[key] = env = make_env(config)
            self.specs[key] = env.spec
        return self._envs[key]

    def take(self, config: EnvironmentConfig) -> Env:
        env = self.get(config)
        del self._envs[_key(config)]
        return env

    def close(self) -> None:
        while self._envs:
            self._envs.popitem()[1].close()


_shared: ContextVar[_SharedEnvs | None] = ContextVar("shared_envs", default=None)  # each thread has its own


def _key(config: EnvironmentConfig) -> str:
    return config.model_dump_json(exclude={"num_envs", "curriculum"})


@contextmanager
def sharing_envs() -> Iterator[None]:
    """Make an env at most once in this block for those who describe it; close what nothing took."""
    if _shared.get() is not None:
        yield
        return
    with closing(_SharedEnvs()) as envs:
        token = _shared.set(envs)
        try:
            yield
        finally:
            _shared.reset(token)


@contextmanager
def described_env(config: EnvironmentConfig) -> Iterator[Env]:
    """Yield an env to read from, never to reset or step; outside of `sharing_envs` it is closed afterwards."""
    envs = _shared.get()
    if envs is not None:
        yield envs.get(config)
        return
    with closing(make_env(config)) as env:
        yield env


def env_spec(config: EnvironmentConfig) -> EnvSpec:
    envs = _shared.get()
    if envs is not None and _key(config) in envs.specs:
        return envs.specs[_key(config)]
    with described_env(config) as env:
        return env.spec


def has_illegal_actions(config: EnvironmentConfig) -> bool:
    """Return whether the env gives action masks, which only an env of its own, after its reset, can tell."""
    envs = _shared.get()
    key = _key(config)
    if envs is not None and key in envs.masked:
        return envs.masked[key]
    with closing(make_env(config)) as env:
        masked, spec = bool(env.reset(0).action_masks), env.spec
    if envs is not None:
        envs.masked[key] = masked
        envs.specs.setdefault(key, spec)
    return masked


def take_env(config: EnvironmentConfig) -> Env:
    """Return an env for training: the one that was described, if nothing has taken it, or else a new one.

    The caller closes it.
    """
    envs = _shared.get()
    return make_env(config) if envs is None else envs.take(config)


def close_shared_envs() -> None:
    """Close what was made to be described: other processes, which now begin, may need what it holds, such as a port."""
    envs = _shared.get()
    if envs is not None:
        envs.close()
