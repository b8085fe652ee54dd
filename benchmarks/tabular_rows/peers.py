"""Peers: tic-tac-toe with a table in plain Python and NumPy, as people write it and tuned by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


class NumpyPeer:
    """The classic task as a careful NumPy program: board, mask, winning lines and greedy ties are array operations."""

    lines = np.array(LINES)
    powers = 3 ** np.arange(9)

    def __init__(self, seed: int) -> None:
        self.table = np.zeros((3**9, 9))
        self.random = np.random.default_rng(seed)
        self.results: list[int] = []

    def won(self, board: Any, player: int) -> bool:
        return bool((board[self.lines] == player).all(axis=1).any())

    def pick(self, actions: Any) -> int:
        return int(actions[self.random.integers(len(actions))])

    def choose(self, state: int, free: Any) -> int:
        if self.random.random() < 0.1:
            return self.pick(free)
        values = self.table[state, free]
        return self.pick(free[values == values.max()])

    def train(self, steps: int) -> None:
        done = 0
        while done < steps:
            board, over = np.zeros(9, np.int8), False
            if self.random.random() < 0.5:
                board[self.random.integers(9)] = 2
            state, free = int(board @ self.powers), np.flatnonzero(board == 0)
            while not over:
                action = self.choose(state, free)
                reward = self.reply(board, action)
                free = np.flatnonzero(board == 0)
                over = reward != 0 or len(free) == 0
                after = int(board @ self.powers)
                target = reward if over else 0.99 * self.table[after, free].max()
                self.table[state, action] += 0.1 * (target - self.table[state, action])
                done += 1
                state = after
            self.results.append(reward)

    def reply(self, board: Any, action: int) -> int:
        """Play the action and the opponent's random reply; return the reward."""
        board[action] = 1
        if self.won(board, 1):
            return 1
        free = np.flatnonzero(board == 0)
        if len(free) == 0:
            return 0
        board[self.pick(free)] = 2
        return -1 if self.won(board, 2) else 0


class ListPeer:
    """The same, tuned by hand: only the table is NumPy; the board is a list, states incremental, Python's random."""

    def __init__(
        self, seed: int, epsilon: float = 0.1, learning_rate: float = 0.1, discount_factor: float = 0.99
    ) -> None:
        self.epsilon, self.rate, self.discount = epsilon, learning_rate, discount_factor
        self.table = np.zeros((3**9, 9))
        self.random = Random(seed)
        self.results: list[int] = []

    def won(self, board: list[int], player: int) -> bool:
        return any(board[a] == board[b] == board[c] == player for a, b, c in LINES)

    def choose(self, state: int, free: list[int]) -> int:
        if self.random.random() < self.epsilon:
            return self.random.choice(free)
        values = self.table[state, free]
        best = np.flatnonzero(values == values.max())
        return free[int(best[self.random.randrange(len(best))])] if len(best) > 1 else free[int(best[0])]

    def train(self, steps: int) -> None:
        powers, done = [3**i for i in range(9)], 0
        while done < steps:
            board, state = [0] * 9, 0
            if self.random.random() < 0.5:
                move = self.random.randrange(9)
                board[move], state = 2, 2 * powers[move]
            while True:
                free = [i for i in range(9) if not board[i]]
                action = self.choose(state, free)
                board[action], after = 1, state + powers[action]
                reward, over = 0.0, False
                if self.won(board, 1):
                    reward, over = 1.0, True
                else:
                    free = [i for i in range(9) if not board[i]]
                    if not free:
                        over = True
                    else:
                        move = self.random.choice(free)
                        board[move] = 2
                        after += 2 * powers[move]
                        free = [i for i in range(9) if not board[i]]
                        if self.won(board, 2):
                            reward, over = -1.0, True
                        elif not free:
                            over = True
                target = reward if over else reward + self.discount * self.table[after, free].max()
                self.table[state, action] += self.rate * (target - self.table[state, action])
                done += 1
                state = after
                if over:
                    self.results.append(int(reward))
                    break


class SelfPlayPeer(ListPeer):
    """Self-play in plain Python, tuned by hand: both agents share one table, from the mover's point of view."""

    def train(self, steps: int) -> None:
        powers = [3**i for i in range(9)]
        board, state, mover = [0] * 9, 0, 1
        for _ in range(steps):
            free = [i for i in range(9) if not board[i]]
            action = self.choose(state, free)
            board[action] = mover
            if self.won(board, mover) or len(free) == 1:
                reward = 1.0 if self.won(board, mover) else 0.0
                self.table[state, action] += self.rate * (reward - self.table[state, action])
                self.results.append(int(reward) if mover == 1 else -int(reward))
                board, state, mover = [0] * 9, 0, 1
                continue
            mover = 3 - mover
            after = sum(powers[i] * (1 if mark == mover else 2) for i, mark in enumerate(board) if mark)
            free.remove(action)
            target = -self.discount * self.table[after, free].max()
            self.table[state, action] += self.rate * (target - self.table[state, action])
            state = after
