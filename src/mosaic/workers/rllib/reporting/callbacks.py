"""RLlib callbacks that collect episodes, counters and frames in env runners."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED, NUM_ENV_STEPS_SAMPLED_LIFETIME

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID
from mosaic.core.system import boot_id
from mosaic.runners.screen import Shot, develop
from mosaic.telemetry.events.info_numbers import numbers_in
from mosaic.telemetry.frames.on_demand import OnDemandWriter
from mosaic.telemetry.frames.sources import announce_source, runner_source, withdraw_source
from mosaic.workers.rllib.env.env import ViewedEnv
from mosaic.workers.rllib.env.sampling import RunnerCounters
from mosaic.workers.rllib.env.stages import Staged
from mosaic.workers.rllib.episode_modules import RunnerEpisodes
from mosaic.workers.rllib.reporting.episodes import ALERTS, EPISODES, OTHERS_STEPS, joined
from mosaic.workers.rllib.reporting.log_filter import keep_quiet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.env.env_runner import EnvRunner
    from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode
    from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

    from mosaic.workers.rllib.env.twin_view import RunningTwinEpisode

_log = logging.getLogger(__name__)

Piece: TypeAlias = "SingleAgentEpisode | MultiAgentEpisode | RunningTwinEpisode"


def this_host() -> str:
    """Return a name shared by all processes that share memory with this one: a common folder is not proof of that."""
    return f"{socket.gethostname()} {boot_id()}"


def shows_frames(env_runner: EnvRunner, host: str, folder: Path) -> bool:
    """Return whether this runner can be watched: it is on the machine of the run's folder, and steps envs.

    The driver's own steps them if there are no others.
    """
    config = env_runner.config
    steps = env_runner.worker_index > 0 or not config.num_env_runners
    return steps and not config.in_evaluation and host == this_host() and folder.is_dir()


def _picture(env: Any) -> NDArray[np.uint8] | None:
    """Return the picture of an env; None if its class does not draw.

    Gymnasium's checker, which RLlib adds, would warn in the run's log of metadata that live pictures do not need.
    """
    while isinstance(env, OrderEnforcing | PassiveEnvChecker):
        env = env.env
    try:
        picture: NDArray[np.uint8] | None = env.render()
    except NotImplementedError:  # by Gymnasium, in place of a class that has no render()
        return None
    return picture


class RunnerCamera:
    """Renderer of an env runner's envs, for viewers who choose this runner as a source.

    `glance` is called after every step: without viewers it costs a microsecond. It draws at once, since RLlib takes the
    next step as soon as its callback returns.
    """

    def __init__(self, folder: Path, env_runner: EnvRunner, agents: Iterable[AgentID], undrawn: str = "") -> None:
        """Offer the runner as a source of the run in `folder`, in place of a predecessor with the same number.

        `undrawn` is the alert if there is nothing to show.
        """
        self._runner: Any = env_runner  # the two kinds share more than their base class declares
        self._agents = tuple(agents)
        self._writer = OnDemandWriter(announce_source(folder, runner_source(max(1, env_runner.worker_index))))
        self.steps = 0  # since the driver last sent the total
        self.episodes = 0
        self._told = env_runner.num_env_steps_sampled_lifetime
        self._shown = 0
        self._broken = False
        self._undrawn = undrawn

    def glance(self) -> str | None:
        """Draw a frame if a viewer requests one, and return an alert if that fails.

        An env that cannot be drawn ends the frames, not the training.
        """
        if self._broken:
            return None
        try:
            request = self._writer.request() if self._writer.wanted() else None
        except MosaicError as error:  # there is no room for a ring
            self._broken = True
            return f"No pictures: {error}"
        if request is None:
            return None
        first = min(request.env, self._runner.num_envs - 1)
        count = max(1, min(request.grid, self._runner.num_envs - first))
        try:
            developed = develop([self._shoot(index) for index in range(first, first + count)])
        except Exception as error:  # noqa: BLE001 — whatever a user's render() raises
            self._broken = True
            return f"No more pictures: drawing env {first} raised {type(error).__name__}: {error}"
        if developed is not None:
            self._writer.publish(developed.rgb, **developed.facts)
            return None
        alert, self._undrawn = self._undrawn, ""
        return alert or None

    def close(self, *, finished: bool) -> None:
        self._writer.close(finished)
        withdraw_source(self._writer.folder)

    def _shoot(self, index: int) -> Shot:
        returns, reward = self._so_far(index)
        return Shot(
            draw=partial(_picture, self._runner.env.unwrapped.envs[index]),
            env=index,
            env_steps=self._step(),
            episode=self.episodes,
            reward=reward,
            returns=returns,
        )

    def _step(self) -> int:
        """Return the step of the whole run, as far as this runner knows; always greater than in the previous frame."""
        told = self._runner.num_env_steps_sampled_lifetime
        if told != self._told:
            self._told, self.steps = told, 0
        self._shown = max(self._shown + 1, told + self.steps)
        return self._shown

    def _so_far(self, index: int) -> tuple[Mapping[AgentID, float], float]:
        """Return the episode's returns, including pieces that RLlib has cut off, and the first agent's last reward."""
        episode = self._runner._ongoing_episodes[index]
        earlier = self._runner._ongoing_episodes_for_metrics.get(episode.id_, ())
        pieces = [returns_of(each, self._agents) for each in (*earlier, episode)]
        total = {agent: sum(piece.get(agent, 0.0) for piece in pieces) for agent in self._agents}
        return total, _last_reward(episode, self._agents[0])


def returns_of(episode: Piece, agents: tuple[AgentID, ...]) -> dict[AgentID, float]:
    """Return the returns of one piece of an episode, with one agent or several."""
    if not hasattr(episode, "agent_episodes"):
        return {agents[0]: float(episode.get_return())}
    return {str(agent): float(each.get_return()) for agent, each in episode.agent_episodes.items()}


def last_numbers(pieces: Iterable[Piece], agents: tuple[AgentID, ...]) -> dict[AgentID, dict[str, float]]:
    """Return the numbers in the last info of each agent of an episode; compiled envs have none."""
    found: dict[AgentID, dict[str, float]] = {}
    for piece in pieces:
        several = getattr(piece, "agent_episodes", {agents[0]: piece})
        for agent, each in several.items():
            if hasattr(each, "get_infos"):
                found[str(agent)] = numbers_in(each.get_infos(-1) or {})
    return {agent: numbers for agent, numbers in found.items() if numbers}


def _last_reward(episode: Piece, agent: AgentID) -> float:
    each = episode.agent_episodes.get(agent) if hasattr(episode, "agent_episodes") else episode
    return float(each.rewards[-1]) if each is not None and len(each) else 0.0


_CLOSE_TIMEOUT_S = 5.0


class CallbackFacts(TypedDict):
    """Settings of the callback, as plain data: they are sent to the env runners in RLlib's configuration."""

    folder: str  # the run's
    host: str  # of the driver, and of the viewers
    policies: dict[AgentID, str]  # of the agents that learn, in their order
    frames: bool
    undrawn: str  # alert if the env has no pictures
    session: str  # under which counters are published
    first_episode: int | None  # number of the run's next episode, if numbers decide who plays


def callback_facts(
    folder: Path,
    policies: Mapping[AgentID, str],
    *,
    frames: bool,
    undrawn: str = "",
    session: str = "",
    first_episode: int | None = None,
) -> CallbackFacts:
    """Return the settings as the driver knows them."""
    return CallbackFacts(
        folder=str(folder),
        host=this_host(),
        policies=dict(policies),
        frames=frames,
        undrawn=undrawn,
        session=session or str(folder),
        first_episode=first_episode,
    )


class MosaicCallback(RLlibCallback):
    """Callback for RLlib, passed as `partial(MosaicCallback, facts=callback_facts(…))`.

    Each env runner creates its own.
    """

    def __init__(self, *, facts: CallbackFacts) -> None:
        super().__init__()
        keep_quiet()
        self._facts = facts
        self._agents = tuple(facts["policies"])
        self._camera: RunnerCamera | None = None
        self._counters = RunnerCounters(facts["session"])
        first = facts["first_episode"]
        self._episodes = None if first is None else RunnerEpisodes(first)

    def on_environment_created(self, *, env_runner: EnvRunner, **also: object) -> None:
        folder = Path(self._facts["folder"])
        if self._camera is None and self._facts["frames"] and shows_frames(env_runner, self._facts["host"], folder):
            try:
                self._camera = RunnerCamera(folder, env_runner, self._agents, self._facts["undrawn"])
            except OSError as error:
                _log.warning("This env runner cannot be watched: %s", error)

    def on_episode_created(self, *, episode: Any, env_index: int = 0, env_runner: Any = None, **also: Any) -> None:
        """Give the episode its number if that decides who plays; the env is not yet reset."""
        if self._episodes is None:
            return
        runner, runners = env_runner.worker_index, env_runner.config.num_env_runners or 0
        number = self._episodes.number(episode, runner, runners)
        inner = env_runner.env.unwrapped.envs[env_index].unwrapped
        if isinstance(inner, ViewedEnv):
            inner.number_next(number)

    def on_episode_step(
        self, *, env_index: int, metrics_logger: MetricsLogger | None = None, env: Any = None, **also: object
    ) -> None:
        """Count a step. It is called for each env, after all were stepped: the first one publishes and draws."""
        counters, camera = self._counters, self._camera
        inner = env.envs[env_index].unwrapped
        others_steps = inner.view.episode.others_steps if isinstance(inner, ViewedEnv) else 0
        if others_steps:
            assert metrics_logger is not None
            _add_env_steps(metrics_logger, others_steps)
        counters.env_steps += 1 + others_steps
        if camera is not None:
            camera.steps += 1 + others_steps
        if env_index != 0:
            return
        counters.publish_if_due()
        alert = None if camera is None else camera.glance()
        if alert is not None:
            assert metrics_logger is not None
            metrics_logger.log_value(ALERTS, alert, reduce="item_series")

    def on_episode_end(
        self,
        *,
        episode: Any,
        env_index: int,
        prev_episode_chunks: Sequence[Any] | None = None,
        metrics_logger: MetricsLogger | None = None,
        env: Any = None,
        env_runner: Any = None,
        **also: object,
    ) -> None:
        pieces = (*(prev_episode_chunks or ()), episode)
        inner = env.envs[env_index].unwrapped
        told = inner.view.episode if isinstance(inner, ViewedEnv) else None
        record = joined(
            [returns_of(piece, self._agents) for piece in pieces],
            sum(len(piece) for piece in pieces) if told is None else told.env_steps,
            self._policies(pieces),
            {} if told is None else told.played_returns,
        )
        if isinstance(env_runner, Staged):
            record["stage"] = env_runner.stage
        if numbers := last_numbers(pieces, self._agents):
            record["numbers"] = numbers
        assert metrics_logger is not None
        metrics_logger.log_value(EPISODES, record, reduce="item_series")
        self._counters.end_episode(record)
        if self._camera is not None:
            self._camera.episodes += 1

    def close_frames(self, *, finished: bool) -> None:
        if self._camera is not None:
            self._camera.close(finished=finished)
        self._camera = None

    def _policies(self, pieces: Sequence[Any]) -> dict[AgentID, str]:
        """Return the policies that acted: with one agent RLlib uses its own name for the policy."""
        if not hasattr(pieces[0], "agent_episodes"):
            return dict(self._facts["policies"])
        return {str(agent): str(piece.module_for(agent)) for piece in pieces for agent in piece.agent_episodes}


def _add_env_steps(metrics_logger: MetricsLogger, steps: int) -> None:
    """Add steps in which no learner acted to those that RLlib counts itself: its schedules follow them too."""
    metrics_logger.log_value(OTHERS_STEPS, steps, reduce="sum")
    metrics_logger.log_value(NUM_ENV_STEPS_SAMPLED, steps, reduce="sum")
    metrics_logger.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, steps, reduce="lifetime_sum", with_throughput=True)


def close_frames(algorithm: Algorithm, *, finished: bool) -> None:
    """Tell viewers that no more frames will come. Call it before `algorithm.stop()`, which ends the runners."""
    group = algorithm.env_runner_group
    if group is not None:
        group.foreach_env_runner(partial(_close, finished=finished), timeout_seconds=_CLOSE_TIMEOUT_S)


def _close(env_runner: Any, finished: bool) -> None:
    for callback in env_runner._callbacks:
        if isinstance(callback, MosaicCallback):
            callback.close_frames(finished=finished)
