"""Demonstrations of this store: folders below `demos`, each with a Minari dataset per agent and the episodes' records.

demos/NAME/demo.json                  env, agents, recordings that were added
demos/NAME/records.jsonl              an episode per line, for replay
demos/NAME/AGENT-v0/data/…            the Minari dataset `NAME/AGENT-v0`
demos/.recording-NAME.ID/             a recording in progress, or one that a killed process left
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from mosaic.config.sections import join_id
from mosaic.core.episode import Episode
from mosaic.core.errors import FormatError, InputError, unknown
from mosaic.core.files import replace_folder, sync_folder
from mosaic.core.ids import AgentID, Json
from mosaic.runners.record import episode_from_json, episode_to_json
from mosaic.runners.trajectories import Trajectory
from mosaic.store.atomic import private_folder, remove_folder
from mosaic.store.demos.dataset import AgentDataset, DatasetWriter, create_dataset, read_dataset, require_minari
from mosaic.store.errors import DamagedError, StorageError, reason
from mosaic.store.store import home as store_home

FOLDER = "demos"
FORMAT = "mosaic.demonstration"
ABOUT, _RECORDS = "demo.json", "records.jsonl"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{1,79}")
DemoName: TypeAlias = Annotated[str, Field(pattern=rf"^{_NAME.pattern}$")]
RECORDING = ".recording-"  # before NAME.ID: a folder of one
_NEW, _OLD, _LOCK = ".new-", ".old-", ".lock-"


class DemoFile(BaseModel):
    """Contents of demo.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = FORMAT
    version: int = 1
    environment: dict[str, JsonValue] | None  # None: imported, and the env is not known
    agents: tuple[AgentID, ...] = ()  # in the order in which they first acted
    created: float  # seconds since 1970
    recordings: tuple[str, ...] = ()  # ids of those that were added


@dataclass(frozen=True, slots=True)
class DemoEpisode:
    """One episode of a demonstration; its record is None if it was not made by Mosaic."""

    record: Episode | None
    trajectories: tuple[Trajectory, ...]


def check_demo_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"'{name}' cannot name a demonstration: use 2 to 80 letters, digits, '-' and '_', beginning with a letter "
            "or digit."
        )
    return name


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A demonstration that exists."""

    path: Path
    about: DemoFile

    @property
    def name(self) -> str:
        return self.path.name

    def datasets(self) -> dict[AgentID, AgentDataset]:
        return {agent: read_dataset(self.path / agent_folder(agent)) for agent in self.about.agents}

    def records(self) -> list[Episode | None]:
        """Return the record of every episode."""
        try:
            lines = (self.path / _RECORDS).read_text(encoding="utf-8").splitlines()
            return [None if line == "null" else episode_from_json(json.loads(line)) for line in lines]
        except FileNotFoundError:
            return []
        except (ValueError, RecursionError, FormatError) as error:
            raise DamagedError(f"'{self.path / _RECORDS}' is damaged: {error}.") from error

    def count(self) -> int:
        """Return the number of episodes."""
        try:
            with open(self.path / _RECORDS, "rb") as lines:
                return sum(1 for _ in lines)
        except FileNotFoundError:
            return 0

    def episodes(self) -> Iterator[DemoEpisode]:
        """Yield every episode with the trajectories of its agents."""
        with ExitStack() as stack:
            sources = [stack.enter_context(_closing(dataset.trajectories())) for dataset in self.datasets().values()]
            ahead = [next(source, None) for source in sources]
            for number, record in enumerate(self.records()):
                found = []
                for place, source in enumerate(sources):
                    waiting = ahead[place]
                    if waiting is not None and waiting[0] == number:
                        found.append(waiting[1])
                        ahead[place] = next(source, None)
                yield DemoEpisode(record, tuple(found))


def read_about(path: Path) -> Demonstration:
    """Open the demonstration in a folder."""
    try:
        about = DemoFile.model_validate_json((path / ABOUT).read_bytes())
    except ValidationError as error:
        raise DamagedError(f"'{path / ABOUT}' is damaged: {error.errors()[0]['msg']}.") from error
    if (about.format, about.version) != (FORMAT, 1):
        raise DamagedError(f"'{path / ABOUT}' has version {about.version}; this Mosaic reads version 1.")
    return Demonstration(path, about)


@contextmanager
def _closing(source: Iterator[tuple[int, Trajectory]]) -> Iterator[Iterator[tuple[int, Trajectory]]]:
    try:
        yield source
    finally:
        source.close()  # type: ignore[attr-defined]


def agent_folder(agent: AgentID) -> str:
    """Return the folder of an agent's dataset, a different one for every name."""
    safe = re.sub(r"[^A-Za-z0-9_]", lambda match: "".join(f"-{byte:02X}" for byte in match[0].encode()), agent)
    if not agent or len(safe) > 200:
        raise InputError(f"The agent name '{agent[:80]}' is too long or empty, and cannot name a dataset.")
    return f"{safe}-v0"


class Demonstrations:
    """All demonstrations of a store; `home` is $MOSAIC_HOME unless given."""

    def __init__(self, home: Path | None = None) -> None:
        self.folder = (store_home() if home is None else home) / FOLDER

    def names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if (path / ABOUT).is_file() and path.name[0] != ".")

    def open(self, name: str) -> Demonstration:
        check_demo_name(name)
        require_minari()
        try:
            return read_about(self.folder / name)
        except FileNotFoundError as error:
            advice = "Record one with: mosaic play ENV … --demo NAME"
            raise unknown("demonstration", name, self.names(), advice) from error

    def check(self, name: str, environment: Mapping[str, Json] | None) -> None:
        """Raise InputError if the name is not valid, or if a demonstration of another env has it."""
        check_demo_name(name)
        require_minari()
        if not (self.folder / name).exists():
            return
        known, asked = self.open(name).about.environment, _plain(environment)
        if known != asked:
            raise InputError(
                f"The demonstration '{name}' was recorded in {env_text(known)}, not in {env_text(asked)}. "
                "Choose another name."
            )

    def reserve(self, name: str, environment: Mapping[str, Json] | None) -> Demonstration:
        """Return the demonstration of this env, created empty if there is none of this name."""
        check_demo_name(name)
        private_folder(self.folder.parent)
        private_folder(self.folder)
        with self.locked(name):
            self.check(name, environment)
            if not (self.folder / name).exists():
                with self._new(name) as made:
                    _write_about(made, DemoFile(environment=_plain(environment), created=time.time()))
            return self.open(name)

    def append(self, name: str, episodes: Iterable[DemoEpisode], recording: str = "") -> Demonstration:
        """Append episodes: all or none of them. A recording that was added already is not added again."""
        with self.locked(name):
            found = self.open(name)
            if recording and recording in found.about.recordings:
                return found
            with self._new(name) as made:
                shutil.copytree(found.path, made, dirs_exist_ok=True)
                _write_episodes(made, name, found.about, episodes, recording)
        return self.open(name)

    def rewrite(self, name: str, change: Callable[[Demonstration], Iterable[DemoEpisode]]) -> Demonstration:
        """Replace all episodes with those that `change` returns for the demonstration as it is."""
        with self.locked(name):
            found = self.open(name)
            with self._new(name) as made:
                _write_episodes(made, name, found.about.model_copy(update={"agents": ()}), change(found))
        return self.open(name)

    def delete(self, name: str) -> None:
        with self.locked(name):
            found = self.open(name)
            trash = self.folder / f"{_OLD}{name}.{secrets.token_hex(4)}"
            os.rename(found.path, trash)
            remove_folder(trash)

    def delete_if_empty(self, name: str) -> None:
        """Delete a demonstration that was reserved, and whose recording had no episode."""
        with self.locked(name):
            path = self.folder / name
            if path.is_dir() and not (path / _RECORDS).exists() and not any(self.folder.glob(f"{RECORDING}{name}.*")):
                remove_folder(path)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Wait until no other process changes this demonstration; repair what a killed one left."""
        check_demo_name(name)  # it becomes part of the lock's name
        if not self.folder.is_dir():
            yield
            return
        with open(self.folder / f"{_LOCK}{name}", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._repair(name)
            yield

    @contextmanager
    def _new(self, name: str) -> Iterator[Path]:
        """Yield a folder that replaces the demonstration when the block succeeds; the lock is held."""
        made, target = self.folder / f"{_NEW}{name}.{secrets.token_hex(4)}", self.folder / name
        old = self.folder / f"{_OLD}{name}"
        try:
            made.mkdir(mode=0o700)
            yield made
            sync_folder(made)
            replace_folder(made, target, old)
        except (OSError, RuntimeError, shutil.Error) as error:  # h5py raises RuntimeError for a full disk, too
            raise StorageError(f"The demonstration '{name}' could not be written: {_why(error)}.") from error
        finally:
            shutil.rmtree(made, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)

    def _repair(self, name: str) -> None:
        """Undo a replacement that was killed half-way; the lock is held."""
        old = self.folder / f"{_OLD}{name}"
        if old.is_dir() and not (self.folder / name).exists():
            os.rename(old, self.folder / name)
        for path in self.folder.iterdir():
            if path.name.startswith((f"{_NEW}{name}.", f"{_OLD}{name}.")) or path == old:
                remove_folder(path)


def _write_episodes(
    folder: Path, name: str, about: DemoFile, episodes: Iterable[DemoEpisode], recording: str = ""
) -> None:
    agents, writers = list(about.agents), dict[AgentID, DatasetWriter]()
    records = folder / _RECORDS
    number = Demonstration(folder, about).count()
    with ExitStack() as stack, open(records, "a", encoding="utf-8") as lines:
        for episode in episodes:
            record = episode.record
            for trajectory in episode.trajectories:
                agent = trajectory.agent
                if agent not in writers:
                    path = folder / agent_folder(agent)
                    if agent not in agents:
                        create_dataset(path, trajectory, f"{name}/{path.name}", about.environment)
                        agents.append(agent)
                    writers[agent] = DatasetWriter(path)
                    stack.callback(writers[agent].close)
                writers[agent].add(number, None if record is None else record.seed, trajectory)
            lines.write(json.dumps(None if record is None else episode_to_json(record)) + "\n")
            number += 1
    added = (*about.recordings, recording) if recording else about.recordings
    _write_about(folder, about.model_copy(update={"agents": tuple(agents), "recordings": added}))


def _write_about(folder: Path, about: DemoFile) -> None:
    (folder / ABOUT).write_text(about.model_dump_json(indent=1))


def _why(error: Exception) -> str:
    """Return the operating system's message, which HDF5 wraps in its own."""
    said = re.search(r"error message = '([^']+)'", str(error))
    if said is not None:
        return said[1]
    return reason(error) if isinstance(error, OSError) else str(error)


def _plain(environment: Mapping[str, Json] | None) -> dict[str, JsonValue] | None:
    """Return the document as JSON gives it back, so that two can be compared."""
    return None if environment is None else json.loads(json.dumps(environment))


def env_text(environment: Mapping[str, JsonValue] | None) -> str:
    """Return the id of an env, and its options if it has some."""
    if environment is None:
        return "an env that is not known"
    options = f" with options {environment['options']}" if environment.get("options") else ""
    return f"{join_id(str(environment.get('family')), str(environment.get('env_id')))}{options}"
