"""Options of tabular learners, their checks and error messages."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, assert_never, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS
from mosaic.config.sections import Section
from mosaic.core.errors import InputError, unknown

Algorithm: TypeAlias = Literal[
    "q_learning", "sarsa", "expected_sarsa", "double_q_learning", "q_lambda", "n_step_sarsa", "monte_carlo"
]
Exploration: TypeAlias = Literal["epsilon_greedy", "softmax", "ucb"]
TableEngine: TypeAlias = Literal["fused", "numpy", "list"]

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)  # the index in this tuple is the code in compiled loops
EXPLORATIONS: tuple[Exploration, ...] = get_args(Exploration)


class TabularOptions(Section):
    """Options of all tabular algorithms; the help of an option that only some of them use says which."""

    learning_rate: Annotated[float, BASIC] = Field(
        0.1, gt=0, le=1, description="Step size towards the target; unused with the schedule 'visits'."
    )
    learning_rate_schedule: Literal["constant", "visits"] = Field(
        "constant",
        description="'visits': 1 / number of updates of the pair (a plain average), at least learning_rate_min.",
    )
    learning_rate_min: float = Field(
        0.0, ge=0, le=1, description="Floor of the schedule 'visits'; above 0, old experience is gradually forgotten."
    )
    discount_factor: Annotated[float, BASIC] = Field(0.99, ge=0, le=1, description="Discount factor.")
    exploration: Annotated[Exploration, SHAPES_CHECKPOINTS, BASIC] = Field(
        "epsilon_greedy",
        description="Exploration strategy: epsilon_greedy, softmax (by temperature) or ucb (by visit counts).",
    )
    epsilon: Annotated[float, BASIC] = Field(
        0.1, ge=0, le=1, description="Share of random actions at the start (epsilon_greedy)."
    )
    epsilon_schedule: Literal["constant", "linear", "exponential"] = Field(
        "exponential", description="How epsilon decays per episode, down to epsilon_min."
    )
    epsilon_decay: Annotated[float, BASIC] = Field(
        0.995, gt=0, le=1, description="Factor on epsilon after each episode (exponential)."
    )
    epsilon_min: Annotated[float, BASIC] = Field(
        0.01, ge=0, le=1, description="Floor of epsilon; a smaller epsilon is never raised."
    )
    epsilon_episodes: int = Field(1000, ge=1, description="Episodes until epsilon_min is reached (linear).")
    temperature: float = Field(
        1.0, gt=0, description="Temperature of softmax, in units of reward: small is greedy, large is random."
    )
    ucb_c: float = Field(1.0, ge=0, description="Weight of rarely tried actions (ucb).")
    initial_value: float = Field(
        0.0, description="Value of every pair at the start; a high value encourages exploration."
    )
    lambda_: float = Field(0.9, ge=0, le=1, description="Decay factor of eligibility traces (q_lambda).")
    n_step: int = Field(4, ge=1, le=100_000, description="Rewards in a target before bootstrapping (n_step_sarsa).")
    dtype: Annotated[Literal["float32", "float64"], SHAPES_CHECKPOINTS] = Field(
        "float32", description="Precision of the table."
    )
    table_engine: TableEngine = Field(
        "fused",
        description="Implementation: fused (compiled), numpy, or list (plain Python); all give the same numbers.",
    )


_BOOL = np.dtype(np.bool_)


def checked_algorithm(name: str) -> Algorithm:
    for algorithm in ALGORITHMS:
        if algorithm == name.lower():
            return algorithm
    raise unknown("tabular algorithm", name, ALGORITHMS)


def bad_size(what: str, size: object) -> InputError:
    return InputError(f"A table needs a whole number of {what}, at least 1, not {size!r}.")


def bad_index(what: str, index: object, size: int) -> InputError:
    if not isinstance(index, int | np.integer) or isinstance(index, bool):
        return InputError(f"The {what} is {index!r}; it should be a whole number in 0..{size - 1}.")
    return InputError(f"The {what} {index} is outside the table, which has {what}s 0..{size - 1}.")


def bad_reward(reward: object) -> InputError:
    return InputError(f"The reward is {reward}; it should be a finite number. The table was not changed.")


def nothing_legal(state: int) -> InputError:
    return InputError(
        f"The mask of state {state} allows no action. An episode without legal actions is over: "
        "the env should set terminated."
    )


def overflown(state: int, action: int) -> InputError:
    return InputError(
        f"The value of state {state}, action {action} is no longer a finite number: "
        "the rewards are too large for the table, or the values diverge. Use dtype float64, smaller rewards or a "
        "discount_factor below 1."
    )


def checked_mask(mask: ArrayLike, actions: int) -> NDArray[np.bool_]:
    """Return the mask as booleans; any sequence with one truth value per action will do."""
    if type(mask) is np.ndarray and mask.dtype is _BOOL and mask.shape == (actions,) and mask.flags.c_contiguous:
        return mask
    legal = np.ascontiguousarray(mask, np.bool_)
    if legal.shape != (actions,):
        raise InputError(
            f"The mask has the shape {legal.shape}; it should have one entry for each of {actions} actions."
        )
    return legal


def epsilon_after(options: TabularOptions, epsilon: float, episode: int) -> float:
    """Return epsilon after `episode` episodes, given that of the last of them."""
    match options.epsilon_schedule:
        case "constant":
            return epsilon
        case "exponential":
            return exponential(epsilon, options.epsilon_decay, min(options.epsilon_min, options.epsilon))
        case "linear":
            floor = min(options.epsilon_min, options.epsilon)
            return linear(options.epsilon, floor, episode, options.epsilon_episodes)
    assert_never(options.epsilon_schedule)


def exponential(epsilon: float, decay: float, floor: float) -> float:
    """Return the next epsilon; repeated multiplication is equal in every language, powers are not."""
    return max(floor, epsilon * decay)


def linear(start: float, floor: float, episode: int, episodes: int) -> float:
    """Return the value of a line from `start` at episode 0 to `floor` at `episodes`, flat after it."""
    return floor if episode >= episodes else start + (floor - start) * (episode / episodes)


def rate_by_visits(visits: int, floor: float) -> float:
    """Return the learning rate of a pair's n-th update, under which its value is the average of its targets."""
    return max(1.0 / visits, floor)
