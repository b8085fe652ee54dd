"""State of torch's Adam as flat arrays, in the order of the flat weights, for checkpoints."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic.models.engine import StateArrays


def adam_state(optimiser: torch.optim.Adam, parameters: Iterable[nn.Parameter]) -> StateArrays:
    """Return both moments and the number of steps; the fused engines use the same names."""
    first, second, count = [], [], 0.0
    for parameter in parameters:
        state = optimiser.state.get(parameter, {})
        first.append(_flat(state.get("exp_avg", torch.zeros_like(parameter))))
        second.append(_flat(state.get("exp_avg_sq", torch.zeros_like(parameter))))
        count = float(state.get("step", count))
    return {
        "optimiser.first": np.concatenate(first),
        "optimiser.second": np.concatenate(second),
        "optimiser.count": np.array([count], np.float32),
    }


def load_adam_state(optimiser: torch.optim.Adam, parameters: Iterable[nn.Parameter], state: StateArrays) -> None:
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()

        def moment(name: str, where: slice, like: nn.Parameter) -> Tensor:
            return torch.from_numpy(state[name][where].copy()).to(like.device).reshape(like.shape)

        optimiser.state[parameter] = {
            "step": torch.tensor(float(state["optimiser.count"][0])),
            "exp_avg": moment("optimiser.first", slice(start, end), parameter),
            "exp_avg_sq": moment("optimiser.second", slice(start, end), parameter),
        }
        start = end


def _flat(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().to(torch.float32).cpu().numpy().ravel()
