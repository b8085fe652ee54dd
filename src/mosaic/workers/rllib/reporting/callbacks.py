"""What Mosaic learns from inside env runners, through RLlib's own callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, runtime_checkable

from ray.rllib.callbacks.callbacks import RLlibCallback

from mosaic.core.ids import AgentID
from mosaic.workers.rllib.env.sampling import RunnerCounters
from mosaic.workers.rllib.frames import RunnerCamera, returns_of, shows_frames, this_host
from mosaic.workers.rllib.reporting.episodes import ALERTS, EPISODES, joined
from mosaic.workers.rllib.reporting.log_filter import keep_quiet

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm

_CLOSE_TIMEOUT_S = 5.0


class CallbackFacts(TypedDict):
    """Plain data: it travels to the env runners inside RLlib's configuration."""

    folder: str  # the run's
    host: str  # where the driver is, and with it whoever looks
    policies: dict[AgentID, str]  # of the agents that learn, in their order
    frames: bool
    session: str  # under which counters are published


@runtime_checkable
class PlaysOthers(Protocol):
    """An env whose other agents are played inside it."""

    @property
    def played_returns(self) -> Mapping[AgentID, float]: ...


def callback_facts(folder: Path, policies: Mapping[AgentID, str], *, frames: bool, session: str = "") -> CallbackFacts:
    """As the driver knows them."""
    return CallbackFacts(
        folder=str(folder), host=this_host(), policies=dict(policies), frames=frames, session=session or str(folder)
    )


class MosaicCallback(RLlibCallback):
    """Give it to RLlib as `partial(MosaicCallback, facts=callback_facts(…))`; each env runner makes one of its own."""

    def __init__(self, *, facts: CallbackFacts) -> None:
        super().__init__()
        keep_quiet()
        self._facts = facts
        self._agents = tuple(facts["policies"])
        self._camera: RunnerCamera | None = None
        self._counters = RunnerCounters(facts["session"])

    def on_environment_created(self, *, env_runner: Any, **also: Any) -> None:
        folder = Path(self._facts["folder"])
        if self._camera is None and self._facts["frames"] and shows_frames(env_runner, self._facts["host"], folder):
            self._camera = RunnerCamera(folder, env_runner, self._agents)

    def on_episode_step(self, *, env_index: int, metrics_logger: Any = None, **also: Any) -> None:
        """Once for each env, after all of them were stepped: the first one speaks for all."""
        self._counters.step()
        camera = self._camera
        if camera is None:
            return
        camera.steps += 1
        if env_index == 0:
            alert = camera.glance()
            if alert is not None:
                metrics_logger.log_value(ALERTS, alert, reduce="item_series")

    def on_episode_end(
        self,
        *,
        episode: Any,
        env_index: int,
        prev_episode_chunks: Sequence[Any] | None = None,
        metrics_logger: Any = None,
        env: Any = None,
        **also: Any,
    ) -> None:
        pieces = (*(prev_episode_chunks or ()), episode)
        inner = env.envs[env_index].unwrapped
        record = joined(
            [returns_of(piece, self._agents) for piece in pieces],
            [len(piece) for piece in pieces],
            self._policies(pieces),
            inner.played_returns if isinstance(inner, PlaysOthers) else {},
        )
        metrics_logger.log_value(EPISODES, record, reduce="item_series")
        self._counters.end_episode(record)
        if self._camera is not None:
            self._camera.episodes += 1

    def close_frames(self, *, finished: bool) -> None:
        if self._camera is not None:
            self._camera.close(finished=finished)
        self._camera = None

    def _policies(self, pieces: Sequence[Any]) -> dict[AgentID, str]:
        """Who really answered: with one agent RLlib calls the policy by a name of its own."""
        if not hasattr(pieces[0], "agent_episodes"):
            return dict(self._facts["policies"])
        return {str(agent): str(piece.module_for(agent)) for piece in pieces for agent in piece.agent_episodes}


def close_frames(algorithm: Algorithm, *, finished: bool) -> None:
    """Those who look learn that no more pictures will come. Before `algorithm.stop()`, which ends the runners."""
    group = algorithm.env_runner_group
    if group is not None:
        group.foreach_env_runner(partial(_close, finished=finished), timeout_seconds=_CLOSE_TIMEOUT_S)


def _close(env_runner: Any, finished: bool) -> None:
    for callback in env_runner._callbacks:
        if isinstance(callback, MosaicCallback):
            callback.close_frames(finished=finished)
