"""Recording of demonstrations: every finished episode is a file at once, so that a kill loses only the current one."""

from __future__ import annotations

import fcntl
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mosaic.core.episode import Episode
from mosaic.core.errors import FormatError, InputError, MosaicError
from mosaic.core.files import write_atomic
from mosaic.core.ids import Json
from mosaic.envs.env import EnvSpec
from mosaic.envs.space_json import space_from_json, space_to_json
from mosaic.runners.record import episode_from_json, episode_to_json
from mosaic.runners.trajectories import Trajectory
from mosaic.store.atomic import private_folder, remove_folder
from mosaic.store.demos.dataset import UNLABELLED, open_hdf5
from mosaic.store.demos.demonstration import RECORDING, DemoEpisode, Demonstration, Demonstrations, check_demo_name
from mosaic.store.demos.episode_group import EpisodeReader, check_recordable, subgroup, write_trajectory
from mosaic.store.errors import StorageError, reason

_LOCK, _NAME = "lock", "name"
_RECORD, _SPACES = "record", "spaces"


@dataclass(frozen=True, slots=True)
class DemoRecording:
    """Sink for the episodes of a recording in progress; may be sent to the processes that play them."""

    folder: Path
    demonstration: Demonstration  # as it was when the recording began

    def add(self, number: int, record: Episode, trajectories: Sequence[Trajectory]) -> None:
        """Keep an episode, unless it has no step; `number` orders the episodes of this recording."""
        if not trajectories:
            return
        for trajectory in trajectories:
            check_recordable(trajectory.observation_space, f"The observation space of '{trajectory.agent}'")
            check_recordable(trajectory.action_space, f"The action space of '{trajectory.agent}'")
        try:
            write_atomic(self.folder / f"{number:09d}.hdf5", _image(record, trajectories), mode=0o600)
        except OSError as error:
            raise StorageError(
                f"An episode of the demonstration '{self.demonstration.name}' could not be written: {reason(error)}."
            ) from error

    @property
    def id(self) -> str:
        return self.folder.name

    def episodes(self) -> Iterator[DemoEpisode]:
        for path in sorted(self.folder.glob("*.hdf5")):
            yield _read(path)


@contextmanager
def recording(store: Demonstrations, name: str, environment: Mapping[str, Json]) -> Iterator[DemoRecording]:
    """Record a demonstration of this env inside the block, or more episodes of one that exists.

    At the end, an error too, the finished episodes are appended. Recordings of one name at the same time are all kept,
    in the order in which they end.
    """
    demonstration = store.reserve(name, environment)
    folder = private_folder(store.folder / f"{RECORDING}{name}.{secrets.token_hex(6)}")
    with open(folder / _LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / _NAME).write_text(name)
        sink = DemoRecording(folder, demonstration)
        try:
            yield sink
        finally:
            _finish(store, sink)


def record_demo(name: str, home: Path | None = None) -> Callable[[EnvSpec], AbstractContextManager[DemoRecording]]:
    """Return a recorder for `evaluate(…, recorder=record_demo("name"))`; `home` is $MOSAIC_HOME unless given."""
    check_demo_name(name)
    return lambda spec: recording(Demonstrations(home), name, spec.facts.config.model_dump(mode="json"))


def recover(store: Demonstrations) -> list[str]:
    """Append the episodes of recordings whose process was killed; return why some could not be."""
    problems = []
    for folder in sorted(store.folder.glob(f"{RECORDING}*")):
        try:
            with open(folder / _LOCK, "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                name = (folder / _NAME).read_text()
                _finish(store, DemoRecording(folder, store.open(name)))
        except BlockingIOError:
            continue  # in progress
        except FileNotFoundError:
            if not any(folder.glob("*.hdf5")):  # killed before its first episode, or removed meanwhile
                remove_folder(folder)
        except MosaicError as error:
            problems.append(f"Episodes of a recording that was interrupted are in '{folder}': {error}")
    return problems


def _finish(store: Demonstrations, sink: DemoRecording) -> None:
    name = sink.demonstration.name
    if any(sink.folder.glob("*.hdf5")):
        store.append(name, sink.episodes(), sink.id)
    remove_folder(sink.folder)
    store.delete_if_empty(name)


def _image(record: Episode, trajectories: Sequence[Trajectory]) -> bytes:
    """Return the HDF5 file of an episode; made in memory, because HDF5 does not survive a full disk."""
    import h5py

    with h5py.File("episode.hdf5", "w", driver="core", backing_store=False) as file:
        file[_RECORD] = json.dumps(episode_to_json(record))
        for index, trajectory in enumerate(trajectories):
            group = file.create_group(f"agent_{index}")
            spaces = {"observation": trajectory.observation_space, "action": trajectory.action_space}
            about = {key: space_to_json(space) for key, space in spaces.items()}
            group[_SPACES] = json.dumps({"agent": trajectory.agent, **about})
            write_trajectory(group, trajectory, record.seed)
        file.flush()
        image: bytes = file.id.get_file_image()
    return image


def _read(path: Path) -> DemoEpisode:
    with open_hdf5(path) as file:
        try:
            record = episode_from_json(json.loads(file[_RECORD][()]))
            found = []
            for index in range(len(file) - 1):
                group = subgroup(file, f"agent_{index}")
                about = json.loads(group[_SPACES][()])
                spaces = [space_from_json(about[key]) for key in ("observation", "action")]
                found.append(EpisodeReader(about["agent"], *spaces).read(group, UNLABELLED))
        except (KeyError, ValueError, InputError) as error:
            raise FormatError(f"its record is damaged: {error}") from error
    return DemoEpisode(record, tuple(found))
