"""Registry of projects: which folders this store knows, whether they still exist or not."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mosaic.config.project import ProjectConfig
from mosaic.core.errors import InputError, MosaicError, unknown
from mosaic.core.reference import explain
from mosaic.store.atomic import private_folder, remove_folder, write_atomic
from mosaic.store.errors import DamagedError, StorageError, reason
from mosaic.store.projects.project import (
    PROJECT_FILE,
    Project,
    create_project,
    project_here,
    read_project,
    rename_in_file,
)

_FILE, _LOCK = "projects.json", "projects.lock"


class ProjectEntry(BaseModel):
    """A project that this store knows. Times are seconds since 1970."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    folder: str
    added: float
    used: float
    earlier_names: tuple[str, ...] = ()  # runs keep the name that the project had


class _Registered(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    projects: tuple[ProjectEntry, ...] = ()


class ProjectRow(BaseModel):
    """One row of the list of projects; what is known about one whose folder is missing or whose file is invalid."""

    model_config = ConfigDict(frozen=True)

    name: str
    folder: str
    state: Literal["ok", "missing", "invalid"]
    problem: str = Field("", description="Why its mosaic.toml cannot be read.")
    env: str | None = None
    default_preset: str | None = None
    presets: tuple[str, ...] = Field((), description="Training presets.")
    export_presets: tuple[str, ...] = ()
    earlier_names: tuple[str, ...] = ()
    used: float = Field(description="When it was last created, opened or trained, in seconds since 1970.")


class ProjectDetails(ProjectRow):
    """A project with the settings of its presets, as documents: what its file says, with absolute paths."""

    config: dict[str, Any] = Field(default_factory=dict, description="What its mosaic.toml says, as it is written.")
    settings: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Settings of a run with each training preset; of one without under ''."
    )
    exports: dict[str, dict[str, Any]] = Field(default_factory=dict, description="Settings of each export preset.")


class ProjectRegistry:
    """Known projects, in a file that is replaced whole under a lock."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def entries(self) -> list[ProjectEntry]:
        """Return all entries, the last used first."""
        return sorted(self._read().projects, key=lambda entry: entry.used, reverse=True)

    def rows(self) -> list[ProjectRow]:
        """Return all projects, the last used first, as their files say now; this loads none of the code they name."""
        return [_row(entry) for entry in self.entries()]

    def row(self, name: str) -> ProjectRow:
        return _row(self._entry(name))

    def details(self, name: str) -> ProjectDetails:
        row = self.row(name)
        if row.state != "ok":
            return ProjectDetails(**row.model_dump())
        project = read_project(row.folder)
        config = project.config
        settings = {preset: project.settings(preset) for preset in config.train} or {"": project.settings()}
        exports = {preset: project.export_preset(preset).model_dump(mode="json") for preset in config.export}
        written = file_settings(config)
        return ProjectDetails(**row.model_dump(), config=written, settings=settings, exports=exports)

    def here(self) -> Project | None:
        """Return the project of the working directory."""
        return project_here(known=[Path(entry.folder) for entry in self.entries()])

    def find(self, reference: str) -> Project:
        """Return a project by its name, or by its folder; only a folder may be one that is not registered."""
        by_name = [entry for entry in self.entries() if reference == entry.name]
        if by_name:
            return read_project(by_name[0].folder)
        path = Path(reference).expanduser()
        if os.sep in reference or reference in (".", "..") or path.is_dir():
            return read_project(path)
        return read_project(self._entry(reference).folder)

    def names(self, name: str) -> set[str]:
        """Return all names that runs of a project may carry: its present one and its earlier ones."""
        return {name, *(each for entry in self.entries() if entry.name == name for each in entry.earlier_names)}

    def create(
        self, folder: Path, name: str | None = None, *, env: str | None = None, game: str | None = None
    ) -> Project:
        """Write the mosaic.toml of a folder that has none, with one preset, and enter the project into the list."""
        named = name or folder.expanduser().absolute().resolve().name
        for row in self.rows():
            if row.name == named and row.state != "missing":
                raise InputError(f"There is a project '{named}' already, in {row.folder}. Choose another: --name NAME")
        document: dict[str, object] = {"version": 1, "name": named}
        document |= {key: value for key, value in (("env", env), ("game", game)) if value is not None}
        project = create_project(folder, {**document, "train": {"default": {"seed": 0}}})
        self.register(project)
        return project

    def register(self, project: Project, now: float | None = None) -> None:
        """Enter a project, or mark it as used; raise InputError where another folder has a project of that name.

        A project whose old folder is gone was moved: its entry follows it.
        """
        now = time.time() if now is None else now

        def change(entries: list[ProjectEntry]) -> list[ProjectEntry]:
            mine = [entry for entry in entries if entry.folder == str(project.folder)]
            rest = [entry for entry in entries if entry.folder != str(project.folder)]
            same = [entry for entry in rest if entry.name == project.name]
            for entry in same:
                if os.path.lexists(Path(entry.folder) / PROJECT_FILE):
                    raise InputError(
                        f"There is a project '{project.name}' already, in {entry.folder}. Rename this one: "
                        f"mosaic projects rename {project.folder} NEW-NAME"
                    )
            known = [*mine, *same]
            names = dict.fromkeys(name for entry in known for name in (*entry.earlier_names, entry.name))
            names.pop(project.name, None)
            added = min((entry.added for entry in known), default=now)
            entry = ProjectEntry(
                name=project.name, folder=str(project.folder), added=added, used=now, earlier_names=tuple(names)
            )
            return [*(each for each in rest if each not in same), entry]

        self._change(change)

    def rename(self, reference: str, name: str) -> Project:
        """Rename a project in its file and here; its earlier runs are still found under the new name."""
        project = self.find(reference)
        taken = [entry.folder for entry in self.entries() if entry.name == name and entry.folder != str(project.folder)]
        if taken:
            raise InputError(f"There is a project '{name}' already, in {taken[0]}. Choose another name.")
        if all(entry.name != project.name or entry.folder == str(project.folder) for entry in self.entries()):
            self.register(project)  # so that the entry remembers the earlier name
        renamed = rename_in_file(project, name)
        self.register(renamed)
        return renamed

    def forget(self, reference: str) -> ProjectEntry:
        """Remove an entry by its name or folder; the folder stays as it is."""
        gone = self.entry(reference)
        self._change(lambda entries: [entry for entry in entries if entry != gone])
        return gone

    def delete_folder(self, reference: str) -> ProjectEntry:
        """Remove an entry and its folder with everything in it; refuse a folder that is not that project's."""
        entry = self.entry(reference)
        folder = Path(entry.folder)
        if folder.is_symlink():
            raise InputError(f"'{folder}' is a link: delete what it points to yourself.")
        if not (folder / PROJECT_FILE).is_file():
            raise InputError(f"'{folder}' has no {PROJECT_FILE}, so it is not deleted. Remove the entry alone: "
                             f"mosaic projects delete {reference}")  # fmt: skip
        inside = self._home.absolute()
        if inside == folder or folder in inside.parents or folder in (Path.home(), *Path.home().parents):
            raise InputError(f"'{folder}' holds more than this project (your home or the runs), so it is not deleted.")
        try:
            remove_folder(folder)
        except OSError as error:
            raise StorageError(f"'{error.filename or folder}' could not be deleted: {reason(error)}.") from error
        return self.forget(reference)

    def entry(self, reference: str) -> ProjectEntry:
        """Return the entry of a project, which may be missing, by its name or folder."""
        for entry in self.entries():
            if reference == entry.name or os.path.abspath(os.path.expanduser(reference)) == entry.folder:
                return entry
        return self._entry(reference)

    def _entry(self, name: str) -> ProjectEntry:
        entries = self.entries()
        for entry in entries:
            if name == entry.name:
                return entry
        for entry in entries:
            if name in entry.earlier_names:
                return entry
        raise unknown("project", name, [entry.name for entry in entries], "Create one: mosaic projects create")

    def _read(self) -> _Registered:
        path = self._home / _FILE
        try:
            return _Registered.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return _Registered()
        except ValidationError as error:
            raise DamagedError(
                f"'{path}' is damaged: {explain(error, _Registered)} Delete it, and register your projects again: "
                "mosaic projects open FOLDER"
            ) from error

    def _change(self, change: Callable[[list[ProjectEntry]], list[ProjectEntry]]) -> None:
        with self._locked():
            changed = _Registered(projects=tuple(change(list(self._read().projects))))
            write_atomic(self._home / _FILE, changed.model_dump_json(indent=1) + "\n", 0o600)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        private_folder(self._home)
        descriptor = os.open(self._home / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def file_settings(config: ProjectConfig) -> dict[str, Any]:
    """Return what a mosaic.toml says, without empty sections."""
    return {key: value for key, value in config.model_dump(mode="json", exclude_unset=True).items() if value}


def _row(entry: ProjectEntry) -> ProjectRow:
    known = {"folder": entry.folder, "used": entry.used, "earlier_names": entry.earlier_names}
    if not os.path.lexists(Path(entry.folder) / PROJECT_FILE):
        return ProjectRow(name=entry.name, state="missing", problem=_missing(entry), **known)
    try:
        config = read_project(entry.folder).config
    except MosaicError as error:
        return ProjectRow(name=entry.name, state="invalid", problem=str(error), **known)
    return ProjectRow(name=entry.name, state="ok", problem=_other_name(entry, config), **_about(config), **known)


def _missing(entry: ProjectEntry) -> str:
    return (
        f"There is no {PROJECT_FILE} in {entry.folder}. If it was moved: mosaic projects open FOLDER; "
        f"if it is gone: mosaic projects delete {entry.name}"
    )


def _other_name(entry: ProjectEntry, config: ProjectConfig) -> str:
    if config.name == entry.name:
        return ""
    return f"Its file names it '{config.name}' now. Type: mosaic projects open {quote(str(entry.folder))}"


def _about(config: ProjectConfig) -> dict[str, object]:
    default = config.default_preset or (next(iter(config.train)) if len(config.train) == 1 else None)
    return {
        "env": config.env_id,
        "default_preset": default,
        "presets": tuple(config.train),
        "export_presets": tuple(config.export),
    }
