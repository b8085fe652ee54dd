"""Import and export of demonstrations: recorded episodes, Minari datasets and .zip files."""

from __future__ import annotations

import re
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from mosaic.core.episode import Episode
from mosaic.core.errors import FormatError, InputError
from mosaic.core.files import replace_file, sync_folder
from mosaic.core.ids import Json
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env, EnvSpec
from mosaic.runners.record import environment_of, replay
from mosaic.runners.trajectories import Trajectory, TrajectoryRecorder
from mosaic.store.demos.dataset import AgentDataset
from mosaic.store.demos.demonstration import (
    ABOUT,
    DemoEpisode,
    Demonstration,
    Demonstrations,
    check_demo_name,
    read_about,
)
from mosaic.store.errors import StorageError, reason

_MEMBER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{1,79}/(demo\.json|records\.jsonl|[A-Za-z0-9_-]{1,210}-v0/data/"
                     r"(metadata\.json|main_data\.hdf5))")  # fmt: skip
_LARGEST_RATIO = 200  # of a .zip file's contents to its size
_SMALL = 64 << 20  # bytes that any file may unpack to


def trajectories_of(env: Env, episode: Episode) -> list[Trajectory]:
    """Play a recorded episode again; raise FormatError if the env does not give the same observations."""
    recorder = TrajectoryRecorder(env)

    def on_turn(step: int, turn: Turn) -> None:
        recorder.note(turn, episode, step)

    difference = replay(env, episode, on_turn)
    if difference is not None:
        raise FormatError(
            f"The env differs from the record at step {difference.step}: {difference.what}. "
            "An env that cannot repeat an episode is recorded while it is played: mosaic play … --demo NAME"
        )
    return recorder.trajectories()


def import_episode(store: Demonstrations, name: str, episode: Episode) -> Demonstration:
    """Add an episode that was recorded without its observations; its env is made for this."""
    store.check(name, episode.environment)
    env = make_env(environment_of(episode))
    try:
        found = trajectories_of(env, episode)
    finally:
        env.close()
    store.reserve(name, episode.environment)
    return store.append(name, [DemoEpisode(episode, tuple(found))])


def import_dataset(store: Demonstrations, name: str, dataset: AgentDataset, spec: EnvSpec | None) -> Demonstration:
    """Add a Minari dataset; `spec` is of the env it was recorded in, where the dataset does not say so."""
    environment = dataset.environment
    if spec is not None:
        environment = _checked_environment(dataset, spec)
    store.reserve(name, environment)
    try:
        return store.append(name, (DemoEpisode(None, (trajectory,)) for _, trajectory in dataset.trajectories()))
    finally:
        store.delete_if_empty(name)


def _checked_environment(dataset: AgentDataset, spec: EnvSpec) -> Mapping[str, Json]:
    """Return the env's configuration; raise InputError if its agents have other spaces."""
    theirs = dataset.observation_space, dataset.action_space
    for agent in spec.possible_agents:
        if (spec.observation_spaces[agent], spec.action_spaces[agent]) == theirs:
            document: Mapping[str, Json] = spec.facts.config.model_dump(mode="json")
            return document
    raise InputError(
        f"The dataset '{dataset.dataset_id}' has observations {theirs[0]} and actions {theirs[1]}; no agent of "
        f"{spec.env_id} has."
    )


def export_demo(demo: Demonstration, target: Path) -> Path:
    """Write a .zip file, which appears whole; unpacked into Minari's folder it is a set of Minari datasets."""
    if target.exists():
        raise InputError(f"'{target}' already exists. Choose another file.")

    def pack(path: Path) -> None:
        with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(demo.path.rglob("*")):
                if file.is_file():
                    archive.write(file, f"{demo.name}/{file.relative_to(demo.path).as_posix()}")

    try:
        replace_file(target, pack)
        sync_folder(target.absolute().parent)
    except OSError as error:
        raise StorageError(f"'{target}' could not be written: {reason(error)}.") from error
    return target


def import_archive(store: Demonstrations, name: str | None, path: Path) -> Demonstration:
    """Add the episodes of a .zip file that `export_demo` wrote; everything in it is checked."""
    with TemporaryDirectory(prefix="mosaic-demo-") as place:
        found = _unpack(path, Path(place))
        name = check_demo_name(name or found.name)
        store.reserve(name, found.about.environment)
        try:
            return store.append(name, found.episodes())
        finally:
            store.delete_if_empty(name)


def _unpack(path: Path, place: Path) -> Demonstration:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            bytes_out = sum(member.file_size for member in members)
            if bytes_out > max(_SMALL, _LARGEST_RATIO * path.stat().st_size):
                raise FormatError(f"'{path}' would unpack to {bytes_out} bytes, more than a demonstration has.")
            for member in members:
                if not _MEMBER.fullmatch(member.filename):
                    raise FormatError(f"'{path}' is not a demonstration: it contains '{member.filename}'.")
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise FormatError(
                        f"'{path}' is not a demonstration: '{member.filename}' is not stored or deflated."
                    )
            files = {member.filename for member in members}
            names = {file.partition("/")[0] for file in files}
            if len(names) != 1:
                raise FormatError(f"'{path}' is not a demonstration: it holds {len(names)} folders.")
            (name,) = names
            if len(files) < len(members) or f"{name}/{ABOUT}" not in files:
                raise FormatError(f"'{path}' is not a demonstration: it has no {ABOUT}, or a file twice.")
            for member in members:
                _extract(archive, member, place / member.filename)
    except FileNotFoundError as error:
        raise InputError(f"There is no file '{path}'.") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise FormatError(f"'{path}' is not a complete .zip file: {error}.") from error
    return read_about(place / name)


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    """Write a member; zipfile itself checks that it is not longer than it says."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, open(target, "xb") as out:
        shutil.copyfileobj(source, out)
