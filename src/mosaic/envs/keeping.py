"""How an observation is kept although its env reuses the buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from mosaic.core.turn import Observation


def kept(observation: Observation) -> Observation:
    """A copy that nobody else writes to. Envs of the catalog need none (tested); foreign envs may alias."""
    if isinstance(observation, np.ndarray):
        return observation.copy()
    if isinstance(observation, dict):
        return {key: kept(part) for key, part in observation.items()}
    if isinstance(observation, tuple | list):
        return type(observation)(map(kept, observation))
    return observation


def unkept(observation: Any) -> Observation:
    return observation
