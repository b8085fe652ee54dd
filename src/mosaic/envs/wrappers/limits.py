"""Wrappers that limit the length of episodes and the size of rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

import numpy as np
from gymnasium.wrappers.utils import create_zero_array
from pydantic import Field, model_validator

from mosaic.core.ids import AgentID
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Observation, Turn
from mosaic.envs.env import Env
from mosaic.envs.wrappers.transform import Transform, WrapperKind


class TimeLimitOptions(Options):
    max_steps: int = Field(ge=1, description="Truncate every living agent after this many env steps.")


class TimeLimit(Transform):
    """Wrapper that truncates all agents of the last env step; `terminated` is unchanged, both may be True.

    The final observation is the agent's last one. In a turn-based game a waiting agent observes nothing in that step:
    its observation of an earlier turn is used, and for an agent that never had a turn the member of its space that is
    nearest to zero.
    """

    passes_actions = True

    def __init__(self, env: Env, max_steps: int) -> None:
        super().__init__(env)
        self.max_steps = max_steps
        self._steps = 0
        self._last: dict[AgentID, Observation] = {}
        self._cut = False

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return () if self._cut else self.env.agents

    def reset(self, seed: int | None = None) -> Turn:
        turn = self.env.reset(seed)
        self._steps, self._cut, self._last = 0, False, dict(turn.observations)
        return turn

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        if self._cut:
            raise RuntimeError("step() after the end of the episode: call reset() first.")
        turn = self.env.step(actions)
        self._steps += 1
        self._last.update(turn.observations)
        self._last.update(turn.final_observations)
        if self._steps < self.max_steps:
            return turn
        self._cut = True
        return self._truncate(turn)

    def _truncate(self, turn: Turn) -> Turn:
        return Turn(
            observations={},
            action_masks={},
            rewards=turn.rewards,
            terminated=turn.terminated,
            truncated=dict.fromkeys(turn.truncated, True),
            final_observations={agent: self._last_look(agent) for agent in turn.truncated},
            infos={**{agent: {} for agent in turn.truncated}, **turn.infos},
        )

    def _last_look(self, agent: AgentID) -> Observation:
        return self._last[agent] if agent in self._last else create_zero_array(self.observation_spaces[agent])


def _make_time_limit(env: Env, options: TimeLimitOptions) -> TimeLimit:
    return TimeLimit(env, options.max_steps)


TIME_LIMIT = WrapperKind(
    usage="time_limit:max_steps=N",
    help="Truncates every living agent after max_steps env steps.",
    make=_make_time_limit,
    options=TimeLimitOptions,
)


class ClipRewardOptions(Options):
    """Bounds of the reward; 0 must stay 0, because waiting and new agents get 0."""

    low: float = Field(-1.0, le=0.0, description="Lower bound of an agent's reward per env step.")
    high: float = Field(1.0, ge=0.0, description="Upper bound of an agent's reward per env step.")
    sign: bool = Field(False, description="Keep only the sign of the reward: -1, 0 or 1.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.sign and {"low", "high"} & self.model_fields_set:
            raise ValueError("'sign' gives -1, 0 or 1: leave 'low' and 'high' out")
        return self


class ClipReward(Transform):
    """Wrapper that clips every agent's reward of each step; a return is then the sum of these."""

    passes_actions = True

    def __init__(self, env: Env, clip: Callable[[float], float]) -> None:
        super().__init__(env)
        self._clip = clip

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        turn = self.env.step(actions)
        return turn._replace(rewards={agent: self._clip(reward) for agent, reward in turn.rewards.items()})


def clipping(options: ClipRewardOptions) -> Callable[[float], float]:
    """Return the clipping function; NaN stays NaN, so that it can be detected."""
    low, high = options.low, options.high
    return (lambda reward: float(np.sign(reward))) if options.sign else (lambda reward: min(max(reward, low), high))


def _make_clip_reward(env: Env, options: ClipRewardOptions) -> ClipReward:
    return ClipReward(env, clipping(options))


CLIP_REWARD = WrapperKind(
    usage="clip_reward[:low=-1,high=1|sign=true]",
    help="Clips the reward of each env step to bounds, or to its sign.",
    make=_make_clip_reward,
    options=ClipRewardOptions,
)
