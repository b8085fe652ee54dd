"""Spaces of a game's agents: reading its observations, and writing actions as it expects them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.errors import MosaicError
from mosaic.core.turn import Action, Observation
from mosaic.envs.godot.messages import ActionPart, ActionParts, GameError, Json, ObservationPart, ObservationParts

_PICTURE = "2d"  # in the name of a part: an image, sent as hexadecimal digits
_MOST_NUMBERS = 2**26
_MOST_CHOICES = 2**20
_SHORT = 200  # numbers up to which struct is faster than numpy
_FLOAT32 = np.dtype(np.float32)

Encode: TypeAlias = Callable[[Action], dict[str, object]]


class _Reader(NamedTuple):
    key: str
    read: Callable[[Json], object]


@dataclass(frozen=True, slots=True)
class ObservationCode:
    """Observation space of an agent, and how to read the game's observations into it."""

    space: spaces.Dict
    readers: tuple[_Reader, ...]

    def read(self, sent: Mapping[str, Json]) -> Observation:
        """Return the observation; raise GameError if it is not what the game declared."""
        key, found = "", {}
        try:
            for key, read in self.readers:
                found[key] = read(sent[key])
        except KeyError:
            raise GameError(f"its observation has no '{key}', only {', '.join(sent) or 'nothing'}") from None
        except GameError as error:
            raise GameError(f"its observation '{key}' {error}") from error
        return found


def observation_code(parts: ObservationParts, bound: float | None) -> ObservationCode:
    """Return the code of an agent's observations; `bound` is that of vectors without bounds of their own."""
    if not parts:
        raise GameError("The game declares an agent without observations: get_obs_space should name at least one.")
    made = {key: _observation_part(key, part, bound) for key, part in parts.items()}
    space = spaces.Dict({key: inner for key, (inner, _) in made.items()})
    return ObservationCode(space, tuple(_Reader(key, made[key][1]) for key in space.spaces))


def _observation_part(
    key: str, part: ObservationPart, bound: float | None
) -> tuple[Space[object], Callable[[Json], object]]:
    shape = (part.size,) if isinstance(part.size, int) else part.size
    if not shape or min(shape) < 1 or np.prod(shape, dtype=float) > _MOST_NUMBERS:
        raise GameError(f"The game declares the observation '{key}' with the size {list(shape)}.")
    match part.space:
        case "box" if _PICTURE in key:
            return spaces.Box(0, 255, shape, np.uint8), _picture_reader(shape)
        case "box":
            usual = np.inf if bound is None else bound
            low, high = -usual if part.low is None else part.low, usual if part.high is None else part.high
            if not low < high:
                raise GameError(f"The game declares the observation '{key}' from {low:g} to {high:g}.")
            return spaces.Box(low, high, shape, np.float32), _vector_reader(shape)
        case "discrete" if len(shape) == 1:
            return spaces.Discrete(shape[0]), _choice_reader(shape[0])
    raise GameError(
        f"The game declares the observation '{key}' as '{part.space}' of size {list(shape)}. "
        "Known: box, and discrete with one number as its size."
    )


def _vector_reader(shape: tuple[int, ...]) -> Callable[[Json], object]:
    size = int(np.prod(shape))
    floats = struct.Struct(f"{size}f")

    def read_any(sent: Json) -> NDArray[np.float32]:
        try:
            numbers = np.asarray(sent)
        except ValueError as error:
            raise GameError("is a list of lists of different lengths") from error
        if numbers.dtype.kind not in "fiub":
            raise GameError(f"should hold numbers, and is {str(sent)[:80]}")
        if numbers.size != size:
            raise GameError(f"has {numbers.size} numbers, and the game declared {size}; sizes must not change")
        with np.errstate(over="ignore"):
            vector = numbers.astype(np.float32).reshape(shape)
        if not np.isfinite(vector).all():
            where = np.flatnonzero(~np.isfinite(vector))[0]
            raise GameError(f"holds {vector.ravel()[where]} at {where}, which is not a finite number")
        return vector

    def read(sent: Json) -> NDArray[np.float32]:
        # Packing fails unless these are `size` numbers within float32; JSON has neither NaN nor infinity.
        if type(sent) is list:
            try:
                return np.frombuffer(bytearray(floats.pack(*sent)), _FLOAT32)
            except (struct.error, OverflowError):
                return read_any(sent)  # says what is wrong
        return read_any(sent)

    return read if len(shape) == 1 and size <= _SHORT else read_any


def _picture_reader(shape: tuple[int, ...]) -> Callable[[Json], object]:
    size = int(np.prod(shape))

    def read(sent: Json) -> NDArray[np.uint8]:
        if not isinstance(sent, str):
            raise GameError(f"should be an image as hexadecimal digits, and is {str(sent)[:80]}")
        try:
            pixels = np.frombuffer(bytes.fromhex(sent), np.uint8)
        except ValueError as error:
            raise GameError(f"should be an image as hexadecimal digits, and is {sent[:80]!r}") from error
        if pixels.size != size:
            raise GameError(f"has {pixels.size} bytes, and the game declared {size} ({shape}); sizes must not change")
        return pixels.reshape(shape)

    return read


def _choice_reader(choices: int) -> Callable[[Json], object]:
    def read(sent: Json) -> int:
        value = sent[0] if isinstance(sent, list) and len(sent) == 1 else sent
        if isinstance(value, float) and value.is_integer():  # the engine writes every number so
            value = int(value)
        if type(value) is not int or not 0 <= value < choices:
            raise GameError(f"should be a whole number from 0 to {choices - 1}, and is {str(sent)[:80]}")
        return value

    return read


class NotFiniteActionError(MosaicError):
    """Action with a number that is NaN or infinite."""


@dataclass(frozen=True, slots=True)
class GameActionCode:
    """Action space of an agent, and how to write its actions for the game."""

    space: Space[object]
    encode: Encode
    neutral: dict[str, object]  # no movement and the first choices: for an agent that is done


def action_code(parts: ActionParts, *, flat: bool) -> GameActionCode:
    """Return the code of an agent's actions: of its parts, or one space that every learner can act in.

    A flat space is Discrete or MultiDiscrete where all parts are choices, otherwise a Box from -1 to 1 in the order of
    the parts. A choice among n takes n of its numbers, and the greatest decides.
    """
    if not parts:
        raise GameError("The game declares an agent without actions: get_action_space should name at least one.")
    for key, part in parts.items():
        _check_action(key, part)
    neutral: dict[str, object] = {key: 0 if _chooses(part) else [0.0] * part.size for key, part in parts.items()}
    space, encode = _flat(parts) if flat else _separate(parts)
    return GameActionCode(space, encode, neutral)


def _check_action(key: str, part: ActionPart) -> None:
    if part.action_type not in ("discrete", "continuous"):
        raise GameError(
            f"The game declares the action '{key}' as '{part.action_type}'. Known: continuous and discrete."
        )
    if not 1 <= part.size <= _MOST_CHOICES:
        raise GameError(f"The game declares the action '{key}' with the size {part.size}.")


def _chooses(part: ActionPart) -> bool:
    return part.action_type == "discrete"


def _separate(parts: ActionParts) -> tuple[Space[object], Encode]:
    inner = {
        key: spaces.Discrete(part.size) if _chooses(part) else spaces.Box(-1, 1, (part.size,), np.float32)
        for key, part in parts.items()
    }

    def numbers(action: Action) -> list[float]:
        row: list[float] = np.asarray(action).tolist()
        if not isfinite(sum(row)):
            raise _not_finite(row)
        return _clamped(row)

    def encode(action: Action) -> dict[str, object]:
        return {key: int(action[key]) if _chooses(part) else numbers(action[key]) for key, part in parts.items()}

    return spaces.Dict(inner), encode


def _flat(parts: ActionParts) -> tuple[Space[object], Encode]:
    keys, sizes = tuple(parts), [part.size for part in parts.values()]
    choices = [_chooses(part) for part in parts.values()]
    if choices == [True]:
        return spaces.Discrete(sizes[0]), lambda action: {keys[0]: int(action)}
    if all(choices):
        return spaces.MultiDiscrete(sizes), lambda action: dict(zip(keys, np.asarray(action).tolist(), strict=True))
    bounds = np.cumsum([0, *sizes]).tolist()
    blocks = list(zip(keys, choices, map(slice, bounds[:-1], bounds[1:]), strict=True))

    def encode(action: Action) -> dict[str, object]:
        row = np.asarray(action).tolist()
        if not isfinite(sum(row)):
            raise _not_finite(row)
        inside = min(row) >= -1.0 and max(row) <= 1.0
        sent: dict[str, object] = {}
        for key, chooses, where in blocks:
            part = row[where]
            sent[key] = part.index(max(part)) if chooses else part if inside else _clamped(part)
        return sent

    return spaces.Box(-1, 1, (bounds[-1],), np.float32), encode


def _not_finite(numbers: list[float]) -> NotFiniteActionError:
    """Return the refusal of an action: JSON has neither NaN nor infinity, and the game would read null."""
    return NotFiniteActionError(f"is not finite: {str(numbers)[:80]}")


def _clamped(numbers: list[float]) -> list[float]:
    return [min(max(number, -1.0), 1.0) for number in numbers]
