"""Spaces in a few words."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from mosaic.envs.spaces import describe_space


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (spaces.Box(0, 1, (4,)), "Box(4) float32"),
        (spaces.Box(0, 1, ()), "Box() float32"),
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), "84×84×3 uint8"),
        (spaces.Box(0, 1, (6, 7), np.int8), "6×7 int8"),
        (spaces.Discrete(9), "Discrete(9)"),
        (spaces.Discrete(3, start=-1), "Discrete(-1..1)"),
        (spaces.MultiDiscrete([3, 2]), "MultiDiscrete(3, 2)"),
        (spaces.MultiDiscrete([2] * 20), "MultiDiscrete(2, 2, 2, 2, 2, 2, 2, 2, … 20 in all)"),
        (spaces.MultiBinary(4), "MultiBinary(4)"),
        (spaces.MultiBinary([2, 3]), "MultiBinary(2×3)"),
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (3,))), "Dict(a: Discrete(2), b: Box(3) float32)"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), "Tuple(Discrete(2), Discrete(3))"),
        (spaces.Sequence(spaces.Discrete(2)), "Sequence(Discrete(2))"),
        (spaces.Text(5), "Text(1..5)"),
        (spaces.Graph(spaces.Discrete(2), None), "Graph"),
    ],
)
def test_describe_space(space, text):
    assert describe_space(space) == text
