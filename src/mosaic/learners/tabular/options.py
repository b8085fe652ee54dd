"""What a tabular learner refuses, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from mosaic.core.errors import InputError, demand, did_you_mean, shown, unknown
from mosaic.learners.tabular.settings import ALGORITHMS, Algorithm, TabularOptions

_BOOL = np.dtype(np.bool_)


def checked_options(**options: Any) -> TabularOptions:
    """Options by name; what pydantic objects to in our words."""
    try:
        return TabularOptions(**options)
    except ValidationError as error:
        complaint = error.errors()[0]
        name = ".".join(str(part) for part in complaint["loc"])
        if complaint["type"] == "extra_forbidden":
            known = sorted(TabularOptions.model_fields)
            text = f"There is no option '{name}'.{did_you_mean(name, known)} Known: {', '.join(known)}."
            raise InputError(text) from error
        raise InputError(f"{name} is {shown(complaint['input'])}: {demand(complaint)}.") from error


def checked_algorithm(name: str) -> Algorithm:
    for algorithm in ALGORITHMS:
        if algorithm == name:
            return algorithm
    raise unknown("tabular algorithm", name, ALGORITHMS)


def bad_size(what: str, size: Any) -> InputError:
    return InputError(f"A table needs a whole number of {what}, at least 1, not {size!r}.")


def bad_index(what: str, index: Any, size: int) -> InputError:
    if not isinstance(index, int | np.integer) or isinstance(index, bool):
        return InputError(f"The {what} is {index!r}; it should be a whole number in 0..{size - 1}.")
    return InputError(f"The {what} {index} is outside the table, which has {what}s 0..{size - 1}.")


def bad_reward(reward: Any) -> InputError:
    return InputError(f"The reward is {reward}; it should be a finite number. The table was not changed.")


def nothing_legal(state: int) -> InputError:
    return InputError(
        f"The mask of state {state} allows no action. An episode in which nothing can be done is over: "
        "the env should say terminated."
    )


def overflown(state: int, action: int) -> InputError:
    return InputError(
        f"The value of state {state}, action {action} is no longer a finite number: "
        "the rewards are too large for the table, or the values diverge. Use dtype float64, smaller rewards or a "
        "discount_factor below 1."
    )


def checked_mask(mask: Any, actions: int) -> NDArray[np.bool_]:
    """Anything with one truth value per action."""
    if type(mask) is np.ndarray and mask.dtype is _BOOL and mask.shape == (actions,) and mask.flags.c_contiguous:
        return mask
    legal = np.ascontiguousarray(mask, np.bool_)
    if legal.shape != (actions,):
        raise InputError(
            f"The mask has the shape {legal.shape}; it should have one entry for each of {actions} actions."
        )
    return legal
