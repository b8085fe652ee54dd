"""check_env finds every kind of broken turn and names it."""

from __future__ import annotations

import numpy as np
import pytest

from mosaic.core.turn import Turn
from mosaic.testing import ContractError, check_env
from mosaic.testing.toys import Alternating, Fading


def altered(change, toy=Fading, at=2):
    """The toy, but the Turn of one step is not what it should be."""

    class Altered(toy):
        def _first(self):
            turn = super()._first()
            return change(turn) if at == 0 else turn

        def _next(self):
            turn = super()._next()
            return change(turn) if self.t == at else turn

    return Altered


def put(field, agent, value):
    return lambda turn: turn._replace(**{field: {**getattr(turn, field), agent: value}})


def drop(field, agent):
    return lambda turn: turn._replace(**{field: {a: v for a, v in getattr(turn, field).items() if a != agent}})


def mask(value, agent="o"):
    return altered(put("action_masks", agent, value), Alternating, at=1)


TURNS = {
    "a reward that is no float": (
        altered(put("rewards", "b", np.float32(2))),
        r"toys:Fading, step 2 \(seed 1\), agent 'b': its reward is .*2\.0.* of type float32\. Promise: .* return float",
    ),
    "a reward that is no number": (altered(put("rewards", "b", float("nan"))), "its reward is nan"),
    "a flag that is no bool": (
        altered(put("terminated", "b", np.bool_(False))),
        r"agent 'b': terminated is .*False.* of type bool.*Promise: terminated and truncated are Python bools",
    ),
    "keys that differ": (
        altered(drop("truncated", "c")),
        r"rewards are for \['a', 'b', 'c'\], terminated for \['a', 'b', 'c'\], truncated for \['a', 'b'\]",
    ),
    "a living agent forgotten": (
        altered(lambda turn: turn.only({"b"}), at=3),
        "step 3 .*agent 'c': it lived before this step and is now missing.*even while they wait",
    ),
    "an ended agent that comes back": (
        altered(
            lambda turn: Turn(
                *(part | {"a": x} for part, x in zip(turn, (3, None, 0.0, False, False, 3, {}), strict=True))
            ),
            at=3,
        ),
        "step 3 .*agent 'a': it ended before and came back",
    ),
    "an end without a final observation": (
        altered(drop("final_observations", "a")),
        "agent 'a': it ended without a final observation",
    ),
    "a final observation without an end": (
        altered(put("final_observations", "b", 5)),
        "agent 'b': it has a final observation without having ended",
    ),
    "a dead agent that must act": (altered(put("observations", "a", 5)), "agent 'a': it must act but is not alive"),
    "an end with somebody left": (
        altered(lambda turn: turn._replace(observations={}, infos={})),
        r"no agent acts although \['b', 'c'\] have not ended. Promise: observations are empty exactly when no agent",
    ),
    "an observation outside its space": (
        altered(put("observations", "b", 100)),
        r"agent 'b': its observation is 100 of type int instead of Discrete\(100\)",
    ),
    "a final observation outside its space": (
        altered(put("final_observations", "a", None)),
        "agent 'a': its final observation is None of type NoneType",
    ),
    "a mask of integers": (mask(np.ones(3, np.int8)), "agent 'o': its mask is of int8.*at least one of them True"),
    "a mask that allows nothing": (mask(np.zeros(3, np.bool_)), "agent 'o': its mask allows nothing"),
    "a mask of another length": (mask(np.ones(4, np.bool_)), r"its mask has shape \(4,\) instead of \(3,\)"),
    "a mask for one who waits": (mask(np.ones(3, np.bool_), "x"), "agent 'x': it has a mask but does not act"),
    "a name that is no text": (altered(put("rewards", 7, 0.0)), "rewards calls an agent 7. Promise: agents' names are"),
    "an agent nobody knows": (
        altered(lambda turn: Turn(*({**part, "d": part["b"]} if "b" in part else part for part in turn))),
        "agent 'd': it is not in possible_agents",
    ),
    "something else than a Turn": (
        altered(lambda turn: tuple(turn)),
        "it returned a tuple. Promise: reset and step return a Turn",
    ),
    "a reward at reset": (
        altered(put("rewards", "a", 1.0), at=0),
        r"Fading, after reset \(seed 1\), agent 'a': its reward is 1.0, ended: False",
    ),
    "nobody to act at reset": (altered(lambda turn: turn._replace(observations={}, infos={}), at=0), "no agent acts"),
    "an info for one who waits": (
        altered(put("infos", "x", {}), Alternating, at=1),
        "agent 'x': it has an info but neither acts nor ended",
    ),
    "an info that is no mapping": (altered(put("infos", "b", None)), "agent 'b': its info is a NoneType"),
    "two who act in a turn-based env": (
        altered(put("observations", "x", 5), Alternating, at=1),
        r"\['o', 'x'\] act together.*set turn_based=False",
    ),
}


@pytest.mark.parametrize("case", TURNS)
def test_a_turn_that_breaks_a_promise(case):
    make, message = TURNS[case]
    with pytest.raises(ContractError, match=message):
        check_env(make)
