"""What can be set about tabular learning."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field

from mosaic.config.field_types import SHAPES_CHECKPOINTS
from mosaic.config.sections import Section

Algorithm: TypeAlias = Literal[
    "q_learning", "sarsa", "expected_sarsa", "double_q_learning", "q_lambda", "n_step_sarsa", "monte_carlo"
]
Exploration: TypeAlias = Literal["epsilon_greedy", "softmax", "ucb"]
TableEngine: TypeAlias = Literal["fused", "numpy", "list"]

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)  # the place in this tuple is the code in compiled loops
EXPLORATIONS: tuple[Exploration, ...] = get_args(Exploration)


class TabularOptions(Section):
    """Options of all tabular algorithms; the help of an option that only some of them use says which."""

    learning_rate: float = Field(
        0.1, gt=0, le=1, description="How far a value moves towards its target; with the schedule 'visits' unused."
    )
    learning_rate_schedule: Literal["constant", "visits"] = Field(
        "constant",
        description="'visits': 1 / how often the pair was updated (a plain average), at least learning_rate_min.",
    )
    learning_rate_min: float = Field(
        0.0, ge=0, le=1, description="Floor of the schedule 'visits'; above 0 old experience is forgotten in the end."
    )
    discount_factor: float = Field(0.99, ge=0, le=1, description="What a reward one step later is worth.")
    exploration: Annotated[Exploration, SHAPES_CHECKPOINTS] = Field(
        "epsilon_greedy",
        description="How actions are tried: epsilon_greedy, softmax (by temperature) or ucb (by visit counts).",
    )
    epsilon: float = Field(0.1, ge=0, le=1, description="Share of random actions at the start (epsilon_greedy).")
    epsilon_schedule: Literal["constant", "linear", "exponential"] = Field(
        "exponential", description="How epsilon falls from episode to episode, down to epsilon_min."
    )
    epsilon_decay: float = Field(0.995, gt=0, le=1, description="Factor on epsilon after each episode (exponential).")
    epsilon_min: float = Field(0.01, ge=0, le=1, description="Floor of epsilon; a smaller epsilon is never raised.")
    epsilon_episodes: int = Field(1000, ge=1, description="Episodes until epsilon_min is reached (linear).")
    temperature: float = Field(
        1.0, gt=0, description="Of softmax: small is greedy, large is random; in units of reward."
    )
    ucb_c: float = Field(1.0, ge=0, description="Weight of what is little known (ucb).")
    initial_value: float = Field(0.0, description="Value of every pair at the start; a high one invites trying all.")
    lambda_: float = Field(0.9, ge=0, le=1, description="How slowly traces fade (q_lambda).")
    n_step: int = Field(
        4, ge=1, le=100_000, description="Rewards in a target before the table is asked (n_step_sarsa)."
    )
    dtype: Annotated[Literal["float32", "float64"], SHAPES_CHECKPOINTS] = Field(
        "float32", description="Precision of the table."
    )
    table_engine: TableEngine = Field(
        "fused", description="Who computes: fused (compiled), numpy, or list (plain Python); all give the same numbers."
    )
