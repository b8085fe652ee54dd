"""How a random generator is kept among arrays."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray


def to_array(generator: np.random.Generator) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(generator.bit_generator.state).encode(), np.uint8)


def load_generator(generator: np.random.Generator, kept: NDArray[np.uint8]) -> None:
    generator.bit_generator.state = json.loads(kept.tobytes())
