"""Minari dataset of one agent: a folder with `data/metadata.json` and `data/main_data.hdf5`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import FormatError, InputError, MissingExtraError, MosaicError
from mosaic.core.ids import AgentID, Json, PolicyID
from mosaic.runners.trajectories import Trajectory
from mosaic.store.demos.episode_group import EpisodeReader, check_recordable, read_outline, subgroup, write_trajectory

if TYPE_CHECKING:
    import h5py

MOST_METADATA_BYTES = 64 << 20
MOST_NUMBERS = 100_000_000  # in one observation
UNLABELLED = "unknown"  # the controller of datasets that do not name it
_EPISODE = "episode"  # attribute: number of the demonstration's episode


def require_minari() -> None:
    if find_spec("minari") is None or find_spec("h5py") is None:
        raise MissingExtraError("Demonstrations need minari and h5py: pip install 'mosaic-rl[demos]'")


class Outline(NamedTuple):
    """An agent's part of an episode, in short."""

    episode: int  # of the demonstration
    total: float  # sum of its rewards
    controllers: tuple[PolicyID, ...]  # of each step


@dataclass(frozen=True, slots=True)
class AgentDataset:
    """One agent's episodes, as far as metadata.json describes them."""

    path: Path
    agent: AgentID
    dataset_id: str
    observation_space: Space[object]
    action_space: Space[object]
    environment: Mapping[str, Json] | None  # None in a dataset that Mosaic did not record
    episodes: int
    steps: int
    jpeg: bool

    def trajectories(self) -> Iterator[tuple[int, Trajectory]]:
        """Yield every trajectory with the number of the demonstration's episode it belongs to."""
        reader = EpisodeReader(self.agent, self.observation_space, self.action_space, jpeg=self.jpeg)
        with open_hdf5(self.path / "data" / "main_data.hdf5") as file:
            for index in range(self.episodes):
                group = subgroup(file, f"episode_{index}")
                yield int(group.attrs.get(_EPISODE, index)), reader.read(group, UNLABELLED)

    def outlines(self) -> Iterator[Outline]:
        """Yield what is known of every episode without its observations and actions."""
        with open_hdf5(self.path / "data" / "main_data.hdf5") as file:
            for index in range(self.episodes):
                group = subgroup(file, f"episode_{index}")
                yield Outline(int(group.attrs.get(_EPISODE, index)), *read_outline(group, UNLABELLED))


def read_dataset(path: Path) -> AgentDataset:
    """Read the metadata of a dataset; `path` is its folder, or the folder `data` in it."""
    require_minari()
    path = path if (path / "data").is_dir() or path.name != "data" else path.parent
    try:
        return _parse(path, _metadata(path / "data" / "metadata.json"))
    except FormatError as error:
        raise FormatError(f"The dataset '{path}' cannot be read: {error}.") from error


def create_dataset(path: Path, first: Trajectory, dataset_id: str, environment: Mapping[str, Json] | None) -> None:
    """Create an empty dataset for trajectories like the first."""
    require_minari()
    import minari
    from minari.dataset.minari_storage import MinariStorage

    check_recordable(first.observation_space, f"The observation space of '{first.agent}'")
    check_recordable(first.action_space, f"The action space of '{first.agent}'")
    (path / "data").mkdir(parents=True)
    storage = MinariStorage.new(path / "data", first.observation_space, first.action_space, jpeg_encoding=False)
    storage.update_metadata(
        {
            "dataset_id": dataset_id,
            "minari_version": minari.__version__,
            "description": f"Recorded by Mosaic: {first.agent} in {(environment or {}).get('env_id', 'an env')}",
            "mosaic": {"agent": first.agent, "environment": environment},
        }
    )


class DatasetWriter:
    """Writer that appends episodes to a dataset.

    A failure leaves a damaged file: the folder is one that is published when everything was written.
    """

    def __init__(self, path: Path) -> None:
        import h5py

        self._path = path / "data"
        self._metadata = _metadata(self._path / "metadata.json")
        self._file = h5py.File(self._path / "main_data.hdf5", "a", track_order=True)

    def add(self, number: int, seed: int | None, trajectory: Trajectory) -> None:
        """Append a trajectory of the demonstration's episode `number`; `seed` is the env's."""
        index = self._metadata["total_episodes"]
        group = self._file.create_group(f"episode_{index}")
        group.attrs["id"], group.attrs[_EPISODE] = index, number
        write_trajectory(group, trajectory, seed)
        self._metadata["total_episodes"] += 1
        self._metadata["total_steps"] += len(trajectory)

    def close(self) -> None:
        self._file.close()
        size_mb = round((self._path / "main_data.hdf5").stat().st_size / 1e6, 1)
        (self._path / "metadata.json").write_text(json.dumps({**self._metadata, "dataset_size": size_mb}))


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open a file for reading; raise FormatError for whatever is wrong in it."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            yield file
    except MosaicError as error:
        raise FormatError(f"'{path}' cannot be read: {error}.") from error
    except FileNotFoundError as error:
        raise InputError(f"There is no file '{path}'.") from error
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"'{path}' is not a complete HDF5 file: {error}.") from error


def _metadata(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MOST_METADATA_BYTES:
            raise FormatError(f"'{path.name}' has more than {MOST_METADATA_BYTES >> 20} MiB")
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"it has no {path.parent.name}/{path.name}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"'{path.name}' is not complete: {error}") from error
    if not isinstance(found, dict):
        raise FormatError(f"'{path.name}' is not an object")
    return found


def _parse(path: Path, metadata: Mapping[str, Any]) -> AgentDataset:
    if metadata.get("data_format") != "hdf5":
        raise FormatError(f"its format is {metadata.get('data_format')!r}; Mosaic reads 'hdf5'")
    own = metadata.get("mosaic")
    own = own if isinstance(own, dict) else {}
    episodes, steps, dataset_id = (metadata.get(key) for key in ("total_episodes", "total_steps", "dataset_id"))
    agent, environment = own.get("agent", "agent_0"), own.get("environment")
    if not isinstance(episodes, int) or not isinstance(steps, int) or episodes < 0 or not isinstance(dataset_id, str):
        raise FormatError("its metadata names no id or number of episodes")
    if not isinstance(agent, str) or not isinstance(environment, dict | None):
        raise FormatError("its metadata names no agent or environment")
    return AgentDataset(
        path=path,
        agent=agent,
        dataset_id=dataset_id,
        observation_space=_space(metadata, "observation_space"),
        action_space=_space(metadata, "action_space"),
        environment=environment,
        episodes=episodes,
        steps=steps,
        jpeg=bool(metadata.get("jpeg_encoding", True)),
    )


def _space(metadata: Mapping[str, Any], key: str) -> Space[object]:
    from minari.serialization import deserialize_space

    try:
        document = json.loads(metadata[key])
        _check_size(document)
        space: Space[object] = deserialize_space(document)
        check_recordable(space, key)
        _check_types(space)
    except FormatError:
        raise
    except Exception as error:  # a hostile document may fail anywhere in Minari and Gymnasium
        raise FormatError(f"its {key} is not valid ({type(error).__name__}: {error})") from error
    return space


def _check_size(document: Mapping[str, Any]) -> None:
    """Raise before a few bytes of JSON become an array of gigabytes."""
    shape = document.get("shape", ())
    if np.prod([int(size) for size in shape], dtype=np.float64) > MOST_NUMBERS or any(size < 0 for size in shape):
        raise FormatError(f"its observations have the shape {tuple(shape)}, too many numbers")
    parts = document.get("subspaces", ())
    for part in parts.values() if isinstance(parts, dict) else parts:
        _check_size(part)


def _check_types(space: Space[object]) -> None:
    match space:
        case spaces.Dict():
            for part in space.spaces.values():
                _check_types(part)
        case spaces.Tuple():
            for part in space.spaces:
                _check_types(part)
        case spaces.Box() | spaces.MultiDiscrete():
            if space.dtype is None or space.dtype.kind not in "biuf":
                raise FormatError(f"it holds {space.dtype}, which are not numbers")
