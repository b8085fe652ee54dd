"""Policy from a table of action values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.codes import SpaceCode
from mosaic.policies.controller import Explanation


class TabularPolicyController:
    """Controller that plays the best legal action of the observed state; ties are broken by its own seed.

    With `epsilon`, this fraction of actions is drawn uniformly from the legal ones. With `temperature`, actions are
    drawn by the softmax of their values.
    """

    def __init__(
        self,
        values: NDArray[np.floating],
        state_of: Callable[[Observation], int],
        action_of: Callable[[int], Action],
        legal_of: Callable[[Mask], Mask] | None = None,
        *,
        epsilon: float = 0.0,
        temperature: float | None = None,
    ) -> None:
        """Create the controller of a table.

        `state_of` and `action_of` translate between the env's spaces and the table's rows and columns. `legal_of` turns
        a mask into a flag for each column, where actions have several parts.
        """
        self._legal_of = legal_of
        self._values, self._state_of, self._action_of = values, state_of, action_of
        self._epsilon, self._temperature = epsilon, temperature
        self._random = Random(0)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._random.seed(seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._action_of(self._choose(shown)) for agent, shown in self._judged(turn)}

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        return {
            agent: Explanation(self._probabilities(shown), float(shown.max())) for agent, shown in self._judged(turn)
        }

    @property
    def values(self) -> NDArray[np.floating]:
        return self._values

    def row_of(self, observation: Observation) -> NDArray[np.floating]:
        """Return the values of the actions in an observation; of a new state where it cannot be one."""
        try:
            return np.asarray(self._values[self._state_of(observation)])
        except (InputError, IndexError):
            return np.zeros(self._values.shape[1], self._values.dtype)

    def numbered_by(self, code: SpaceCode) -> bool:
        """Return whether rows have the numbers that this code gives observations."""
        own = getattr(self._state_of, "__self__", None)
        same = isinstance(own, type(code)) and own.space == code.space and own.counts == code.counts
        return same and len(self._values) == code.size

    def _judged(self, turn: Turn) -> Iterator[tuple[AgentID, NDArray[np.floating]]]:
        """Yield each agent with the values of its actions; illegal ones are -inf."""
        for agent, observation in turn.observations.items():
            row = self._values[self._state_of(observation)]
            mask = turn.action_masks.get(agent)
            if mask is not None and self._legal_of is not None:
                mask = self._legal_of(mask)
            yield agent, row if mask is None else np.where(mask, row, -np.inf)

    def _choose(self, shown: NDArray[np.floating]) -> int:
        if self._temperature is not None:
            shares = self._probabilities(shown)
            return self._random.choices(range(len(shares)), shares.tolist())[0]
        if self._epsilon and self._random.random() < self._epsilon:
            return self._random.choice(np.flatnonzero(shown > -np.inf).tolist())
        return self._random.choice(np.flatnonzero(shown == shown.max()).tolist())

    def _probabilities(self, shown: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the probability of each action."""
        values = shown.astype(np.float64)
        if self._temperature is not None:
            shares = np.exp((values - values.max()) / self._temperature)
            return np.asarray(shares / shares.sum())
        best, legal = values == values.max(), values > -np.inf
        return np.asarray((1 - self._epsilon) * best / best.sum() + self._epsilon * legal / legal.sum())

    def close(self) -> None:
        pass
