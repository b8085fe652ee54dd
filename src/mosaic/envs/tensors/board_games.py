"""Tic-tac-toe and connect four as functions of tensors, on the bitboards of their compiled kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from mosaic.envs.compiled.board_games.connect_four import COLUMNS, ROWS
from mosaic.envs.compiled.board_games.tictactoe import CELLS, LINES
from mosaic.envs.compiled.vector import CompiledKernel
from mosaic.envs.tensors.rules import Moved, Situation, TensorView

_PITCH = ROWS + 1
_DIRECTIONS = (1, _PITCH, _PITCH + 1, _PITCH - 1)
_FULL_BOARD = sum(((1 << ROWS) - 1) << _PITCH * column for column in range(COLUMNS))


class _TwoPlayers:
    """Game of two players in turn; `ints` hold two bitboards and the index of the mover."""

    draws = time_limit = 0

    def __init__(self, kernel: CompiledKernel, device: torch.device) -> None:
        self.device, self.masked = device, kernel.masked

    def begin(self, drawn: Tensor) -> Situation:
        ints = torch.zeros(len(drawn), 3, dtype=torch.int64, device=self.device)
        return Situation(drawn[:, :0], ints)

    def moved(self, here: Situation, boards: tuple[Tensor, Tensor], reward: Tensor, over: Tensor) -> Moved:
        """Return the outcome; `reward` is the mover's, the other gets its negative."""
        mover = here.ints[:, 2]
        paid = torch.where(mover[:, None] == torch.arange(2, device=self.device), reward[:, None], -reward[:, None])
        after = Situation(here.state, torch.stack((*boards, 1 - mover), 1))
        return Moved(after, paid, over, torch.zeros_like(over))


class TicTacToe(_TwoPlayers):
    def __init__(self, kernel: CompiledKernel, device: torch.device) -> None:
        super().__init__(kernel, device)
        lines = [sum(1 << cell for cell in line) for line in LINES]
        has_line = [any(marks & line == line for line in lines) for marks in range(1 << CELLS)]
        self._has_line = torch.tensor(has_line, device=device)
        self._cells = torch.arange(CELLS, device=device)

    def show(self, here: Situation) -> TensorView:
        mine, theirs, mover = here.ints.unbind(1)
        both = torch.stack((mine, theirs), 1)[:, None] >> self._cells[:, None] & 1  # [E, cells, 2]
        mask = both.sum(2) == 0 if self.masked else None
        return TensorView(both.flatten(1).float()[:, None], None if mask is None else mask[:, None], mover)

    def move(self, here: Situation, act: Tensor) -> Moved:
        mine, theirs, _ = here.ints.unbind(1)
        mark = torch.ones_like(mine) << act[:, 0, 0].long()
        taken = (mine | theirs) & mark > 0  # only if nothing is masked
        mine = mine | mark
        won = self._has_line[mine]
        reward = torch.where(taken, -1.0, torch.where(won, 1.0, 0.0))
        over = taken | won | (mine | theirs == (1 << CELLS) - 1)
        return self.moved(here, (theirs, mine), reward, over)


class ConnectFour(_TwoPlayers):
    def __init__(self, kernel: CompiledKernel, device: torch.device) -> None:
        super().__init__(kernel, device)
        bits = [column * _PITCH + ROWS - 1 - row for row in range(ROWS) for column in range(COLUMNS)]
        self._bits = torch.tensor(bits, device=device)  # of cells, from the top row down
        self._tops = torch.tensor([column * _PITCH + ROWS - 1 for column in range(COLUMNS)], device=device)

    def show(self, here: Situation) -> TensorView:
        mine, taken, mover = here.ints.unbind(1)
        both = torch.stack((mine, mine ^ taken), 1)[:, None] >> self._bits[:, None] & 1
        mask = (taken[:, None] >> self._tops & 1) == 0
        return TensorView(both.flatten(1).float()[:, None], mask[:, None], mover)

    def move(self, here: Situation, act: Tensor) -> Moved:
        mine, taken, _ = here.ints.unbind(1)
        bottom = torch.ones_like(mine) << act[:, 0, 0].long() * _PITCH
        after = taken | (taken + bottom)
        stones = mine | (after ^ taken)
        four = torch.zeros_like(stones)
        for step in _DIRECTIONS:
            pairs = stones & (stones >> step)
            four = four | (pairs & (pairs >> 2 * step))
        won = four != 0
        return self.moved(here, (after ^ stones, after), torch.where(won, 1.0, 0.0), won | (after == _FULL_BOARD))
