"""Kuhn poker: rules, exact values of strategies, and the game as an Env.

Two players put one chip each into the pot and get one card each of jack, queen and king. The first passes or bets a
chip, then the second does; a pass after a bet folds, and a first player that passed may still call a bet. The higher
card takes the pot. Optimal play must bluff at random, and costs the first player 1/18 of a chip per game.
"""

# compiled code uses this file
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvFacts, EnvSpec

AGENTS: tuple[AgentID, AgentID] = ("player_1", "player_2")
CARDS = ("J", "Q", "K")
PASS, BET = 0, 1
START, PASSED, BET_MADE, CHECK_BET, OVER = range(5)  # positions of the betting
POSITIONS = 4  # before the end
MOVER = (0, 1, 1, 0)
NEXT = ((PASSED, BET_MADE), (OVER, CHECK_BET), (OVER, OVER), (OVER, OVER))  # by position and action
STAKE = ((0, 0), (1, 0), (1, 2), (1, 2))  # chips that the loser of a finished game pays
WIDTH = len(CARDS) + POSITIONS  # of an observation: the own card, one-hot, then the position
NASH_VALUE = -1 / 18  # of the first player
_NONE: dict[AgentID, Any] = {}


def payoff(cards: Sequence[int], position: int, action: int) -> float:
    """Return what a finished game pays the first player."""
    stake = float(STAKE[position][action])
    if action == PASS and position != PASSED:  # the mover folds
        return -stake if MOVER[position] == 0 else stake
    return stake if cards[0] > cards[1] else -stake


# -- strategies: [POSITIONS, cards] probabilities of a bet, of both players


def game_value(bets: NDArray[np.float64]) -> float:
    """Return the exact mean payoff of the first player when both play these strategies."""

    def value(cards: Sequence[int], position: int) -> float:
        chance = bets[position, cards[MOVER[position]]]
        total = 0.0
        for action, probability in ((PASS, 1 - chance), (BET, chance)):
            after = NEXT[position][action]
            total += probability * (payoff(cards, position, action) if after == OVER else value(cards, after))
        return total

    deals = list(permutations(range(len(CARDS)), 2))
    return float(np.mean([value(deal, START) for deal in deals]))


def exploitability(bets: NDArray[np.float64]) -> float:
    """Return what a best response gains per game, averaged over both players; 0 in equilibrium."""
    gains = []
    for player, positions in ((0, (START, CHECK_BET)), (1, (PASSED, BET_MADE))):
        values = []
        for pure in product((0.0, 1.0), repeat=len(positions) * len(CARDS)):
            tried = bets.copy()
            tried[list(positions)] = np.reshape(pure, (len(positions), len(CARDS)))
            values.append(game_value(tried) if player == 0 else -game_value(tried))
        gains.append(max(values))
    return sum(gains) / 2


class KuhnPokerEnv:
    """Kuhn poker for two agents in turns; action 0 passes (checks or folds), 1 bets (or calls).

    `remember_card`: the card is shown at a player's first decision only, so that a policy needs memory.
    """

    def __init__(self, facts: EnvFacts | None = None, *, remember_card: bool = False) -> None:
        self.possible_agents: tuple[AgentID, ...] = AGENTS
        self.observation_spaces: dict[AgentID, Space[Any]] = {
            agent: spaces.Box(0, 1, (WIDTH,), np.float32) for agent in AGENTS
        }
        self.action_spaces: dict[AgentID, Space[Any]] = {agent: spaces.Discrete(2) for agent in AGENTS}
        facts = facts or EnvFacts(turn_based=True, competitive=True, hidden_information=True)
        self.spec = EnvSpec(facts, AGENTS, self.observation_spaces, self.action_spaces)
        self._random, self._remember = np.random.default_rng(), remember_card
        self.cards: tuple[int, ...] = (0, 1)
        self.position = OVER
        self.paid = [1, 1]  # chips in the pot, by player

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return () if self.position == OVER else AGENTS

    def reset(self, seed: int | None = None) -> Turn:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.load(self._random.permutation(len(CARDS))[:2].tolist(), START)
        return self.turn()

    def load(self, cards: Sequence[int], position: int) -> None:
        """Continue from a position that is not over."""
        self.cards, self.position = tuple(cards), position
        self.paid = [1 + (position == BET_MADE), 1 + (position == CHECK_BET)]

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        if self.position == OVER:
            raise RuntimeError("step() after the end of the episode: call reset() first.")
        number = MOVER[self.position]
        mover = AGENTS[number]
        if len(actions) != 1 or mover not in actions:
            raise ValueError(f"Actions for {sorted(actions)}, but ['{mover}'] must act.")
        position, action = self.position, int(actions[mover])
        if action not in (PASS, BET):
            raise ValueError(f"The action {action} does not exist: 0 passes, 1 bets.")
        self.position = NEXT[position][action]
        self.paid[number] += action
        return self.turn(payoff(self.cards, position, action) if self.position == OVER else 0.0)

    def render(self) -> NDArray[np.uint8]:
        from mosaic.envs.compiled.drawing import draw_cards

        return draw_cards([CARDS[card] for card in self.cards], self.paid)

    def close(self) -> None:
        pass

    def turn(self, paid: float = 0.0) -> Turn:
        """Return the current turn, after a step that paid the first player so much."""
        over = self.position == OVER
        rewards = {AGENTS[0]: paid, AGENTS[1]: 0.0 - paid}
        ends, truncated = dict.fromkeys(AGENTS, over), dict.fromkeys(AGENTS, False)
        if over:
            finals = {agent: self.observe(number) for number, agent in enumerate(AGENTS)}
            return Turn(_NONE, _NONE, rewards, ends, truncated, finals, {agent: {} for agent in AGENTS})
        mover = AGENTS[MOVER[self.position]]
        seen = {mover: self.observe(MOVER[self.position])}
        return Turn(seen, _NONE, rewards, ends, truncated, _NONE, {mover: {}})

    def observe(self, player: int) -> NDArray[np.float32]:
        seen = np.zeros(WIDTH, np.float32)
        if not self._remember or self.position in (START, PASSED, BET_MADE):
            seen[self.cards[player]] = 1
        if self.position != OVER:
            seen[len(CARDS) + self.position] = 1
        return seen
