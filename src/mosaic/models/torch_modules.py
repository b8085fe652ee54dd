"""Building blocks of torch networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mosaic.envs.vector.encoding import RowPart
from mosaic.models.architecture import Activation
from mosaic.models.architecture import Memory as MemoryKind

FUNCTIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "silu": nn.functional.silu,
}
LARGE_PICTURE = 36  # pixels; the smallest size that the strides of the Atari network allow
_RELU_GAIN = sqrt(2.0)


class Dense(nn.Module):
    """Linear layer x·W + b with W as [in, out], the order of the flat layout."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight.t(), self.bias)


class Mlp(nn.ModuleList):
    """Dense layers with an activation between them."""

    def __init__(self, widths: Sequence[int], activation: Activation) -> None:
        super().__init__(Dense(i, o) for i, o in pairwise(widths))
        self._activation = FUNCTIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        last = len(self) - 1
        for index, layer in enumerate(self):
            x = layer(x)
            if index < last:
                x = self._activation(x)
        return x


class ImageEncoder(nn.Module):
    """Features of one image part of a row: the Atari network for large images, a smaller one for small images."""

    def __init__(self, part: RowPart) -> None:
        super().__init__()
        height, width, channels = part.shape
        self._part = part
        if min(height, width) >= LARGE_PICTURE:
            layers = [nn.Conv2d(channels, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)]
            self.features = 512
        else:
            layers = [
                nn.Conv2d(channels, 16, 3, 1, 1),
                nn.Conv2d(16, 32, 3, 2, 1),
                nn.Conv2d(32, 32, 3, 2, 1),
            ]
            self.features = 128
        self.layers = nn.ModuleList(layers)
        with torch.no_grad():
            flat = self._convolved(torch.zeros(1, height, width, channels)).shape[1]
        self.out = nn.Linear(flat, self.features)

    def forward(self, rows: Tensor) -> Tensor:
        part = self._part
        picture = rows[:, part.start : part.start + part.size].reshape(-1, *part.shape)
        return torch.relu(self.out(self._convolved(picture)))

    def _convolved(self, picture: Tensor) -> Tensor:
        x = picture.permute(0, 3, 1, 2)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x.flatten(1)


class Encoder(nn.Module):
    """Encoder of rows with images: each image through its own network, the other numbers unchanged."""

    def __init__(self, parts: tuple[RowPart, ...]) -> None:
        super().__init__()
        pictures = [ImageEncoder(part) for part in parts if part.picture]
        self.pictures = nn.ModuleList(pictures)
        flat = [range(part.start, part.start + part.size) for part in parts if not part.picture]
        columns = torch.tensor([column for stretch in flat for column in stretch], dtype=torch.int64)
        self.columns: Tensor
        self.register_buffer("columns", columns, persistent=False)  # moves with the device, but is not a weight
        self.features = sum(picture.features for picture in pictures) + len(columns)

    def forward(self, rows: Tensor) -> Tensor:
        shape, rows = rows.shape[:-1], rows.reshape(-1, rows.shape[-1])
        features = [picture(rows) for picture in self.pictures]
        if len(self.columns):
            features.append(rows.index_select(1, self.columns))
        return torch.cat(features, 1).reshape(*shape, self.features)


class MinGruCell(nn.Module):
    """GRU whose gate and candidate depend on the input only: h ← (1 − z) · h + z · c."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2 * size, inputs))
        self.bias = nn.Parameter(torch.zeros(2 * size))

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        gate, candidate = linear(x, self.weight, self.bias).chunk(2, dim=-1)
        return state + torch.sigmoid(gate) * (candidate - state)


CELLS: dict[MemoryKind, type[nn.LSTMCell | nn.GRUCell | MinGruCell]] = {
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
    "mingru": MinGruCell,
}


class Memory(nn.Module):
    """A recurrent cell that is stepped through time and reset where an episode begins; a slot's state is one row."""

    def __init__(self, inputs: int, size: int, kind: MemoryKind) -> None:
        super().__init__()
        self.cell = CELLS[kind](inputs, size)
        self.features = size
        self.state_size = 2 * size if kind == "lstm" else size

    def forward(self, x: Tensor, state: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """Map x [L, N, inputs], state [N, state_size], first [L, N] to features [L, N, size] and the last state."""
        features = []
        for seen, keep in zip(x, 1.0 - first, strict=True):
            state = self._step(seen, state * keep[:, None])
            features.append(state[:, : self.features])
        return torch.stack(features), state

    def _step(self, x: Tensor, state: Tensor) -> Tensor:
        if isinstance(self.cell, nn.LSTMCell):
            h, c = state.chunk(2, dim=1)
            return torch.cat(self.cell(x, (h.contiguous(), c.contiguous())), 1)
        out: Tensor = self.cell(x, state)
        return out


def start_orthogonal(module: nn.Module, generator: torch.Generator) -> None:
    """Initialise orthogonal matrices and zero biases, as usual for PPO; memory cells get gain 1 (norm-preserving)."""
    for name, parameter in module.named_parameters():
        with torch.no_grad():
            if parameter.dim() < 2:
                parameter.zero_()
            else:
                gain = 1.0 if "cell." in name else _RELU_GAIN
                nn.init.orthogonal_(parameter, gain, generator=generator)
