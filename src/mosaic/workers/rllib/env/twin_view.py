"""RLlib's view of the envs of a compiled vector, which are never stepped one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import AgentID
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.workers.rllib.config.setup import EnvSettings
from mosaic.workers.rllib.env.encoding import OBSERVATION, STATE, EncodedView

Rows: TypeAlias = NDArray[np.float32] | dict[str, NDArray[np.float32]]  # [times or envs, agents, width]


class TwinView(MultiAgentEnv):
    """One env of the vector: its agents, its spaces and its picture."""

    def __init__(
        self,
        vector: CompiledVector,
        index: int,
        spaces: tuple[Mapping[AgentID, Space[object]], Mapping[AgentID, Space[object]]],
        state: bool,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._vector, self._index, self._state = vector, index, state
        self.widths, self.names = vector.shape.widths, vector.shape.agents
        self.shown_spaces, self.chosen_spaces = spaces
        self.possible_agents = list(vector.shape.agents)
        self.agents = list(vector.shape.agents)
        self.observation_spaces = {agent: spaces[0][agent] for agent in vector.shape.agents}
        self.action_spaces = {agent: spaces[1][agent] for agent in vector.shape.agents}
        self.render_mode = "rgb_array"

    def groups(self, module_of: Callable[[AgentID], str]) -> dict[str, list[int]]:
        """Return the agents of each module, by index."""
        found: dict[str, list[int]] = {}
        for number, agent in enumerate(self._vector.shape.agents):
            found.setdefault(module_of(agent), []).append(number)
        return found

    def rows(self, shown: NDArray[np.float32], agents: Sequence[int]) -> Rows:
        """Return the observations of these agents, [times or envs, agents, width], with the state if there is one."""
        own = np.ascontiguousarray(shown[:, agents, : self.widths[agents[0]]])
        if not self._state:
            return own
        return {OBSERVATION: own, STATE: np.ascontiguousarray(self._states(shown)[:, agents])}

    def _states(self, shown: NDArray[np.float32]) -> NDArray[np.float32]:
        together = np.concatenate([shown[:, k, :width] for k, width in enumerate(self.widths)], axis=1)
        count = len(self.widths)
        who = np.broadcast_to(np.eye(count, dtype=np.float32), (len(shown), count, count))
        everybody = np.broadcast_to(together[:, np.newaxis], (len(shown), count, together.shape[1]))
        return np.concatenate((everybody, who), axis=2)

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        return self._vector.render(self._index)

    def close(self) -> None:
        self._vector.close()


def make_views(config: EnvSettings, vector: CompiledVector) -> list[TwinView]:
    """Return a view of each env, with the spaces that the env itself would have."""
    state = bool(config.get("state", False))
    env = make_env(EnvironmentConfig.model_validate(config["environment"]))
    view = EncodedView(env, vector.shape.agents, {}, state=state)
    try:
        spaces = view.observation_spaces, view.action_spaces
        return [TwinView(vector, index, spaces, state) for index in range(vector.shape.envs)]
    finally:
        view.close()


class _Part:
    """Rewards of one agent since the episode, or this piece of it, began."""

    def __init__(self, rewards: Sequence[float]) -> None:
        self.rewards = rewards

    def get_return(self) -> float:
        return sum(self.rewards)

    def __len__(self) -> int:
        return len(self.rewards)


class Stepped(Protocol):
    """Step of all envs, as running episodes read it."""

    @property
    def over(self) -> NDArray[np.bool_]: ...

    @property
    def rewards(self) -> NDArray[np.float32]: ...


class RunningTwinEpisode:
    """Running episode, for callbacks: RLlib's own is created when it is cut out."""

    def __init__(self, name: str, env: int, started: int, agents: Sequence[AgentID], steps: Sequence[Stepped]) -> None:
        self.name, self.started = name, started
        self._env, self._agents, self._steps = env, agents, steps

    @property
    def id_(self) -> str:
        """ID of the episode, which changes when it has ended and the next one follows in the same env."""
        ends = sum(bool(step.over[self._env]) for step in self._steps[:-1])
        return f"{self.name}+{ends}" if ends else self.name

    @property
    def agent_episodes(self) -> dict[AgentID, _Part]:
        since: list[NDArray[np.float32]] = []
        for step in reversed(self._steps):
            if step.over[self._env] and since:
                break
            since.append(step.rewards[self._env])
        return {agent: _Part([float(paid[k]) for paid in reversed(since)]) for k, agent in enumerate(self._agents)}
