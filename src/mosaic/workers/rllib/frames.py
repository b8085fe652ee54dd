"""How the envs inside an env runner are shown to those who watch the run."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic.core.ids import AgentID
from mosaic.runners.screen import Shot, develop
from mosaic.telemetry.frames.requests import Wish
from mosaic.telemetry.frames.writer import FrameWriter

if TYPE_CHECKING:
    from ray.rllib.env.env_runner import EnvRunner

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_host() -> str:
    """The same in all processes that share memory with this one: a folder that both see does not prove it."""
    return f"{socket.gethostname()} {_BOOT.read_text().strip() if _BOOT.exists() else ''}"


def shows_frames(env_runner: EnvRunner, host: str, folder: Path) -> bool:
    """Exactly one runner of a run: a ring has one writer. That of the driver where it has no others."""
    config = env_runner.config
    chosen = env_runner.worker_index == min(1, config.num_env_runners or 0)
    return chosen and not config.in_evaluation and host == this_host() and folder.is_dir()


class RunnerCamera:
    """`glance` is called after every step: without viewers it costs a microsecond.

    It draws at once, since RLlib steps on as soon as its callback returns.
    """

    def __init__(self, folder: Path, env_runner: EnvRunner, agents: Iterable[AgentID]) -> None:
        self._runner: Any = env_runner  # the two kinds share more than their common class says
        self._agents = tuple(agents)
        self._lane = FrameWriter(folder)  # takes the ring over from whoever wrote it before
        self.steps = 0  # since the driver last told how many there are in all
        self.episodes = 0
        self._told = env_runner.num_env_steps_sampled_lifetime
        self._shown = 0
        self._broken = False

    def glance(self) -> str | None:
        """What the run shall say: an env that cannot be drawn ends the pictures, not the training."""
        if self._broken or not self._lane.wanted():
            return None
        wish = self._lane.wish() or Wish()
        first = min(wish.env, self._runner.num_envs - 1)
        count = max(1, min(wish.grid, self._runner.num_envs - first))
        try:
            developed = develop([self._shoot(index) for index in range(first, first + count)])
        except Exception as error:  # noqa: BLE001 — whatever a stranger's render() raises
            self._broken = True
            return f"No more pictures: drawing env {first} raised {type(error).__name__}: {error}"
        if developed is not None:
            self._lane.publish(developed.rgb, **developed.facts)
        return None

    def close(self, *, finished: bool) -> None:
        self._lane.close(finished)

    def _shoot(self, index: int) -> Shot:
        returns, reward = self._so_far(index)
        return Shot(
            draw=self._runner.env.unwrapped.envs[index].render,
            env=index,
            env_steps=self._step(),
            episode=self.episodes,
            reward=reward,
            returns=returns,
        )

    def _step(self) -> int:
        """Of the whole run, as far as this runner knows; always more than in the picture before."""
        told = self._runner.num_env_steps_sampled_lifetime
        if told != self._told:
            self._told, self.steps = told, 0
        self._shown = max(self._shown + 1, told + self.steps)
        return self._shown

    def _so_far(self, index: int) -> tuple[Mapping[AgentID, float], float]:
        """Returns of the episode, whose earlier pieces RLlib has cut off, and the first agent's last reward."""
        episode = self._runner._ongoing_episodes[index]
        earlier = self._runner._ongoing_episodes_for_metrics.get(episode.id_, ())
        pieces = [returns_of(each, self._agents) for each in (*earlier, episode)]
        total = {agent: sum(piece.get(agent, 0.0) for piece in pieces) for agent in self._agents}
        return total, _last_reward(episode, self._agents[0])


def returns_of(episode: Any, agents: tuple[AgentID, ...]) -> dict[AgentID, float]:
    """Of one piece of an episode, with one agent or with several."""
    if not hasattr(episode, "agent_episodes"):
        return {agents[0]: float(episode.get_return())}
    return {str(agent): float(each.get_return()) for agent, each in episode.agent_episodes.items()}


def _last_reward(episode: Any, agent: AgentID) -> float:
    each = episode.agent_episodes.get(agent) if hasattr(episode, "agent_episodes") else episode
    return float(each.rewards[-1]) if each is not None and len(each) else 0.0
