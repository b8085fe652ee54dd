"""Parts of exported policies in torch: preprocessing of observations, scaling, lookup in a table, action bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic.envs.codes import SpaceCode
from mosaic.envs.codes.box import BinnedCode
from mosaic.envs.codes.nested import DictCode, TupleCode
from mosaic.envs.vector.encoding import BRIGHTEST, leaves, picture_layout
from mosaic.models.architecture import Architecture
from mosaic.models.fused import OBSERVATION_LIMIT
from mosaic.models.torch_net import load_flat, make_network, state_size, tensor_names
from mosaic.policies.network import ScalerArrays

Network = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor | None]]  # from rows and a state


class RowReader(nn.Module):
    """Leaves of an observation as one row, equal to what `envs.vector.encoding.row_code` writes."""

    def __init__(self, space: Space[object]) -> None:
        super().__init__()
        self.parts = nn.ModuleList([_reader(leaf.space) for leaf in leaves(space)])

    def forward(self, seen: Sequence[Tensor]) -> Tensor:
        rows = [part(leaf) for part, leaf in zip(self.parts, seen, strict=True)]
        return rows[0] if len(rows) == 1 else torch.cat(rows, 1)


def _reader(space: Space[object]) -> nn.Module:
    if isinstance(space, spaces.Discrete):
        return _OneHot(np.zeros(int(space.n), np.int64), int(space.start) + np.arange(int(space.n)))
    if isinstance(space, spaces.MultiDiscrete):
        sizes, starts = space.nvec.ravel(), np.ravel(space.start)
        values = [start + np.arange(size) for size, start in zip(sizes, starts, strict=True)]
        return _OneHot(np.repeat(np.arange(len(sizes)), sizes), np.concatenate(values))
    if isinstance(space, spaces.Box) and (layout := picture_layout(space)) is not None:
        return _Picture(space.shape, turned=layout == "channels first")
    return nn.Flatten()


class _OneHot(nn.Module):
    """1 where the number in a column equals a value."""

    def __init__(self, columns: NDArray[np.integer], values: NDArray[np.integer]) -> None:
        super().__init__()
        self.columns: Tensor
        self.values: Tensor
        self.register_buffer("columns", torch.as_tensor(columns, dtype=torch.int64))
        self.register_buffer("values", torch.as_tensor(values, dtype=torch.int64))

    def forward(self, leaf: Tensor) -> Tensor:
        numbers = leaf.flatten(1).to(torch.int64)  # opsets before 11 compare whole numbers only
        return (numbers.index_select(1, self.columns) == self.values).to(torch.float32)


class _Picture(nn.Module):
    """Bytes as numbers of 0..1, by height, width and channel."""

    def __init__(self, shape: tuple[int, ...], *, turned: bool) -> None:
        super().__init__()
        self._shape, self._turned = shape, turned

    def forward(self, leaf: Tensor) -> Tensor:
        picture = leaf.reshape(-1, *self._shape) / float(BRIGHTEST)
        return (picture.permute(0, 2, 3, 1) if self._turned else picture).flatten(1)


class RowScale(nn.Module):
    """Normalisation of rows: (row - shift) * scale, clipped as in training; rows as they are without a scaler."""

    def __init__(self, scaler: ScalerArrays | None) -> None:
        super().__init__()
        self.shift: Tensor | None
        self.scale: Tensor | None
        self.limit: Tensor
        limit = OBSERVATION_LIMIT if scaler is None or len(scaler) < 3 else scaler[2]
        self.register_buffer("limit", torch.as_tensor(np.asarray(limit, np.float32)))
        self.register_buffer("shift", None if scaler is None else torch.as_tensor(scaler[0], dtype=torch.float32))
        self.register_buffer("scale", None if scaler is None else torch.as_tensor(scaler[1], dtype=torch.float32))

    def forward(self, rows: Tensor) -> Tensor:
        if self.shift is None or self.scale is None:
            return rows
        return torch.minimum(torch.maximum((rows - self.shift) * self.scale, -self.limit), self.limit)


class RowPolicy(nn.Module):
    """Rows, their scaling, a network, and what turns its outputs into action numbers."""

    def __init__(
        self,
        space: Space[object],
        network: nn.Module,
        scaler: ScalerArrays | None = None,
        finish: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.reader, self.scale, self.network, self.finish = RowReader(space), RowScale(scaler), network, finish

    def forward(
        self, seen: Sequence[Tensor], state: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        rows = self.scale(self.reader(seen))
        outputs, state = self.network(rows, state)
        return (outputs if self.finish is None else self.finish(outputs)), state


class ActorNetwork(nn.Module):
    """The acting part of a network for Mosaic's own learners, whose critic is left out."""

    def __init__(self, network: nn.Module, architecture: Architecture, memory: int) -> None:
        super().__init__()
        self.network, self._critic, self._memory = network, architecture.critic_observation, memory

    def forward(self, rows: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor | None]:
        critic = rows.new_zeros(rows.shape[0], self._critic)
        if not self._memory:
            return self.network(rows, critic)[0], None
        unroll: Any = self.network.unroll
        (outputs, _), after = unroll(rows[None], critic[None], state, rows.new_zeros(1, rows.shape[0]))
        return outputs[0], after


def build_actor(
    architecture: Architecture, flat: NDArray[np.float32], module: str | None = None
) -> tuple[ActorNetwork, int]:
    """Return the acting part of a saved network and the size of its memory; `module` is a user's own network."""
    network = make_network(architecture, 0, module=module)
    load_flat(network, flat, tensor_names(network, architecture))
    memory = state_size(network)
    return ActorNetwork(network, architecture, memory), memory


class Finish(nn.Module):
    """Last steps of a Box action: squashed to ±1, then scaled from ±1 to the bounds.

    Outputs after the action's numbers, such as deviations, are left out.
    """

    def __init__(self, space: spaces.Box, *, squash: bool, scale: bool) -> None:
        super().__init__()
        self._squash, self._scale = squash, scale
        self.low: Tensor
        self.span: Tensor
        low, high = (np.ravel(bound).astype(np.float32) for bound in (space.low, space.high))
        self.register_buffer("low", torch.as_tensor(low))
        self.register_buffer("span", torch.as_tensor(high - low if scale else np.zeros_like(low)))

    def forward(self, outputs: Tensor) -> Tensor:
        outputs = outputs[:, : self.low.shape[0]]
        if self._squash:
            outputs = torch.tanh(outputs)
        return self.low + (outputs + 1.0) * self.span / 2.0 if self._scale else outputs


class TablePolicy(nn.Module):
    """A table of action values; its row is the number that a space code gives an observation."""

    def __init__(self, code: SpaceCode, values: NDArray[np.floating]) -> None:
        super().__init__()
        self.digits = nn.ModuleList([_Digits(part) for part in _parts(code)])
        strides = np.cumprod([1, *reversed(code.counts[1:])])[::-1].astype(np.int64)
        self.strides: Tensor
        self.values: Tensor
        self.register_buffer("strides", torch.as_tensor(strides.copy()))
        self.register_buffer("values", torch.as_tensor(np.array(values, np.float32)))

    def forward(
        self, seen: Sequence[Tensor], state: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        digits = torch.cat([part(leaf) for part, leaf in zip(self.digits, seen, strict=True)], 1)
        index = (digits * self.strides).sum(1)
        return self.values.index_select(0, index), None


def _parts(code: SpaceCode) -> list[SpaceCode]:
    if isinstance(code, TupleCode):
        return [each for part in code.parts for each in _parts(part)]
    if isinstance(code, DictCode):
        return [each for part in code.parts.values() for each in _parts(part)]
    return [code]


class _Digits(nn.Module):
    """Digits of one leaf: numbers less their start, or the bins of a Box, computed in float64 as in the code."""

    def __init__(self, code: SpaceCode) -> None:
        super().__init__()
        binned = isinstance(code, BinnedCode)
        low, high, span = code.edges() if isinstance(code, BinnedCode) else (_starts(code),) * 3
        self._binned = binned
        self.low: Tensor
        self.high: Tensor
        self.span: Tensor
        self.count: Tensor
        for name, array in (("low", low), ("high", high), ("span", span), ("count", np.array(code.counts, np.float64))):
            self.register_buffer(name, torch.as_tensor(np.asarray(array, np.float64)))

    def forward(self, leaf: Tensor) -> Tensor:
        numbers = leaf.flatten(1).to(torch.float64)
        if not self._binned:
            return torch.floor(numbers - self.low + 0.5).to(torch.int64)
        inside = torch.minimum(torch.maximum(numbers, self.low), self.high) - self.low
        return torch.minimum(torch.floor(inside * self.count / self.span), self.count - 1.0).to(torch.int64)


def _starts(code: SpaceCode) -> NDArray[np.float64]:
    return np.ravel(np.asarray(code.decode(0), np.float64))


class PolicyGraph(nn.Module):
    """A policy with the interface of its file: leaves, mask and state in; output and state out."""

    def __init__(
        self,
        function: nn.Module,
        action: Space[object],
        *,
        count: int,
        masked: bool,
        memory: int,
        plug_in: bool,
        spread: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.function = function
        self._count, self._masked, self._memory, self._plug_in = count, masked, memory, plug_in
        self._whole = isinstance(action, spaces.Box) and np.dtype(action.dtype).kind != "f"
        self.low: Tensor | None
        self.high: Tensor | None
        self.spread: Tensor | None
        self.register_buffer("spread", torch.as_tensor(list(spread), dtype=torch.int64) if spread else None)
        bounds = (action.low, action.high) if isinstance(action, spaces.Box) else (None, None)
        for name, bound in zip(("low", "high"), bounds, strict=True):
            array = None if bound is None else torch.as_tensor(np.ravel(bound).astype(np.float32))
            self.register_buffer(name, array)

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        seen, others = list(inputs[: self._count]), list(inputs[self._count :])
        mask = others.pop(0) if self._masked else None
        state = others.pop(0) if others else None
        outputs: Tensor
        outputs, after = self.function(seen, state if self._memory else None, mask)
        if self.low is not None and self.high is not None:
            outputs = torch.minimum(torch.maximum(outputs, self.low), self.high)
            outputs = outputs.round() if self._whole else outputs
        if mask is not None:
            outputs = torch.where(mask > 0, outputs, torch.full_like(outputs, ILLEGAL))
        if self._memory:
            assert after is not None
            return outputs, after
        if self.spread is not None:  # a column of zeros stands for the deviations that the plug-in skips
            outputs = torch.cat((outputs, torch.zeros_like(outputs[:, :1])), 1).index_select(1, self.spread)
        if self._plug_in:
            assert state is not None
            return outputs, state
        return outputs


ILLEGAL = -1e9  # output of an action that the mask excludes
