"""Adapters from PettingZoo envs, AEC and Parallel, to Mosaic's Env."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import wrappers
from pettingzoo.utils.conversions import aec_to_parallel_wrapper

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.seeding import SEED_LIMIT
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.adapters.gymnasium import as_reward
from mosaic.envs.adapters.upstream import NO_REPAIRS, Flags, Repairs, UpstreamEnv, keep_pygame, quiet
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.envs.spaces import inner_space, kept, mask_reader, split, unkept

_NONE: dict[AgentID, NoReturn] = {}
_Info: TypeAlias = Mapping[str, object]
_First: TypeAlias = tuple[Mapping[AgentID, Observation], Mapping[AgentID, _Info]]  # of reset; None for AEC envs
# These wrappers check actions and pass every attribute through; reading below them saves 0.5-1 µs per attribute.
_TRANSPARENT = (
    wrappers.OrderEnforcingWrapper,
    wrappers.AssertOutOfBoundsWrapper,
    wrappers.ClipOutOfBoundsWrapper,
    wrappers.TerminateIllegalWrapper,
)


def from_pettingzoo(
    env: AECEnv[AgentID, Observation, Action] | ParallelEnv[AgentID, Observation, Action],
    facts: EnvFacts | None = None,
    repairs: Repairs = NO_REPAIRS,
    *,
    aliases: bool = True,
) -> ParallelAdapter | AECAdapter:
    """Return the matching adapter; `aliases=False` promises that the env never reuses an observation's buffer."""
    if type(env) is aec_to_parallel_wrapper:
        return CycleAdapter(env, facts, repairs, aliases)
    kind = ParallelAdapter if isinstance(env, ParallelEnv) else AECAdapter
    return kind(env, facts, repairs, aliases)


class _PettingZooEnv:
    def __init__(self, env: UpstreamEnv, facts: EnvFacts | None, repairs: Repairs, aliases: bool) -> None:
        self.env = env
        self.possible_agents: tuple[AgentID, ...] = tuple(_named(getattr(env, "possible_agents", ())))
        self.observation_spaces = Lookup(lambda a: inner_space(env.observation_space(a)), self.possible_agents)
        self.action_spaces = Lookup(env.action_space, self.possible_agents)
        self.spec = EnvSpec(facts or EnvFacts(), self.possible_agents, self.observation_spaces, self.action_spaces)
        self._mask_readers: Lookup[AgentID, Callable[[Observation], Mask]] = Lookup(
            lambda a: mask_reader(self.action_spaces[a])
        )
        self._acting: tuple[AgentID, ...] = ()
        self._repairs = repairs
        self._keep = kept if aliases else unkept
        self._stream = Random(0)

    def _reset(self, seed: int | None, state: UpstreamEnv) -> _First:
        if self._repairs.own_stream:
            if seed is None:
                seed = self._stream.randrange(SEED_LIMIT)
            else:
                self._stream.seed(seed)
        answer: _First = self.env.reset(seed=seed)
        if not self.possible_agents:  # without possible_agents, a name may mean another agent in each episode
            self.observation_spaces.clear()
            self.action_spaces.clear()
            self._mask_readers.clear()
        if self._repairs.after_reset:
            self._repairs.after_reset(state)
        return answer

    def _check(self, actions: Mapping[AgentID, Action]) -> None:
        if not self._acting:
            raise RuntimeError("step() after the end of the episode: call reset() first.")
        if len(actions) != len(self._acting) or not all(agent in actions for agent in self._acting):
            raise ValueError(f"Actions for {sorted(actions)}, but {sorted(self._acting)} must act.")

    def render(self) -> NDArray[np.uint8] | None:
        if getattr(self.env, "render_mode", None) is None:
            return None
        with quiet():
            picture = self.env.render()
        return None if picture is None else np.ascontiguousarray(picture)

    def close(self) -> None:
        with keep_pygame():
            self.env.close()


class ParallelAdapter(_PettingZooEnv):
    """Adapter of Parallel envs: every living agent acts in every step."""

    _last: Mapping[AgentID, Observation] = _NONE

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return self._acting

    def reset(self, seed: int | None = None) -> Turn:
        observations, infos = self._reset(seed, self.env)
        alive = dict.fromkeys(_named(self.env.agents), False)
        observations = {agent: observations[agent] for agent in alive}
        return self._turn(observations, dict.fromkeys(alive, 0.0), alive, alive, infos)

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        self._check(actions)
        observations, rewards, terminated, truncated, infos = self.env.step(dict(actions))
        # other keys ("common", "__all__") are not agents
        agents = dict.fromkeys((*self._acting, *_named(self.env.agents)))
        rewards = {agent: as_reward(rewards.get(agent, 0.0)) for agent in agents}
        terminated = {agent: bool(terminated.get(agent, False)) for agent in agents}
        truncated = {agent: bool(truncated.get(agent, False)) for agent in agents}
        # if the env returns no observation for a dead agent, its last one is used
        observations = {agent: observations.get(agent, self._last.get(agent)) for agent in agents}
        for agent in agents.keys() - set(self.env.agents):
            if not (terminated[agent] or truncated[agent]):
                raise MosaicError(f"Agent '{agent}' left {self.spec.env_id} neither terminated nor truncated.")
        return self._turn(observations, rewards, terminated, truncated, infos)

    def _turn(
        self,
        observations: Mapping[AgentID, Observation],
        rewards: Mapping[AgentID, float],
        terminated: Flags,
        truncated: Flags,
        infos: Mapping[AgentID, _Info],
    ) -> Turn:
        now, masks, finals, told = {}, {}, {}, {}
        for agent, seen in observations.items():
            info = told[agent] = infos.get(agent, _NONE)
            observation, mask = split(seen, info, self._mask_readers[agent])
            observation = self._keep(observation)
            if terminated[agent] or truncated[agent]:
                finals[agent] = observation
                continue
            now[agent] = observation
            if mask is not None:
                masks[agent] = mask
        self._acting, self._last = tuple(now), now
        return Turn(now, masks, rewards, terminated, truncated, finals, told)


class CycleAdapter(ParallelAdapter):
    """Adapter of AEC envs whose agents act in rounds: PettingZoo's conversion without its redundant observations."""

    def __init__(self, env: UpstreamEnv, facts: EnvFacts | None, repairs: Repairs, aliases: bool) -> None:
        super().__init__(env, facts, repairs, aliases)
        self._aec, self._state = env.aec_env, _state_of(env.aec_env)

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        self._check(actions)
        aec, state = self._aec, self._state
        rewards = dict.fromkeys(self._acting, 0.0)
        for agent in self._acting:
            if agent != state.agent_selection:
                raise MosaicError(
                    f"{self.spec.env_id} selected '{state.agent_selection}' where it was the turn of '{agent}'."
                )
            aec.step(actions[agent])
            for other, reward in state.rewards.items():
                rewards[other] += as_reward(reward)
        ends = self._repairs.ends
        terminations, truncations = ends(state) if ends else (state.terminations, state.truncations)
        terminated = {agent: bool(flag) for agent, flag in terminations.items()}
        truncated = {agent: bool(flag) for agent, flag in truncations.items()}
        infos, observations = dict(state.infos), {agent: aec.observe(agent) for agent in state.agents}
        while state.agents and (terminated[state.agent_selection] or truncated[state.agent_selection]):
            aec.step(None)
        return self._turn(observations, rewards, terminated, truncated, infos)


class AECAdapter(_PettingZooEnv):
    """Adapter of AEC envs: one agent acts in each step; dead steps are handled here and never visible outside."""

    def __init__(self, env: UpstreamEnv, facts: EnvFacts | None, repairs: Repairs, aliases: bool) -> None:
        super().__init__(env, facts, repairs, aliases)
        self._state = _state_of(env)
        self._ended: set[AgentID] = set()

    @property
    def agents(self) -> tuple[AgentID, ...]:
        if not self._acting:  # before the first reset some envs have no such list
            return ()
        return tuple(agent for agent in self._state.agents if agent not in self._ended)

    def reset(self, seed: int | None = None) -> Turn:
        self._reset(seed, self._state)
        self._ended.clear()
        return self._turn()

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        self._check(actions)
        self.env.step(actions[self._acting[0]])
        return self._turn()

    def _turn(self) -> Turn:
        env, state, ended, repairs = self.env, self._state, self._ended, self._repairs
        terminations, truncations = repairs.ends(state) if repairs.ends else (state.terminations, state.truncations)
        rewards, terminated, truncated, finals, infos = {}, {}, {}, {}, {}
        for agent, reward in state.rewards.items():
            if agent in ended:  # reported before; only its dead step is left
                continue
            rewards[agent] = as_reward(reward)  # of this step; `last()` would sum rewards since the agent's own turn
            terminated[agent], truncated[agent] = bool(terminations[agent]), bool(truncations[agent])
            if terminated[agent] or truncated[agent]:
                infos[agent] = state.infos[agent]
                finals[agent] = self._keep(split(env.observe(agent), _NONE, self._mask_readers[agent])[0])
        ended.update(finals)
        while state.agents and state.agent_selection in ended:
            env.step(None)
        if not state.agents:
            self._acting = ()
            return Turn(_NONE, _NONE, rewards, terminated, truncated, finals, infos)
        agent = state.agent_selection
        self._acting = (agent,)
        infos[agent] = {**state.infos[agent], **repairs.inform(state)} if repairs.inform else state.infos[agent]
        observation, mask = split(env.observe(agent), infos[agent], self._mask_readers[agent])
        masks = _NONE if mask is None else {agent: mask}
        return Turn({agent: self._keep(observation)}, masks, rewards, terminated, truncated, finals, infos)


def _state_of(env: UpstreamEnv) -> UpstreamEnv:
    """Return the object from which agents, rewards, terminations … of an AEC env are read."""
    while type(env) in _TRANSPARENT:
        env = env.env
    return env


def _named(agents: Iterable[object]) -> Iterable[AgentID]:
    for agent in agents:
        if not isinstance(agent, str):
            raise MosaicError(f"The env calls an agent {agent!r}; Mosaic needs agents whose names are text.")
        yield agent
