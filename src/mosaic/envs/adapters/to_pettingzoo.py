"""Adapters from Mosaic's Env to PettingZoo's AEC and Parallel APIs, for code that expects PettingZoo envs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from gymnasium.vector.utils import create_empty_array
from numpy.typing import NDArray
from pettingzoo import AECEnv, ParallelEnv

from mosaic.config.sections import split_id
from mosaic.core.errors import MosaicError, unknown
from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.envs.objects import Environment
from mosaic.envs.spaces import MASK


class _View:
    """Spaces and the last observation of each agent: PettingZoo needs an observation of every agent at any time.

    `masked` puts masks into the observations: {"observation", "action_mask"}. None decides by the first Turn of an
    episode that is started for this alone. `name` is the env's name in PettingZoo's tests, without its family.
    """

    def __init__(self, env: Env, name: str | None = None, *, masked: bool | None = None) -> None:
        self.env = env
        if env.possible_agents:  # PettingZoo envs without a fixed list of agents lack the attribute
            self.possible_agents = list(env.possible_agents)
        self.agents: list[AgentID] = []
        self.metadata = {
            "name": name or split_id(env.spec.env_id)[1],
            "render_modes": ["rgb_array"],
            "is_parallelizable": not env.spec.facts.turn_based,
        }
        self.render_mode = "rgb_array"
        self._masked = bool(env.reset().action_masks) if masked is None else masked
        self._spaces: Lookup[AgentID, Space[object]] = Lookup(self._outer, env.possible_agents)
        self._seen: dict[AgentID, Observation] = {}

    def observation_space(self, agent: AgentID) -> Space[object]:
        return self._spaces[agent]

    def action_space(self, agent: AgentID) -> Space[object]:
        return self.env.action_spaces[agent]

    def observe(self, agent: AgentID) -> Observation:
        return self._seen[agent]

    def render(self) -> NDArray[np.uint8] | None:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def _outer(self, agent: AgentID) -> Space[object]:
        inner, action = self.env.observation_spaces[agent], self.env.action_spaces[agent]
        if not (self._masked and isinstance(action, spaces.Discrete)):
            return inner
        return spaces.Dict({"observation": inner, MASK: spaces.Box(0, 1, (int(action.n),), np.int8)})

    def _look(self, turn: Turn) -> None:
        """Store the observation of each agent: current, final, or else the earlier one with no legal actions."""
        for agent in turn.rewards:
            if agent in turn.observations:
                self._seen[agent] = self._with_mask(agent, turn.observations[agent], turn.action_masks.get(agent), 1)
            elif agent in turn.final_observations:
                self._seen[agent] = self._with_mask(agent, turn.final_observations[agent], None, 0)
            elif agent not in self._seen:
                blank = create_empty_array(self.env.observation_spaces[agent], n=1, fn=np.zeros)
                self._seen[agent] = self._with_mask(agent, _first(blank), None, 0)
            elif self._has_mask(agent):
                self._seen[agent] = self._with_mask(agent, self._seen[agent]["observation"], None, 0)

    def _has_mask(self, agent: AgentID) -> bool:
        return self._spaces[agent] is not self.env.observation_spaces[agent]

    def _with_mask(self, agent: AgentID, observation: Observation, mask: Mask | None, default: int) -> Observation:
        inner, action = self.env.observation_spaces[agent], self.env.action_spaces[agent]
        if isinstance(inner, spaces.Discrete):
            observation = np.asarray(observation, inner.dtype)[()]  # PettingZoo's tests read the dtype of numbers
        if not self._has_mask(agent) or not isinstance(action, spaces.Discrete):
            if mask is not None:
                raise MosaicError(
                    f"{self.env.spec.env_id} restricts the actions of '{agent}', which it did not do at first: "
                    "pass masked=True."
                )
            return observation
        legal = np.full(int(action.n), default, np.int8) if mask is None else mask.astype(np.int8)
        return {"observation": observation, MASK: legal}


def _first(batch: Observation) -> Observation:
    if isinstance(batch, dict):
        return {key: _first(part) for key, part in batch.items()}
    return tuple(map(_first, batch)) if isinstance(batch, tuple) else batch[0]


def _infos(turn: Turn) -> dict[AgentID, dict[str, object]]:
    return {agent: dict(turn.infos.get(agent, {})) for agent in turn.rewards}


class AsParallel(_View, ParallelEnv[AgentID, Observation, Action]):  # type: ignore[misc]
    """Parallel env: all living agents act at once; in a turn-based game the actions of waiting agents are ignored."""

    def reset(
        self, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[dict[AgentID, Observation], dict[AgentID, dict[str, object]]]:
        turn = self._turn = self.env.reset(seed)
        self._seen.clear()
        self._look(turn)
        self.agents = list(turn.rewards)
        return dict(self._seen), _infos(turn)

    def step(
        self, actions: Mapping[AgentID, Action]
    ) -> tuple[
        dict[AgentID, Observation],
        dict[AgentID, float],
        dict[AgentID, bool],
        dict[AgentID, bool],
        dict[AgentID, dict[str, object]],
    ]:
        asked = self._turn.observations
        turn = self._turn = self.env.step({agent: action for agent, action in actions.items() if agent in asked})
        self._look(turn)
        self.agents = [agent for agent in turn.rewards if not turn.ended(agent)]
        observations = {agent: self._seen[agent] for agent in turn.rewards}
        return observations, dict(turn.rewards), dict(turn.terminated), dict(turn.truncated), _infos(turn)


class AsAEC(_View, AECEnv[AgentID, Observation, Action]):  # type: ignore[misc]
    """AEC env: the agents of one Turn act one after the other in its order, and the env steps after the last."""

    agent_selection: AgentID

    def reset(self, seed: int | None = None, options: Mapping[str, object] | None = None) -> None:
        self._seen.clear()
        self._cumulative_rewards: dict[AgentID, float] = {}
        self._take(self.env.reset(seed))

    def step(self, action: Action) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._chosen[agent] = action
        self._waiting.remove(agent)
        if self._waiting:
            self._clear_rewards()
            self.agent_selection = self._waiting[0]
        else:
            self._take(self.env.step(self._chosen))

    def _take(self, turn: Turn) -> None:
        self.agents = list(turn.rewards)
        self.rewards, self.infos = dict(turn.rewards), _infos(turn)
        self.terminations, self.truncations = dict(turn.terminated), dict(turn.truncated)
        self._cumulative_rewards = {agent: self._cumulative_rewards.get(agent, 0.0) for agent in self.agents}
        self._accumulate_rewards()
        self._look(turn)
        self._waiting = list(turn.observations)
        self._chosen: dict[AgentID, Action] = {}
        self.agent_selection = self._waiting[0] if self._waiting else self.agents[0]
        self._deads_step_first()


def as_pettingzoo(
    env: Environment, api: Literal["aec", "parallel"] | None = None, *, masked: bool | None = None
) -> AsAEC | AsParallel:
    """Return the env as a PettingZoo env: AEC if agents take turns, Parallel if they act together.

    `env` is anything `make_env` takes, or an Env. `api` selects one of the two. With `masked`, observations hold their
    action mask as in PettingZoo's classic games: {"observation", "action_mask"}; by default, the first turn decides.
    """
    if api not in (None, "aec", "parallel"):
        raise unknown("PettingZoo API", api, ("aec", "parallel"))
    made = make_env(env)
    view = AsAEC if api == "aec" or (api is None and made.spec.facts.turn_based) else AsParallel
    return view(made, masked=masked)
