"""Observations as text, for readers and language models: boards, cards and grids, else names and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.reference import split_reference
from mosaic.core.turn import Observation, Turn
from mosaic.envs.env import EnvSpec
from mosaic.envs.family import split_version
from mosaic.envs.text.boards import BOARDS
from mosaic.envs.text.cards import CARDS
from mosaic.envs.text.seen import SeenByAgent, TextView
from mosaic.envs.text.worlds import WORLDS

MOST_NUMBERS = 1000  # of one observation; a picture is not a text

_VIEWS: Mapping[str, TextView] = {**BOARDS, **CARDS, **WORLDS}
_NUMBERS: Mapping[str, tuple[str, ...]] = {  # by family/name without version: the meaning of each number
    "gym/CartPole": ("cart position", "cart velocity", "pole angle in radians", "pole angular velocity"),
    "gym/MountainCar": ("position", "velocity"),
    "gym/Acrobot": (
        *("cosine of angle 1", "sine of angle 1", "cosine of angle 2", "sine of angle 2"),
        *("angular velocity 1", "angular velocity 2"),
    ),
    "gym/LunarLander": (
        *("horizontal position", "height", "horizontal velocity", "vertical velocity", "angle", "angular velocity"),
        *("left leg touches the ground", "right leg touches the ground"),
    ),
}
_AIMS: Mapping[str, str] = {
    "gym/CartPole": "Keep the pole upright and the cart near the centre.",
    "gym/MountainCar": "Drive up the right hill (position 0.5); the engine is too weak to do it at once.",
    "gym/Acrobot": "Swing the tip of the two-link arm above the bar.",
    "gym/LunarLander": "Land softly on the pad at horizontal position 0 and height 0.",
}


def text_view(spec: EnvSpec, turn: Turn, agent: AgentID) -> str:
    """Return what the agent observes, as text; nothing that belongs to another agent is read.

    Envs with wrappers, which may change observations, are described by names and numbers.
    """
    name = split_version(spec.env_id)[0]
    observation = turn.observations[agent]
    plain = all(split_reference(wrapper)[0] == "time_limit" for wrapper in spec.facts.config.wrappers)
    if plain and name in _VIEWS:
        text = _VIEWS[name](SeenByAgent(spec, agent, observation, turn.infos.get(agent, {})))
        if text is not None:
            return text
    return _named_values(spec, agent, observation, name if plain else "")


def _named_values(spec: EnvSpec, agent: AgentID, observation: Observation, known: str) -> str:
    size = sum(1 for _ in _leaves(observation))
    picture = isinstance(observation, np.ndarray) and _is_picture(observation)
    if picture or size > MOST_NUMBERS:
        most = f"has {size:,} numbers, too many for a text (at most {MOST_NUMBERS:,})"
        raise InputError(
            f"An observation of {agent} in {spec.env_id} {'is a picture, not a text' if picture else most}. "
            "Describe it with a function of your own: prompt=python:MODULE:FUNCTION."
        )
    names = _NUMBERS.get(known, ())
    if names and np.shape(observation) == (len(names),):
        lines = [f"{name}: {_number(value)}" for name, value in zip(names, observation, strict=True)]
    else:
        lines = list(_lines("observation", observation))
    return "\n".join([*filter(None, [_AIMS.get(known)]), f"{agent} observes:", *lines])


def _is_picture(seen: NDArray[np.generic]) -> bool:
    return seen.dtype == np.uint8 and seen.ndim == 3 and seen.shape[2] in (1, 3, 4) and min(seen.shape[:2]) >= 10


def _lines(name: str, value: Observation) -> Iterator[str]:
    """Yield `name: value` for each part; arrays by their last axis, a row on each line."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _lines(f"{name}.{key}", part)
    elif isinstance(value, tuple) or (isinstance(value, np.ndarray) and value.ndim > 1):
        for place, part in enumerate(value):
            yield from _lines(f"{name}[{place}]", part)
    elif isinstance(value, np.ndarray | list) and np.ndim(value) == 1:
        yield f"{name}: {' '.join(map(_number, value))}"
    else:
        yield f"{name}: {_number(value)}"


def _leaves(value: Observation) -> Iterator[object]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _leaves(part)
    else:
        yield from np.ravel(np.asarray(value))


def _number(value: Any) -> str:
    item = value.item() if isinstance(value, np.generic | np.ndarray) else value
    return f"{item:.4g}" if isinstance(item, float) else str(item)
