"""Running mean and variance, merged batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

EPSILON = 1e-8


@dataclass(slots=True)
class RunningMoments:
    """Mean and variance of all data so far, per column."""

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    count: float = 0.0

    @classmethod
    def of_width(cls, width: int) -> RunningMoments:
        return cls(np.zeros(width), np.ones(width))

    def merge(self, total: NDArray[np.float64], squares: NDArray[np.float64], count: float) -> None:
        """Add a batch given by its sum and its sum of squares (Chan's parallel formula)."""
        if count <= 0:
            return
        mean = total / count
        var = np.maximum(squares / count - mean * mean, 0.0)
        both = self.count + count
        delta = mean - self.mean
        joint = self.var * self.count + var * count + delta * delta * (self.count * count / both)
        self.mean = self.mean + delta * (count / both)
        self.var = joint / both
        self.count = both

    @property
    def shift(self) -> NDArray[np.float32]:
        return self.mean.astype(np.float32)

    @property
    def scale(self) -> NDArray[np.float32]:
        return (1.0 / np.sqrt(self.var + EPSILON)).astype(np.float32)

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        return {f"{prefix}.mean": self.mean, f"{prefix}.var": self.var, f"{prefix}.count": np.array([self.count])}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: dict[str, NDArray[Any]]) -> RunningMoments:
        mean, var = arrays[f"{prefix}.mean"], arrays[f"{prefix}.var"]
        return cls(mean.astype(float), var.astype(float), float(arrays[f"{prefix}.count"][0]))
