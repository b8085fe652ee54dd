"""Encoding of observations as float32 rows, and decoding of rows to actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.turn import Action, Observation

Row: TypeAlias = NDArray[np.float32]
PictureLayout: TypeAlias = Literal["grey", "channels first", "channels last"]
SMALLEST_PICTURE = 8  # pixels; boards of games are smaller or not of bytes
MOST_COLOURS = 4
BRIGHTEST = np.float32(255)  # the number that a row holds as 1
_EXACT_LIMIT = 2**24  # float32 represents all integers up to here


@dataclass(frozen=True, slots=True)
class ActionHead:
    """Network outputs for one decision."""

    kind: Literal["categorical", "gaussian", "squashed"]  # squashed: a Gaussian through tanh, from -1 to 1
    sizes: tuple[int, ...]  # categorical: the number of choices of each part; else the number of components, alone

    @property
    def width(self) -> int:
        """Number of outputs; a squashed Gaussian has means, then log deviations."""
        return 2 * self.sizes[0] if self.kind == "squashed" else sum(self.sizes)

    @property
    def parts(self) -> int:
        """Number of columns of an action row."""
        return len(self.sizes) if self.kind == "categorical" else self.sizes[0]


class RowPart(NamedTuple):
    """A range of a row, with its shape before flattening."""

    name: str  # keys and positions joined by dots; "observation" if the space has one part
    start: int
    shape: tuple[int, ...]
    picture: bool  # bytes of (height, width, channels), scaled to 0..1

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class RowCode:
    """Encoding of the observations of one space as flat rows."""

    width: int
    parts: tuple[RowPart, ...]
    write: Callable[[Observation, Row], None]  # (observation, out f32[width])


@dataclass(frozen=True, slots=True)
class ActionCode:
    """Decoding of rows to actions of one space."""

    head: ActionHead
    action: Callable[[Row], Action]  # a new action from f32[head.parts]


class Leaf(NamedTuple):
    """A space without inner spaces, and its place in the space that holds it."""

    path: tuple[str | int, ...]
    space: Space[object]


def row_code(space: Space[object]) -> RowCode:
    """Return the code of an observation space; parts of Dict and Tuple are concatenated in Gymnasium's order."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _joined(space)
    part, write = _stretch(space, "observation", 0)
    return RowCode(part.size, (part,), write)


def action_code(space: Space[object]) -> ActionCode:
    """Return the code of an action space, if a learner can act in it."""
    if isinstance(space, spaces.Discrete):
        return ActionCode(ActionHead("categorical", (int(space.n),)), _choice(int(space.start)))
    if isinstance(space, spaces.MultiDiscrete):
        sizes = tuple(int(n) for n in space.nvec.ravel())
        return ActionCode(ActionHead("categorical", sizes), _choices(space.shape, space.dtype, space.start))
    if isinstance(space, spaces.MultiBinary):
        sizes = (2,) * int(np.prod(space.shape))
        return ActionCode(ActionHead("categorical", sizes), _choices(space.shape, space.dtype, 0))
    if isinstance(space, spaces.Box) and _countable(space):
        return ActionCode(ActionHead("gaussian", (int(np.prod(space.shape)),)), _numbers(space))
    raise InputError(
        f"A learner cannot choose actions of {space}. It can act in Discrete, MultiDiscrete, MultiBinary and Box "
        "(of floats, or of integers below 16777216): wrap the env so that its actions are one of these."
    )


class ActionRange(NamedTuple):
    """Bounds of a Box as shift and scale: numbers from -1 to 1 become shift + scale * number."""

    shift: Row
    scale: Row


def action_range(space: Space[object]) -> ActionRange | None:
    """Return the range of a Box of floats; None for other spaces, and for a Box without bounds."""
    if not isinstance(space, spaces.Box) or np.dtype(space.dtype).kind != "f":
        return None
    low, high = np.ravel(space.low).astype(np.float32), np.ravel(space.high).astype(np.float32)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    half = np.float32(0.5)
    return ActionRange(half * (low + high), half * (high - low))


def squashed_code(space: Space[object]) -> ActionCode:
    """Return the code of a bounded Box whose rows are numbers from -1 to 1."""
    bounds, code = action_range(space), action_code(space)
    if bounds is None:
        raise InputError(f"Actions from -1 to 1 need a Box of floats with bounds, not {space}.")
    shift, scale = bounds
    return ActionCode(ActionHead("squashed", code.head.sizes), lambda row: code.action(shift + scale * row))


def action_rows(space: Space[object], actions: NDArray[np.generic]) -> NDArray[np.float32]:
    """Return actions of a space that `action_code` knows as rows, from which `ActionCode.action` makes them again."""
    rows = np.asarray(actions).reshape(len(actions), -1)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        rows = rows - np.ravel(space.start)
    return rows.astype(np.float32)


def _choice(start: int) -> Callable[[Row], Action]:
    if start == 0:
        return lambda row: int(row[0])
    return lambda row: int(row[0]) + start


def _choices(
    shape: tuple[int, ...], dtype: np.dtype[np.generic] | None, start: NDArray[np.integer] | int
) -> Callable[[Row], Action]:
    return lambda row: (row.reshape(shape) + start).astype(dtype)


def _numbers(space: spaces.Box) -> Callable[[Row], Action]:
    shape, dtype = space.shape, np.dtype(space.dtype)
    if dtype.kind != "f":
        return lambda row: np.clip(np.rint(row.reshape(shape)), space.low, space.high).astype(dtype)
    low, high = space.low, space.high
    if dtype == np.float32:  # `minimum(maximum())` costs half of `np.clip`, and makes the copy that an action needs
        return lambda row: np.minimum(np.maximum(row.reshape(shape), low), high)
    return lambda row: np.clip(row.reshape(shape).astype(dtype), low, high)


def _countable(space: spaces.Box) -> bool:
    if np.dtype(space.dtype).kind == "f":
        return True
    return bool((space.low.astype(float) >= -_EXACT_LIMIT).all() and (space.high.astype(float) <= _EXACT_LIMIT).all())


def _stretch(space: Space[object], name: str, start: int) -> tuple[RowPart, Callable[[Observation, Row], None]]:
    """Return the part of a row for a space without inner spaces, and its writer."""
    if isinstance(space, spaces.Box):
        layout = picture_layout(space)
        if layout is not None:
            first = layout == "channels first"
            return RowPart(name, start, _picture_shape(space, layout), True), _write_turned if first else _write_picture
        return RowPart(name, start, space.shape or (1,), False), _write_flat if len(
            space.shape
        ) == 1 else _write_raveled
    if isinstance(space, spaces.MultiBinary):
        return RowPart(name, start, space.shape, False), _write_raveled
    if isinstance(space, spaces.Discrete):
        return RowPart(name, start, (int(space.n),), False), _one_hot(int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return RowPart(name, start, (int(space.nvec.sum()),), False), _one_hots(space)
    raise InputError(
        f"A learner cannot read observations of {space}. It can read Box, Discrete, MultiDiscrete, MultiBinary, and "
        "Dict or Tuple of these: wrap the env so that it shows one of them."
    )


def picture_layout(space: spaces.Box) -> PictureLayout | None:
    """Return the axis order of an image; None if the space does not hold images.

    Three axes are channels first if the first is shorter than both others and the last is too long for colours. Two
    axes are an image if they have the whole range of bytes: otherwise they are a map with values of its own.
    """
    if space.dtype != np.uint8:
        return None
    shape = space.shape
    if len(shape) == 2:
        full = int(space.low.min()) == 0 and int(space.high.max()) == BRIGHTEST
        return "grey" if full and min(shape) >= SMALLEST_PICTURE else None
    if len(shape) != 3:
        return None
    if shape[0] < min(shape[1:]) and shape[2] > MOST_COLOURS and min(shape[1:]) >= SMALLEST_PICTURE:
        return "channels first"
    return "channels last" if min(shape[:2]) >= SMALLEST_PICTURE else None


def _picture_shape(space: spaces.Box, layout: PictureLayout) -> tuple[int, ...]:
    """Return height, width and channels."""
    match layout:
        case "grey":
            return (*space.shape, 1)
        case "channels first":
            return (*space.shape[1:], space.shape[0])
        case "channels last":
            return space.shape


def _write_flat(observation: Observation, out: Row) -> None:
    out[:] = observation


def _write_raveled(observation: Observation, out: Row) -> None:
    out[:] = np.ravel(observation)


def _write_picture(observation: Observation, out: Row) -> None:
    pixels = np.ravel(observation)
    np.divide(pixels if pixels.dtype == np.uint8 else _as_bytes(pixels), BRIGHTEST, out=out)


def _as_bytes(pixels: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Convert numbers that an env gave in another type to bytes; raise if they do not match its space."""
    with np.errstate(invalid="ignore"):
        made = pixels.astype(np.uint8)
    if not (made == pixels).all():
        raise MosaicError(
            f"The env's space says that its pictures are whole numbers of uint8 from 0 to 255, and it showed "
            f"{pixels.dtype} from {pixels.min():g} to {pixels.max():g}. Make it return uint8, or declare a Box of the "
            "type and range that it shows."
        )
    return made


def _write_turned(observation: Observation, out: Row) -> None:
    _write_picture(np.moveaxis(observation, 0, 2), out)


def _one_hot(start: int) -> Callable[[Observation, Row], None]:
    def write(observation: Observation, out: Row) -> None:
        out.fill(0)
        out[observation - start] = 1

    return write


def _one_hots(space: spaces.MultiDiscrete) -> Callable[[Observation, Row], None]:
    sizes = space.nvec.ravel()
    shift = np.cumsum(sizes) - sizes - np.ravel(space.start)

    def write(observation: Observation, out: Row) -> None:
        out.fill(0)
        out[np.ravel(observation) + shift] = 1

    return write


def _joined(space: spaces.Dict | spaces.Tuple) -> RowCode:
    parts: list[RowPart] = []
    steps: list[tuple[tuple[str | int, ...], slice, Callable[[Observation, Row], None]]] = []
    start = 0
    for leaf in leaves(space):
        part, write = _stretch(leaf.space, ".".join(map(str, leaf.path)), start)
        parts.append(part)
        steps.append((leaf.path, slice(start, start + part.size), write))
        start += part.size

    def write_all(observation: Observation, out: Row) -> None:
        for path, where, write in steps:
            seen = observation
            for key in path:
                seen = seen[key]
            write(seen, out[where])

    return RowCode(start, tuple(parts), write_all)


def leaves(space: Space[object], path: tuple[str | int, ...] = ()) -> Iterator[Leaf]:
    """Yield the inner spaces of Dict and Tuple in Gymnasium's order; any other space is its only leaf."""
    inner: Iterable[tuple[str | int, Space[object]]]
    if isinstance(space, spaces.Dict):
        inner = space.spaces.items()
    elif isinstance(space, spaces.Tuple):
        inner = enumerate(space.spaces)
    else:
        yield Leaf(path, space)
        return
    for key, part in inner:
        yield from leaves(part, (*path, key))
