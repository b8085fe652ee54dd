"""Wrapper that clips rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from mosaic.core.ids import AgentID
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import Env
from mosaic.envs.transform import Transform
from mosaic.envs.wrappers.kind import WrapperKind


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


def _make(env: Env, options: ClipRewardOptions) -> ClipReward:
    return ClipReward(env, clipping(options))


kind = WrapperKind(
    usage="clip_reward[:low=-1,high=1|sign=true]",
    help="Clips the reward of each env step to bounds, or to its sign.",
    make=_make,
    options=ClipRewardOptions,
)
