"""Project: a folder with a mosaic.toml, found, read, created and renamed."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from mosaic.config.file_formats import parse_document, write_toml
from mosaic.config.layers import absolute_settings
from mosaic.config.loading import parse_run_config
from mosaic.config.project import ExportPreset, ProjectConfig, parse_project
from mosaic.config.run import RunConfig
from mosaic.core.errors import FormatError, InputError
from mosaic.store.atomic import write_atomic, write_once
from mosaic.store.errors import reason

PROJECT_FILE = "mosaic.toml"
_MOST_BYTES = 1 << 20  # of a file in a project
_NAME_LINE = re.compile(r"""^(name\s*=\s*)("(?:[^"\\\n]|\\.)*"|'[^'\n]*')""", re.MULTILINE)
_HEADING = re.compile(r"^\s*\[", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Project:
    """Settings of a project; nothing that they name is loaded or run before a run uses it."""

    folder: Path
    config: ProjectConfig

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def file(self) -> Path:
        return self.folder / PROJECT_FILE

    def settings(self, preset: str | None = None) -> dict[str, object]:
        """Return the settings of a preset, by default the default one, as a document with absolute paths."""
        return absolute_settings(self.config.settings(self.config.preset_name(preset)), self.folder)

    def run_config(self, preset: str | None = None, overrides: Iterable[str] = ()) -> RunConfig:
        """Return a run's configuration from a preset, with SECTION.KEY=VALUE overrides; `mosaic.train` takes it."""
        document = self.settings(preset)
        if "environment" not in document:
            raise InputError(f"The project '{self.name}' names no environment. Add to {self.file}: env = \"gym/…\"")
        return parse_run_config(document, overrides)

    def export_preset(self, name: str | None = None) -> ExportPreset:
        """Return an export preset, by default the only one, with an absolute path in `out`."""
        preset = self.config.export_preset(name)
        return preset.model_copy(update={"out": str(self.folder / Path(preset.out).expanduser())})


def project_here(start: Path | None = None, *, known: Iterable[Path] = ()) -> Project | None:
    """Return the project that the working directory, or `start`, is in or below; None where there is none.

    A file of another user is refused, unless its folder is one of the `known`: a stranger may write to a parent
    folder such as /tmp.
    """
    folder = find_project(start)
    if folder is None:
        return None
    owner = (folder / PROJECT_FILE).stat().st_uid
    if owner not in (os.geteuid(), 0) and folder not in set(known):
        raise InputError(
            f"'{folder / PROJECT_FILE}' belongs to another user. If you trust it, type: "
            f"mosaic projects open {quote(str(folder))}. "
            "To ignore it: --no-project"
        )
    return read_project(folder)


def find_project(start: Path | None = None) -> Path | None:
    """Return the nearest folder with a mosaic.toml, from `start` upward."""
    here = Path(start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if os.path.lexists(folder / PROJECT_FILE):
            return folder
    return None


def read_project(folder: Path | str) -> Project:
    """Read the mosaic.toml of a folder, or the one that is named; errors name the file."""
    path = Path(folder).expanduser().absolute()
    file = path if path.name == PROJECT_FILE else path / PROJECT_FILE
    text = read_text(
        file,
        f"There is no {PROJECT_FILE} in '{file.parent}'. Create a project there: mosaic projects create {file.parent}",
    )
    document = parse_document(text, file)
    try:
        return Project(Path(os.path.normpath(file.parent)), parse_project(document))
    except InputError as error:
        raise type(error)("\n".join(f"{file}: {line}" for line in str(error).splitlines())) from error


def read_text(file: Path, if_missing: str | None = None) -> str:
    """Read a short file of text; raise InputError for a pipe or a device, which would never end."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for its writer.
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(f"'{file}' is not a regular file.")
            content = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        missing = if_missing if isinstance(error, FileNotFoundError) else None
        raise InputError(missing or f"'{file}' cannot be read: {reason(error)}.") from error
    if len(content) > _MOST_BYTES:
        raise FormatError(f"{file}: it has more than {_MOST_BYTES >> 10} KiB.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{file}: it is not UTF-8 text (byte {error.start}).") from error


def create_project(folder: Path, document: dict[str, object]) -> Project:
    """Write the mosaic.toml of a folder that has none; the folder is created where it does not exist."""
    folder = Path(os.path.normpath(folder.expanduser().absolute()))
    file = folder / PROJECT_FILE
    config = parse_project(document)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder '{folder}' cannot be created: {reason(error)}.") from error
    if os.path.lexists(file) or not write_once(file, write_toml(document).encode(), 0o644):
        raise InputError(f"'{folder}' is a project already. Open it: mosaic projects open {folder}")
    return Project(folder, config)


def add_preset(project: Project, name: str, settings: Mapping[str, object]) -> Project:
    """Append a training preset to a mosaic.toml; what the file has stays as it is."""
    if name in project.config.train:
        raise InputError(f"The project '{project.name}' has a preset '{name}' already. Choose another name.")
    text, added = read_text(project.file), write_toml({"train": {name: dict(settings)}})
    changed = f"{text.rstrip()}\n\n{added}"
    before = tomllib.loads(text)
    wanted = {**before, "train": {**before.get("train", {}), name: tomllib.loads(added)["train"][name]}}
    try:
        done = tomllib.loads(changed) == wanted
    except tomllib.TOMLDecodeError:
        done = False
    if not done:
        raise InputError(f"'{project.file}' could not be extended here: write [train.{name}] in it yourself.")
    config = parse_project(wanted)
    write_atomic(Path(os.path.realpath(project.file)), changed)
    return Project(project.folder, config)


def rename_in_file(project: Project, name: str) -> Project:
    """Change the name in a mosaic.toml and nothing else: comments and layout stay."""
    file = project.file
    text = read_text(file)
    first = _HEADING.search(text)
    head, rest = (text[: first.start()], text[first.start() :]) if first else (text, "")
    written = write_toml({"name": name}).strip().removeprefix("name = ")
    changed = _NAME_LINE.sub(lambda found: f"{found[1]}{written}", head, count=1) + rest
    before = tomllib.loads(text)
    try:
        done = tomllib.loads(changed) == {**before, "name": name}
    except tomllib.TOMLDecodeError:
        done = False
    if not done:
        raise InputError(f"The name in '{file}' could not be changed here: write name = {written} in it yourself.")
    config = parse_project({**before, "name": name})
    write_atomic(Path(os.path.realpath(file)), changed)
    return Project(project.folder, config)
