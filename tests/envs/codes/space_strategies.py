"""Hypothesis strategies for spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from hypothesis import strategies as st

small = st.integers(1, 4)
starts = st.integers(-3, 3)
leaves: st.SearchStrategy[Space[Any]] = st.one_of(
    st.builds(lambda n, start: Discrete(n, start=start), small, starts),
    st.lists(st.tuples(small, starts), min_size=1, max_size=3).map(
        lambda pairs: MultiDiscrete([n for n, _ in pairs], start=[start for _, start in pairs])
    ),
    st.builds(lambda n, start: MultiDiscrete([[n, 2], [1, 3]], start=[[start, 0], [5, 1]]), small, starts),
    st.one_of(st.integers(1, 4), st.tuples(st.integers(1, 2), st.integers(1, 2))).map(MultiBinary),
)
discrete_spaces = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(Tuple),
        st.dictionaries(st.sampled_from(["b", "a", "c"]), parts, min_size=1, max_size=3).map(Dict),
    ),
    max_leaves=4,
)
bounded_boxes = st.one_of(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 9)), min_size=1, max_size=3).map(
        lambda ends: Box(np.array([a for a, _ in ends]), np.array([a + b for a, b in ends]), dtype=np.int64)
    ),
    st.lists(st.tuples(st.floats(-50, 50), st.floats(0.5, 9)), min_size=1, max_size=3).map(
        lambda ends: Box(np.array([a for a, _ in ends]), np.array([a + b for a, b in ends]), dtype=np.float64)
    ),
    st.sampled_from([Box(0, 1, (2, 2), np.bool_), Box(-1, 1, ()), Box(0, 255, (3,), np.uint8)]),
)
