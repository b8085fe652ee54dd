"""Mosaic's own tic-tac-toe: the array game as an Env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.compiled.board_games.tictactoe import (
    CELLS,
    IllegalMoves,
    cells_of,
    observation_of,
    swapped,
    tictactoe_game,
)
from mosaic.envs.env import EnvFacts, EnvSpec

AGENTS: tuple[AgentID, AgentID] = ("player_1", "player_2")
_NONE: dict[AgentID, Any] = {}


class TicTacToeEnv:
    """Tic-tac-toe with agents, observations and cell numbers as in PettingZoo's tictactoe_v3.

    `illegal="lost"`: nothing is masked, and a player that chooses a taken cell loses: −1, and +1 for the other.
    """

    def __init__(self, facts: EnvFacts | None = None, illegal: IllegalMoves = "masked") -> None:
        self.possible_agents: tuple[AgentID, ...] = AGENTS
        self.observation_spaces: dict[AgentID, Space[Any]] = {
            agent: spaces.Box(0, 1, (3, 3, 2), np.int8) for agent in AGENTS
        }
        self.action_spaces: dict[AgentID, Space[Any]] = {agent: spaces.Discrete(CELLS) for agent in AGENTS}
        facts = facts or EnvFacts(turn_based=True, competitive=True, has_chance=False)
        self.spec = EnvSpec(facts, AGENTS, self.observation_spaces, self.action_spaces)
        self._game = tictactoe_game(illegal)
        self._masked = illegal == "masked"
        self._position, self._mover, self._over = self._game.start, 0, True

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return () if self._over else AGENTS

    def reset(self, seed: int | None = None) -> Turn:
        self._position, self._mover, self._over = self._game.start, 0, False
        return self._turn(dict.fromkeys(AGENTS, 0.0))

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        if self._over:
            raise RuntimeError("step() after the end of the episode: call reset() first.")
        mover, waiting = AGENTS[self._mover], AGENTS[1 - self._mover]
        if len(actions) != 1 or mover not in actions:
            raise ValueError(f"Actions for {sorted(actions)}, but ['{mover}'] must act.")
        game, position, action = self._game, self._position, actions[mover]
        if not 0 <= action < CELLS or not game.legal[position, action]:
            raise ValueError(f"The cell {action} is taken or does not exist.")
        reward = float(game.reward[position, action])
        self._over = bool(game.over[position, action])
        self._position, self._mover = int(game.next_state[position, action]), 1 - self._mover
        return self._turn({mover: reward, waiting: 0.0 - reward})

    def load(self, position: int, mover: int) -> None:
        """Continue from a position that is not over, from the view of `mover` (0 or 1)."""
        self._position, self._mover, self._over = position, mover, False

    @property
    def marks(self) -> NDArray[np.int64]:
        """Return 1 for X, 2 for O and 0 for each free cell, down the columns."""
        cells = cells_of(self._position)
        return swapped(cells) if self._mover else cells

    def render(self) -> NDArray[np.uint8]:
        from mosaic.envs.compiled.drawing import draw_board

        return draw_board(self.marks)

    def close(self) -> None:
        pass

    def _turn(self, rewards: dict[AgentID, float]) -> Turn:
        rewards = {agent: rewards[agent] for agent in AGENTS}
        observation = observation_of(self._position)
        mover, waiting = AGENTS[self._mover], AGENTS[1 - self._mover]
        ends, truncated = dict.fromkeys(AGENTS, self._over), dict.fromkeys(AGENTS, False)
        if self._over:
            seen = {mover: observation, waiting: np.ascontiguousarray(observation[..., ::-1])}
            finals = {agent: seen[agent] for agent in AGENTS}
            return Turn(_NONE, _NONE, rewards, ends, truncated, finals, {agent: {} for agent in AGENTS})
        masks = {mover: self._game.legal[self._position].astype(np.bool_)} if self._masked else _NONE
        return Turn({mover: observation}, masks, rewards, ends, truncated, _NONE, {mover: {}})
