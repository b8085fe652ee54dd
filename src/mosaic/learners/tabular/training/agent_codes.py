"""Codes of the spaces of one agent, the rules for agents that share a table, and the kind of table that fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from gymnasium.spaces import Box, Dict, Space, Tuple

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.machine import free_memory
from mosaic.envs.codes import MOST_STATES, BinsGiven, SpaceCode, space_code
from mosaic.envs.codes.space_code import count_text
from mosaic.envs.env import EnvSpec
from mosaic.learners.tabular.engines.base import table_bytes
from mosaic.learners.tabular.options import TabularOptions

Storage: TypeAlias = Literal["dense", "hashed"]  # a hashed table only has rows for states that were met
LOOK_BACK = ("q_lambda", "n_step_sarsa", "monte_carlo")  # they follow one agent's steps, one after the other
MOST_EXACT = 256  # largest number of integer values that get one bin each by default


class Codes(NamedTuple):
    states: SpaceCode
    actions: SpaceCode


def codes_of(spec: EnvSpec, agent: AgentID, bins: BinsGiven | None) -> Codes:
    """Return the codes of observations and actions; boxes of few integers need no bins: each number is one."""
    space = spec.observation_spaces[agent]
    states = space_code(space, _exact_bins(space) if bins is None else bins, most=None)
    return Codes(states, space_code(spec.action_spaces[agent]))


def needs_bins(code: SpaceCode) -> bool:
    return bool(boxes(code.space))


def boxes(space: Space[Any]) -> list[Box]:
    """Return all boxes that the space holds."""
    if isinstance(space, Box):
        return [space]
    parts = space.spaces.values() if isinstance(space, Dict) else space.spaces if isinstance(space, Tuple) else ()
    return [box for part in parts for box in boxes(part)]


def _exact_bins(space: Space[Any]) -> int | None:
    """Return as many bins as integers, or None where a Box holds other numbers."""
    found = boxes(space)
    if not found or not all(box.dtype is not None and box.dtype.kind in "iub" for box in found):
        return None
    span = max(int(box.high.max()) - int(box.low.min()) for box in found)
    return span + 1 if span < MOST_EXACT else None


def check_sharing(tables: Mapping[AgentID, str], codes: Mapping[AgentID, Codes], algorithm: str) -> None:
    """Check that agents that share a table have the same spaces and use one-step algorithms."""
    owners: dict[str, AgentID] = {}
    for agent, table in tables.items():
        other = owners.setdefault(table, agent)
        if other == agent:
            continue
        if algorithm in LOOK_BACK:
            raise InputError(
                f"{algorithm} follows the steps of one agent, and '{other}' and '{agent}' share a table. "
                "Give each its own: --policies independent. Or use another algorithm, such as q_learning."
            )
        if any(mine.space != theirs.space for mine, theirs in zip(codes[agent], codes[other], strict=True)):
            raise InputError(
                f"'{other}' and '{agent}' have different spaces and cannot share a table. "
                "Give each its own: --policies independent"
            )


def choose_storage(
    asked: Storage | None,
    states: SpaceCode,
    actions: SpaceCode,
    algorithm: str,
    options: TabularOptions,
    *,
    tables: int = 1,
    memory_limit: int | None = None,
) -> Storage:
    """Return "dense" where all rows fit: nothing is faster; `memory_limit` in bytes (None: what is free now)."""
    if asked == "hashed":
        return "hashed"
    layers = tables * (2 if algorithm == "double_q_learning" else 1)
    needed = table_bytes(states.size, actions.size, layers, options)
    free = free_memory() if memory_limit is None else memory_limit
    if states.size <= MOST_STATES and needed <= free:
        return "dense"
    if asked is None:
        return "hashed"
    raise InputError(
        f"A dense table of {count_text(states.size)} states × {actions.size:,} actions needs {count_text(needed)} "
        f"bytes; {free:,} {'are free here' if memory_limit is None else 'are allowed'}. Keep only the visited "
        "states: --set training.params.table=hashed. Or use fewer bins, or a worker that learns a function instead of "
        "a table: --worker native"
    )
