"""Policies of one's own: a function of (observation, mask), or a factory of (spec, agent, seed).

mosaic evaluate gym/CartPole-v1 --agent '*=python:examples.policies:balance'
mosaic evaluate classic/tictactoe_v3 --agent player_1=python:examples.policies:Careful --agent player_2=random
"""

from __future__ import annotations

from random import Random
from typing import Any

from mosaic.plugins import Action, AgentID, EnvSpec, Mask, Observation, Turn


def balance(observation: Observation, mask: Mask | None) -> int:
    """Push the cart to the side to which the pole falls: enough to balance it for long."""
    _, velocity, angle, spin = observation
    return int(angle + 0.3 * spin + 0.02 * velocity > 0)


class Careful:
    """Wins tic-tac-toe when it can, parries when it must, and else plays at random."""

    LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))

    def __init__(self, spec: EnvSpec, agent: AgentID, seed: int) -> None:
        self._random = Random(seed)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._random.seed(seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._choose(board, turn.action_masks[agent]) for agent, board in turn.observations.items()}

    def _choose(self, board: Any, mask: Mask) -> int:
        # the mover's pieces come first
        mine, theirs = (board[:, :, side].ravel() for side in (0, 1))
        for pieces in (mine, theirs):
            for line in self.LINES:
                free = [cell for cell in line if mask[cell]]
                if len(free) == 1 and sum(pieces[cell] for cell in line) == 2:
                    return free[0]
        return int(self._random.choice(mask.nonzero()[0]))

    def close(self) -> None:
        pass
