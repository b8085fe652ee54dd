"""The face that every environment shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import AgentID, EnvID
from mosaic.core.turn import Action, Turn


@dataclass(frozen=True, slots=True)
class EnvFacts:
    """What an env cannot say of itself and its family knows."""

    config: EnvironmentConfig = field(default_factory=lambda: EnvironmentConfig(family="python", env_id="unnamed"))
    turn_based: bool = False
    competitive: bool = False  # somebody wins: returns become win, draw or loss
    win_above: float = -math.inf  # a return that does not exceed this wins nothing
    reproducible: bool = True  # the same seed gives the same Turns, bit by bit
    hidden_information: bool = False  # agents do not see all that matters: poker, rock-paper-scissors
    has_chance: bool = True  # False: a seed changes nothing, equal policies play one game again and again

    @property
    def mixed(self) -> bool:
        """Whether good play may have to be random: moves of opponents are simultaneous, or something is hidden."""
        return self.hidden_information or (self.competitive and not self.turn_based)


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """What anybody may know of an env before playing: policies are made from it."""

    facts: EnvFacts
    possible_agents: tuple[AgentID, ...]  # () where the env cannot name them ahead
    observation_spaces: Mapping[AgentID, Space[Any]]  # without the mask
    action_spaces: Mapping[AgentID, Space[Any]]

    @property
    def env_id(self) -> EnvID:
        return self.facts.config.id


class Env(Protocol):
    """One face for single-agent, turn-based and simultaneous environments."""

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def possible_agents(self) -> tuple[AgentID, ...]: ...

    @property
    def agents(self) -> tuple[AgentID, ...]: ...  # who lives now

    @property
    def observation_spaces(self) -> Mapping[AgentID, Space[Any]]: ...

    @property
    def action_spaces(self) -> Mapping[AgentID, Space[Any]]: ...

    def reset(self, seed: int | None = None) -> Turn: ...  # None: go on with the env's own stream

    def step(self, actions: Mapping[AgentID, Action]) -> Turn: ...  # exactly the agents of turn.observations

    def render(self) -> NDArray[np.uint8] | None: ...  # valid from reset to close; None where there is no picture

    def close(self) -> None: ...  # twice is fine; nothing after it
