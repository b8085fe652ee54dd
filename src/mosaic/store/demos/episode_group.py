"""Trajectories in HDF5 groups, laid out as Minari's episodes.

What is read may come from strangers: links and data outside of the file are refused, and so are shapes that differ from
the space and numbers that were never written.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError
from mosaic.core.ids import AgentID
from mosaic.runners.trajectories import Rows, Trajectory

if TYPE_CHECKING:
    import h5py

MASK, CONTROLLER, ENV_STEP = "infos/action_mask", "infos/controller", "infos/env_step"
LABELS = "controllers"  # attribute: JSON list of policies, which CONTROLLER numbers
_COMPRESSED_FROM = 1 << 16  # bytes
_LARGEST_RATIO = 1100  # deflate reaches 1032; more was never written
_MOST_LABEL_BYTES = 60_000  # HDF5 keeps attributes below 64 KiB


def check_recordable(space: Space[object], what: str) -> None:
    """Raise InputError if members of the space cannot be kept in a dataset."""
    match space:
        case spaces.Dict():
            for key, part in space.spaces.items():
                if not isinstance(key, str) or not key or "/" in key or "\0" in key or key in (".", ".."):
                    raise InputError(f"{what} has a part named {key!r}; names in a dataset are text without '/'.")
                check_recordable(part, f"{what}[{key!r}]")
        case spaces.Tuple():
            for index, part in enumerate(space.spaces):
                check_recordable(part, f"{what}[{index}]")
        case spaces.Box() if len(space.shape) > 1 and 0 in space.shape:  # Minari's metadata loses the shape
            raise InputError(f"{what} is a Box without numbers, of several dimensions, which a dataset cannot hold.")
        case spaces.Discrete() | spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary() | spaces.Text():
            pass
        case _:
            raise InputError(
                f"{what} is a {type(space).__name__} space, which a dataset cannot hold. It can hold Box, Discrete, "
                "MultiDiscrete, MultiBinary, Text, and Dict and Tuple of these."
            )


def write_trajectory(group: h5py.Group, trajectory: Trajectory, seed: int | None) -> None:
    """Write an episode; `seed` is the env's."""
    steps = len(trajectory)
    labels = list(dict.fromkeys(trajectory.controllers))
    named = json.dumps(labels)
    if len(named) > _MOST_LABEL_BYTES:
        raise InputError(f"{len(labels)} policies acted for '{trajectory.agent}' in one episode, too many to keep.")
    group.attrs["total_steps"] = steps
    group.attrs[LABELS] = named
    if seed is not None:
        group.attrs["seed"] = np.uint64(seed)
    _write(group, "observations", trajectory.observation_space, trajectory.observations)
    _write(group, "actions", trajectory.action_space, trajectory.actions)
    ends = np.zeros((2, steps), np.bool_)
    ends[:, -1] = trajectory.terminated, trajectory.truncated
    _put(group, "rewards", trajectory.rewards)
    _put(group, "terminations", ends[0])
    _put(group, "truncations", ends[1])
    number = {label: index for index, label in enumerate(labels)}
    _put(group, CONTROLLER, np.array([number[label] for label in trajectory.controllers], np.int32))
    _put(group, ENV_STEP, trajectory.env_steps)
    if trajectory.masks is not None:
        _put(group, MASK, trajectory.masks)


def _write(group: h5py.Group, name: str, space: Space[object], rows: Rows) -> None:
    match space:
        case spaces.Dict():
            inner = group.create_group(name)
            for key, part in space.spaces.items():
                _write(inner, key, part, rows[key])
        case spaces.Tuple():
            inner = group.create_group(name)
            for index, part in enumerate(space.spaces):
                _write(inner, f"_index_{index}", part, rows[index])
        case spaces.Text():
            import h5py

            if any("\0" in text for text in rows):
                raise InputError("A dataset cannot hold a text with a NUL character.")
            group.create_dataset(name, data=rows, dtype=h5py.string_dtype(encoding="utf-8"))
        case _:
            _put(group, name, rows)


def _put(group: h5py.Group, name: str, rows: NDArray[Any]) -> None:
    if rows.nbytes >= _COMPRESSED_FROM:
        group.create_dataset(name, data=rows, compression="gzip", compression_opts=1, shuffle=True)
    else:
        group.create_dataset(name, data=rows)


def read_outline(group: h5py.Group, unlabelled: str) -> tuple[float, tuple[str, ...]]:
    """Return the sum of an episode's rewards and the controller of every step."""
    rewards = _numbers(group, "rewards", None, np.dtype(np.float64))
    return float(rewards.sum()), _controllers(group, len(rewards), unlabelled)


class EpisodeReader:
    """Reader of the episodes of one agent's dataset."""

    def __init__(
        self, agent: AgentID, observation_space: Space[object], action_space: Space[object], *, jpeg: bool = False
    ) -> None:
        """Create a reader; `jpeg` says that pictures are stored as JPEG files, as Minari does by default."""
        self._agent, self._observation_space, self._action_space = agent, observation_space, action_space
        self._jpeg = jpeg

    def read(self, group: h5py.Group, unlabelled: str) -> Trajectory:
        """Return the trajectory; `unlabelled` is the controller of datasets that do not name it."""
        rewards = _numbers(group, "rewards", None, np.dtype(np.float64))
        steps = len(rewards)
        if not steps:
            raise FormatError(f"{group.name} has no steps")
        terminations = _numbers(group, "terminations", (steps,), np.dtype(np.bool_))
        truncations = _numbers(group, "truncations", (steps,), np.dtype(np.bool_))
        if terminations[:-1].any() or truncations[:-1].any():
            raise FormatError(f"{group.name} ends before its last step")
        terminated = bool(terminations[-1])
        return Trajectory(
            agent=self._agent,
            observation_space=self._observation_space,
            action_space=self._action_space,
            observations=self._rows(group, "observations", self._observation_space, steps + 1),
            actions=self._rows(group, "actions", self._action_space, steps),
            rewards=rewards,
            masks=_masks(group, steps),
            terminated=terminated,
            truncated=bool(truncations[-1]) or not terminated,  # the end of the record
            controllers=_controllers(group, steps, unlabelled),
            env_steps=_numbers(group, ENV_STEP, (steps,), np.dtype(np.int64))
            if _find(group, ENV_STEP) is not None
            else np.arange(steps),
        )

    def _rows(self, group: h5py.Group, name: str, space: Space[object], count: int) -> Rows:
        match space:
            case spaces.Dict():
                inner = subgroup(group, name)
                return {key: self._rows(inner, key, part, count) for key, part in space.spaces.items()}
            case spaces.Tuple():
                inner = subgroup(group, name)
                parts = enumerate(space.spaces)
                return tuple(self._rows(inner, f"_index_{index}", part, count) for index, part in parts)
            case spaces.Text():
                return np.array(list(_texts(group, name, space, count)), object)
        assert space.shape is not None
        assert space.dtype is not None
        if self._jpeg and _is_picture(space):
            return _pictures(group, name, space.shape, count)
        return _numbers(group, name, (count, *space.shape), space.dtype)


def _find(group: h5py.Group, name: str) -> h5py.Group | h5py.Dataset | None:
    """Return a member of the group, or None; refuse links, which may point to other files."""
    import h5py

    for part in name.split("/"):
        link = group.get(part, getlink=True)
        if link is None:
            return None
        if type(link) is not h5py.HardLink:
            raise FormatError(f"{group.name}/{part} is a link to another place")
        group = group[part]
    return group


def _member(group: h5py.Group, name: str) -> h5py.Group | h5py.Dataset:
    found = _find(group, name)
    if found is None:
        raise FormatError(f"{group.name} has no '{name}'")
    return found


def subgroup(group: h5py.Group, name: str) -> h5py.Group:
    """Return the group of this name; raise FormatError if there is none in this file."""
    import h5py

    found = _member(group, name)
    if not isinstance(found, h5py.Group):
        raise FormatError(f"{group.name}/{name} is not a group")
    return found


def _dataset(group: h5py.Group, name: str) -> h5py.Dataset:
    """Return a dataset whose numbers are all in this file."""
    import h5py

    found = _member(group, name)
    if not isinstance(found, h5py.Dataset) or found.shape is None:
        raise FormatError(f"{group.name}/{name} is not an array")
    if found.is_virtual or found.external:
        raise FormatError(f"{found.name} is stored in other files")
    if found.nbytes > _LARGEST_RATIO * found.id.get_storage_size():
        raise FormatError(f"{found.name} claims {found.nbytes} bytes that were never written")
    return found


def _numbers(group: h5py.Group, name: str, shape: tuple[int, ...] | None, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of this shape, of one dimension and any length if None, converted to this type."""
    found = _dataset(group, name)
    if found.shape != shape if shape is not None else len(found.shape) != 1:
        raise FormatError(f"{found.name} has the shape {found.shape}, where {shape or '(steps,)'} belongs")
    if found.dtype.kind not in "biuf" or not np.can_cast(found.dtype, dtype, "same_kind"):
        raise FormatError(f"{found.name} holds {found.dtype}, where {dtype} belongs")
    numbers: NDArray[Any] = found[()]
    return numbers.astype(dtype, copy=False)


def _texts(group: h5py.Group, name: str, space: spaces.Text, count: int) -> Iterator[str]:
    found = _dataset(group, name)
    if found.shape != (count,) or found.dtype.kind != "O" or found.dtype.metadata is None:
        raise FormatError(f"{found.name} is not a list of {count} texts")
    for index in range(count):  # one at a time: all may point to the same long text
        text = found[index]
        if not isinstance(text, bytes) or len(text) > 4 * space.max_length:
            raise FormatError(f"{found.name} holds a text that is longer than {space.max_length} characters")
        yield text.decode()


def _masks(group: h5py.Group, steps: int) -> NDArray[np.bool_] | None:
    if _find(group, MASK) is None:
        return None
    found = _dataset(group, MASK)
    if len(found.shape) != 2:
        raise FormatError(f"{found.name} has the shape {found.shape}, where (steps + 1, actions) belongs")
    return _numbers(group, MASK, (steps + 1, found.shape[1]), np.dtype(np.bool_))


def _controllers(group: h5py.Group, steps: int, unlabelled: str) -> tuple[str, ...]:
    if _find(group, CONTROLLER) is None:
        return (unlabelled,) * steps
    numbers = _numbers(group, CONTROLLER, (steps,), np.dtype(np.int32))
    try:
        labels = json.loads(group.attrs[LABELS])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{group.name} does not name its controllers") from error
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise FormatError(f"{group.name} does not name its controllers")
    if numbers.min() < 0 or numbers.max() >= len(labels):
        raise FormatError(f"{group.name} numbers controllers that it does not name")
    return tuple(labels[number] for number in numbers)


def _is_picture(space: Space[object]) -> bool:
    from minari.dataset.minari_storage import is_image_space

    return bool(is_image_space(space))


def _pictures(group: h5py.Group, name: str, shape: tuple[int, ...], count: int) -> NDArray[np.uint8]:
    """Return pictures that are stored as JPEG files."""
    from PIL import Image

    found = _dataset(group, name)
    if len(found.shape) not in (1, 2) or found.shape[0] != count:
        raise FormatError(f"{found.name} has the shape {found.shape}, where {count} JPEG files belong")
    pictures = np.empty((count, *shape), np.uint8)
    for index in range(count):
        try:
            with Image.open(io.BytesIO(found[index].tobytes()), formats=["JPEG"]) as picture:
                if picture.size != (shape[1], shape[0]):
                    raise FormatError(f"{found.name} holds a picture of {picture.size} pixels, not {shape[1::-1]}")
                pictures[index] = np.asarray(picture, np.uint8).reshape(shape)
        except (OSError, ValueError, AttributeError) as error:
            raise FormatError(f"{found.name} holds a damaged JPEG file: {error}") from error
    return pictures
