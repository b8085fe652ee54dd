"""A table of action values in an agent's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.policies.controller import Explanation


class TabularPolicyController:
    """Plays the best legal action of the state that an observation is; equally good ones by its own seed."""

    def __init__(
        self,
        values: NDArray[Any],
        state_of: Callable[[Observation], int],
        action_of: Callable[[int], Action],
        legal_of: Callable[[Mask], Mask] | None = None,
    ) -> None:
        """`state_of` and `action_of` translate between the env's spaces and the table's rows and columns.

        `legal_of` turns a mask into a flag for each column, where actions have several parts.
        """
        self._legal_of = legal_of
        self._values, self._state_of, self._action_of = values, state_of, action_of
        self._random = Random(0)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._random.seed(seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._action_of(self._random.choice(best)) for agent, best, _ in self._judged(turn)}

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        return {agent: _explanation(best, row) for agent, best, row in self._judged(turn)}

    def _judged(self, turn: Turn) -> Iterator[tuple[AgentID, list[int], NDArray[Any]]]:
        """The best legal actions of each agent, and the values of all."""
        for agent, observation in turn.observations.items():
            row = self._values[self._state_of(observation)]
            mask = turn.action_masks.get(agent)
            if mask is not None and self._legal_of is not None:
                mask = self._legal_of(mask)
            shown = row if mask is None else np.where(mask, row, -np.inf)
            yield agent, np.flatnonzero(shown == shown.max()).tolist(), row

    def close(self) -> None:
        pass


def _explanation(best: list[int], row: NDArray[Any]) -> Explanation:
    probabilities = np.zeros(len(row))
    probabilities[best] = 1.0 / len(best)
    return Explanation(probabilities, float(row[best[0]]))
