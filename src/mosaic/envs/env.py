"""The environment protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig, Incentives
from mosaic.core.ids import AgentID, EnvID
from mosaic.core.turn import Action, Turn

ActionParts: TypeAlias = tuple[tuple[str, int], ...]  # "continuous" or "discrete", and how many numbers of the Box


@dataclass(frozen=True, slots=True)
class EnvFacts:
    """Properties that an env does not expose itself but its family knows."""

    config: EnvironmentConfig = field(default_factory=lambda: EnvironmentConfig(family="python", env_id="unnamed"))
    turn_based: bool = False
    competitive: bool = False  # there are winners: returns become win, draw or loss
    win_above: float = -math.inf  # a return that does not exceed this is not a win
    reproducible: bool = True  # the same seed gives the same Turns, bit for bit
    hidden_information: bool = False  # agents do not observe everything that matters: poker, rock-paper-scissors
    has_chance: bool = True  # False: a seed changes nothing, equal policies always play the same game
    incentives: Incentives = "unknown"
    shared_reward: bool | None = None  # all agents get the same reward in every step; None: not declared
    policy_names: Mapping[AgentID, str] = field(default_factory=dict)  # policies that the env itself names; or none
    usual_envs: int | None = None  # at once, where the user asks for no number; None lets the worker choose
    max_envs: int | None = None  # at once
    action_parts: Mapping[AgentID, ActionParts] = field(default_factory=dict)  # of a Box that stands for several
    advice: str = ""  # for the user, at the end of a check and before a run

    @property
    def mixed(self) -> bool:
        """Return whether good play may have to be random: opponents move simultaneously, or hide something."""
        opponents_hide = self.hidden_information and self.incentives != "cooperative"
        return opponents_hide or (self.competitive and not self.turn_based)


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """Properties of an env that are known before playing; policies are made from them."""

    facts: EnvFacts
    possible_agents: tuple[AgentID, ...]  # () if the env cannot name them ahead
    observation_spaces: Mapping[AgentID, Space[object]]  # without the mask
    action_spaces: Mapping[AgentID, Space[object]]

    @property
    def env_id(self) -> EnvID:
        return self.facts.config.id

    @property
    def incentives(self) -> Incentives:
        """Return what was declared; an env with one agent is single, and one with winners competitive."""
        if len(self.possible_agents) == 1:
            return "single"
        if self.facts.incentives == "unknown" and self.facts.competitive:
            return "competitive"
        return self.facts.incentives


@runtime_checkable
class SendsAhead(Protocol):
    """Env that computes a step elsewhere: after `send`, `step` with the same mapping only waits for the result."""

    def send(self, actions: Mapping[AgentID, Action]) -> None: ...


@runtime_checkable
class EndsAhead(Protocol):
    """Env that ends elsewhere: after `begin_end`, `close` only waits for it."""

    def begin_end(self) -> None: ...


class Env(Protocol):
    """Common protocol of single-agent, turn-based and simultaneous environments."""

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def possible_agents(self) -> tuple[AgentID, ...]: ...

    @property
    def agents(self) -> tuple[AgentID, ...]: ...  # the living agents

    @property
    def observation_spaces(self) -> Mapping[AgentID, Space[object]]: ...

    @property
    def action_spaces(self) -> Mapping[AgentID, Space[object]]: ...

    def reset(self, seed: int | None = None) -> Turn: ...  # None: continue with the env's own random stream

    def step(self, actions: Mapping[AgentID, Action]) -> Turn: ...  # exactly the agents of turn.observations

    def render(self) -> NDArray[np.uint8] | None: ...  # valid from reset to close; None if there is no image

    def close(self) -> None: ...  # may be called twice; no other call may follow


def innermost(env: Env) -> Any:
    """Return the env below all wrappers, which is not typed."""
    raw: Any = env
    while hasattr(raw, "env"):
        raw = raw.env
    return getattr(raw, "unwrapped", raw)
