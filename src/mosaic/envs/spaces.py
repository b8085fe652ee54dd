"""Observation and action spaces: action masks, legal actions and descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import InputError
from mosaic.core.turn import Action, Mask, Observation
from mosaic.envs.codes import SpaceCode, draw_legal, forbidden_part, join_mask, space_code

MASK = "action_mask"


def has_mask(space: Space[object]) -> bool:
    return isinstance(space, spaces.Dict) and MASK in space.spaces


def inner_space(space: Space[object]) -> Space[object]:
    """Return the observation space without the mask; {"observation", "action_mask"} becomes the observation alone."""
    if not isinstance(space, spaces.Dict) or MASK not in space.spaces:
        return space
    rest = {key: part for key, part in space.spaces.items() if key != MASK}
    return rest["observation"] if rest.keys() == {"observation"} else spaces.Dict(rest)


def mask_reader(space: Space[object]) -> Callable[[Observation], Mask]:
    """Return a function that converts an env's masks for this action space to the form used in a Turn.

    That is one flag per action of a Discrete. For MultiDiscrete, MultiBinary, Tuple and Dict it is the flags of all
    parts, concatenated; an env may also give them as a tuple or dict of masks.
    """
    if isinstance(space, spaces.Discrete):
        return _flags
    code = parts_of(space)
    return _flags if code is None else lambda mask: join_mask(code, mask)


def parts_of(space: Space[object]) -> SpaceCode | None:
    """Return the code whose digits are the parts of an action; None if actions are not choices, as in a Box."""
    try:
        return space_code(space, most=None)
    except InputError:
        return None


def _flags(mask: object) -> Mask:
    return np.asarray(mask).astype(np.bool_)  # astype copies: the env may reuse its buffer


def split(
    observation: Observation, info: Mapping[str, object], read: Callable[[Observation], Mask] = _flags
) -> tuple[Observation, Mask | None]:
    """Split into observation and mask, wherever the env put the mask (PettingZoo: observation first, then info)."""
    if isinstance(observation, dict) and MASK in observation:
        mask = observation[MASK]
        if len(observation) == 2 and "observation" in observation:
            observation = observation["observation"]
        else:
            observation = {key: part for key, part in observation.items() if key != MASK}
    elif MASK in info:
        mask = info[MASK]
    else:
        return observation, None
    return observation, read(mask)


def draw_action(space: Space[object], mask: Mask | None, random: Random) -> Action:
    """Return a random legal action; only spaces other than Discrete are sampled, which changes their own streams."""
    if not isinstance(space, spaces.Discrete):
        code = None if mask is None else parts_of(space)
        return space.sample() if mask is None or code is None else draw_legal(code, mask, random.choice)
    if mask is None:
        return int(space.start) + random.randrange(int(space.n))
    return int(space.start) + int(random.choice(mask.nonzero()[0]))


def objection(space: Space[object]) -> Callable[[Action, Mask | None], str | None]:
    """Return a function that returns why an action is not allowed, or None; much cheaper than `space.contains`."""
    if isinstance(space, spaces.Discrete):
        low = int(space.start)
        high = low + int(space.n)

        def discrete(action: Action, mask: Mask | None) -> str | None:
            # booleans, floats and negative numbers would slip through `mask[action]`; 0-d arrays are changed in place
            # by MPE (`action //= 5`), so they are refused as well
            if type(action) is not int and not isinstance(action, np.integer):
                return f"{action!r}, which is not an integer"
            if not low <= action < high:
                return f"{action}, outside {low}..{high - 1}"
            if mask is not None and not mask[action - low]:
                return f"{action}, which is illegal here (legal: {legal_text(mask, low)})"
            return None

        return discrete
    if isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind == "f":
        shape = space.shape

        def box(action: Action, mask: Mask | None) -> str | None:
            if np.shape(action) != shape:
                return f"an array of shape {np.shape(action)} instead of {shape}"
            try:
                # x - x is 0 unless x is inf or nan; bounds are left to the env, as Gymnasium's own envs clip
                finite = np.add.reduce(np.subtract(action, action), axis=None) == 0
            except TypeError:
                return f"{action!r}, which is not an array of numbers"
            return None if finite else f"{action!r}, which is not finite"

        return box

    code = parts_of(space)

    def other(action: Action, mask: Mask | None) -> str | None:
        if not space.contains(action):
            return f"{action!r}, which is not in {space}"
        part = None if mask is None or code is None else forbidden_part(code, mask, action)
        return None if part is None else f"{action!r}, whose part {part} is illegal here"

    return other


def legal_text(mask: Mask, low: int = 0, most: int = 20) -> str:
    """Return the legal actions as a short list."""
    legal = np.flatnonzero(mask) + low
    return ", ".join(map(str, legal[:most])) + (f" and {len(legal) - most} more" if len(legal) > most else "")


def describe_space(space: Space[object]) -> str:
    """Describe as `Box(4) float32`, `Discrete(9)`, `84×84×3 uint8`, `Dict(a: Discrete(2), b: Box(3) float32)`."""
    match space:
        case spaces.Discrete():
            low, count = int(space.start), int(space.n)
            return f"Discrete({low}..{low + count - 1})" if low else f"Discrete({count})"
        case spaces.Box(shape=shape, dtype=dtype):
            sizes = "×".join(map(str, shape))
            return f"{sizes} {dtype}" if len(shape) > 1 else f"Box({sizes}) {dtype}"
        case spaces.MultiDiscrete(nvec=nvec):
            return f"MultiDiscrete({_listed(nvec.ravel().tolist())})"
        case spaces.MultiBinary(shape=shape):
            return f"MultiBinary({'×'.join(map(str, shape))})"
        case spaces.Dict():
            return f"Dict({', '.join(f'{key}: {describe_space(part)}' for key, part in space.spaces.items())})"
        case spaces.Tuple():
            return f"Tuple({', '.join(map(describe_space, space.spaces))})"
        case spaces.Sequence():
            return f"Sequence({describe_space(space.feature_space)})"
        case spaces.Text():
            return f"Text({space.min_length}..{space.max_length})"
    return type(space).__name__


def _listed(numbers: list[int], most: int = 8) -> str:
    return ", ".join(map(str, numbers[:most])) + (f", … {len(numbers)} in all" if len(numbers) > most else "")


def kept(observation: Observation) -> Observation:
    """Return a private copy; envs of the catalog need none (tested), other envs may reuse buffers."""
    if isinstance(observation, np.ndarray):
        return observation.copy()
    if isinstance(observation, dict):
        return {key: kept(part) for key, part in observation.items()}
    if isinstance(observation, tuple | list):
        return type(observation)(map(kept, observation))
    return observation


def unkept(observation: Observation) -> Observation:
    return observation
