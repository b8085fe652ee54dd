"""Check that a controller decides for several episodes at once what it would decide for each alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from mosaic.core.turn import Turn
from mosaic.policies.controller import ActsTogether, PolicyController, Remembers


def check_together(first: PolicyController, agents: tuple[str, ...], turns: Sequence[Turn], episodes: int = 4) -> None:
    """Play the turns in several episodes, together and alone; they begin and forget at different times."""
    assert isinstance(first, ActsTogether)
    together, alone = ([cast(Any, first.sibling()) for _ in range(episodes)] for _ in range(2))
    for step, start in enumerate(range(0, len(turns) - episodes, episodes)):
        for number, pair in enumerate(zip(together, alone, strict=True)):
            for each in pair:
                if step == 0 or (step, number) == (2, 1):
                    each.begin(agents, 10 * step + number)
                if (step, number) == (3, 2) and isinstance(each, Remembers):
                    each.forget(agents[0])
        now = turns[start : start + episodes]
        expected = [each.act(turn) for each, turn in zip(alone, now, strict=True)]
        found = cast(Any, first).act_together(list(zip(together, now, strict=True)))
        for one, other in zip(found, expected, strict=True):
            assert one.keys() == other.keys()
            for agent in one:
                np.testing.assert_allclose(one[agent], other[agent], atol=1e-5)
    for each in (*together, *alone):
        each.close()
