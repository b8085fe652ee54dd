"""Random legal actions for a check."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from random import Random
from typing import Any

from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.ids import AgentID
from mosaic.core.lazy_dict import Lookup
from mosaic.core.turn import Action, Mask, Turn
from mosaic.envs.codes import draw_legal
from mosaic.envs.spaces import parts_of


class Sampler:
    """Draws from private copies of the spaces: the env's own may be shared, and sampling changes them."""

    def __init__(self, action_spaces: Mapping[AgentID, Space[Any]], seed: int) -> None:
        self._random = Random(seed)
        self._spaces: Lookup[AgentID, Space[Any]] = Lookup(lambda agent: self._private(action_spaces[agent]))

    def draw(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._draw(self._spaces[agent], turn.action_masks.get(agent)) for agent in turn.observations}

    def _private(self, space: Space[Any]) -> Space[Any]:
        copy = deepcopy(space)
        copy.seed(self._random.getrandbits(31))
        return copy

    def _draw(self, space: Space[Any], mask: Mask | None) -> Action:
        if not isinstance(space, spaces.Discrete):
            code = None if mask is None else parts_of(space)
            return space.sample() if mask is None or code is None else draw_legal(code, mask, self._random.choice)
        choices = range(int(space.n)) if mask is None else mask.nonzero()[0]
        return int(space.start) + int(self._random.choice(choices))
