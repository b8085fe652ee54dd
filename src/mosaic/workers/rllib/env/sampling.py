"""Env runners while they sample: counters for the driver, and rollouts that end when a stop is requested.

RLlib tells nothing about an iteration before its end, which may be minutes away in a slow env. Both directions use
Ray's key-value store, which all nodes of a cluster share, or memory where the driver itself steps the envs.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import uuid4

from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_exists,
    _internal_kv_initialized,
    _internal_kv_list,
    _internal_kv_put,
    internal_kv_get_gcs_client,
)

from mosaic.envs.env import EndsAhead
from mosaic.workers.rllib.config.setup import SESSION
from mosaic.workers.rllib.reporting.episodes import EpisodeRecord, Sampled

if TYPE_CHECKING:
    from ray.rllib.env.env_runner import EnvRunner

    _AnyRunner = EnvRunner
else:
    _AnyRunner = object

NAMESPACE = b"mosaic-sampling"
_ASK_EVERY_S = 0.25  # for a stop, within a rollout
_PUBLISH_EVERY_S = 1.0  # reports within an iteration come every other second
_KEPT = 100  # episodes of a runner that the driver can read


class StepLimit(int):
    """Number with which a loop of RLlib compares its count; reached early once a stop is requested.

    RLlib's loops have no other way out but an exception, which would lose what was sampled. A stop waits for the first
    `least`: RLlib cannot learn from nothing.
    """

    session: str
    least: int

    def __new__(cls, value: int, session: str, least: int = 1) -> StepLimit:
        limit = super().__new__(cls, value)
        limit.session, limit.least = session, least
        return limit

    def __reduce__(self) -> tuple[type[StepLimit], tuple[int, str, int]]:
        return StepLimit, (int(self), self.session, self.least)

    def __gt__(self, count: float) -> bool:
        return int(self) > count and (count < self.least or not stop_requested(self.session))

    def __le__(self, count: float) -> bool:
        return not self > count

    def __mul__(self, factor: int) -> StepLimit:
        """Return the limit of several learners together."""
        return StepLimit(int(self) * factor, self.session, self.least * factor)

    __hash__ = int.__hash__


class IterationLimit(StepLimit):
    """Steps of an iteration, which also ends early after a call of `end_iteration`; RLlib takes 0 for no limit."""

    def __reduce__(self) -> tuple[type[StepLimit], tuple[int, str, int]]:
        return IterationLimit, (int(self), self.session, self.least)

    def __bool__(self) -> bool:
        return int(self) != 0 and not stop_requested(self.session) and not _state(self.session).iteration_ends


class _Session:
    """State of a session in this process: whether a stop is requested, and whether the iteration should end."""

    def __init__(self) -> None:
        self.is_drivers = False  # then a request for a stop is made in this process
        self.told: dict[str, Counted] = {}  # of a runner in the driver's process
        self.stop_requested = False
        self.asked_at_s = -_ASK_EVERY_S
        self.iteration_ends = False


_sessions: dict[str, _Session] = {}


def _state(session: str) -> _Session:
    found = _sessions.get(session)
    return _sessions.setdefault(session, _Session()) if found is None else found


def begin_iteration(session: str) -> None:
    """Begin an iteration of the driver, in its process."""
    state = _state(session)
    state.is_drivers, state.iteration_ends = True, False


def end_iteration(session: str) -> None:
    """End the driver's iteration after its current training step, whatever was sampled."""
    _state(session).iteration_ends = True


def begin_rollout(session: str) -> None:
    """Begin a rollout in this process: the driver, which has just asked for it, had not requested a stop."""
    _state(session).asked_at_s = monotonic()


def stop_requested(session: str) -> bool:
    """Return whether the driver requested a stop; cheap enough to be called at every step."""
    state = _state(session)
    if state.is_drivers:
        return state.stop_requested
    now_s = monotonic()
    if not state.stop_requested and now_s - state.asked_at_s >= _ASK_EVERY_S and _internal_kv_initialized():  # type: ignore[no-untyped-call]
        state.asked_at_s = now_s
        state.stop_requested = bool(_internal_kv_exists(_stop_key(session), namespace=NAMESPACE))
    return state.stop_requested


def request_stop(session: str) -> None:
    """Make every rollout of the session end after its next step."""
    _state(session).stop_requested = True
    if _internal_kv_initialized():  # type: ignore[no-untyped-call]
        _internal_kv_put(_stop_key(session), b"1", namespace=NAMESPACE)


def forget(session: str) -> None:
    """Remove what a session left in Ray's store, which may outlive it on a cluster."""
    _sessions.pop(session, None)
    if _internal_kv_initialized():  # type: ignore[no-untyped-call]
        _internal_kv_del(f"{session}/".encode(), del_by_prefix=True, namespace=NAMESPACE)


def _stop_key(session: str) -> bytes:
    return f"{session}/stop".encode()


class RunnerCounters:
    """Counters of one env runner, published while it samples."""

    def __init__(self, session: str, clock: Callable[[], float] = monotonic) -> None:
        self._session = session
        self._key = f"{session}/runner/{uuid4().hex}"  # a restarted runner begins at 0
        self._clock, self._published_at_s = clock, clock()
        self.env_steps = self.episodes = 0  # the callback adds to env_steps
        self._records: deque[EpisodeRecord] = deque(maxlen=_KEPT)

    def publish_if_due(self) -> None:
        """Publish if the last time was long enough ago; cheap enough to be called at every step of all envs."""
        if self._clock() - self._published_at_s >= _PUBLISH_EVERY_S:
            self.publish()

    def end_episode(self, record: EpisodeRecord) -> None:
        self.episodes += 1
        self._records.append(record)

    def publish(self) -> None:
        self._published_at_s = self._clock()
        told = Counted(env_steps=self.env_steps, episodes=self.episodes, records=list(self._records))
        state = _state(self._session)
        if state.is_drivers:
            state.told[self._key] = told
        elif _internal_kv_initialized():  # type: ignore[no-untyped-call]
            _internal_kv_put(self._key.encode(), json.dumps(told).encode(), overwrite=True, namespace=NAMESPACE)


class Counted(TypedDict):
    """Counters of one runner, as it publishes them."""

    env_steps: int
    episodes: int
    records: list[EpisodeRecord]  # of the last episodes


class SamplingView:
    """Driver's view of the counters of all runners."""

    def __init__(self, session: str, read: Callable[[str], Mapping[str, Counted]] | None = None) -> None:
        self._session, self._read = session, read or _read
        self._env_steps = self._episodes = 0  # of completed iterations
        self._seen: dict[str, int] = {}  # episodes of each runner

    def complete(self, env_steps: int, episodes: int) -> None:
        """Record the result of an iteration. Steps of a runner that was lost in it never arrive."""
        told = self._read(self._session)
        self._seen = {key: each["episodes"] for key, each in told.items()}
        self._env_steps = max(self._env_steps + env_steps, sum(each["env_steps"] for each in told.values()))
        self._episodes = max(self._episodes + episodes, sum(self._seen.values()))

    def current(self) -> Sampled:
        """Return what the running iteration has sampled so far."""
        told = self._read(self._session)
        env_steps = sum(each["env_steps"] for each in told.values()) - self._env_steps
        episodes = max(0, sum(each["episodes"] for each in told.values()) - self._episodes)
        records = [
            record
            for key, each in told.items()
            for record in each["records"][max(0, len(each["records"]) - each["episodes"] + self._seen.get(key, 0)) :]
        ]
        return Sampled(max(0, env_steps), episodes, records[len(records) - min(episodes, len(records)) :])


def _read(session: str) -> dict[str, Counted]:
    """Return what each runner published last: two requests, regardless of the number of runners."""
    if here := dict(_state(session).told):
        return here
    if not _internal_kv_initialized():  # type: ignore[no-untyped-call]
        return {}
    keys = _internal_kv_list(f"{session}/runner/".encode(), namespace=NAMESPACE)
    client: Any = internal_kv_get_gcs_client()  # type: ignore[no-untyped-call]
    found: Mapping[bytes, bytes] = client.internal_kv_multi_get(keys, NAMESPACE) if keys else {}
    return {key.decode(): json.loads(value) for key, value in found.items()}


class Stoppable(_AnyRunner):
    """Mixin that makes env runners end their rollout when a stop is requested, and their envs at the same time."""

    def _sample(self, *, num_timesteps: int | None = None, num_episodes: int | None = None, **how: Any) -> Any:
        session = str(self.config.env_config[SESSION])
        begin_rollout(session)
        steps, episodes = (None if n is None else StepLimit(n, session) for n in (num_timesteps, num_episodes))
        return super()._sample(num_timesteps=steps, num_episodes=episodes, **how)  # type: ignore[misc]

    def stop(self) -> None:
        """Ask every env to end before the first is waited for: RLlib closes one after the other."""
        runner: Any = self
        for env in () if runner.env is None else getattr(runner.env.unwrapped, "envs", ()):
            if isinstance(env.unwrapped, EndsAhead):
                env.unwrapped.begin_end()
        super().stop()


def stoppable(own: type[EnvRunner]) -> type[EnvRunner]:
    """Return a subclass of an env runner, with the same name, that ends its rollout when a stop is requested."""
    return type(own.__name__, (Stoppable, own), {"__module__": __name__})
