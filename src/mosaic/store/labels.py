"""Labels of a run that can change after it was created: its name, tags, a note, and whether lists leave it out.

They are in a file of their own, because only the holder of a run's lock may write its configuration.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mosaic.config.field_types import Reference
from mosaic.config.run import LONGEST_NAME, check_run_name
from mosaic.core.errors import InputError
from mosaic.core.reference import explain
from mosaic.store.atomic import write_atomic
from mosaic.store.errors import DamagedError, StorageError, reason
from mosaic.store.run_folder import RunFolder

if TYPE_CHECKING:
    from mosaic.config.run import RunConfig

LONGEST_NOTE = 4000  # characters
MOST_TAGS = 50
Tags: TypeAlias = Annotated[tuple[Reference, ...], Field(max_length=MOST_TAGS)]


def _check_note(note: str) -> str:
    if not all(character.isprintable() or character in "\n\t" for character in note):
        raise ValueError("it should be text: letters, signs, blanks and line breaks")
    return note.strip()


class Labels(BaseModel):
    """Labels that were changed; None where a run still has those of its configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(max_length=LONGEST_NAME), AfterValidator(check_run_name)] | None = Field(
        None, description="Human-readable name; can be used instead of the run id."
    )
    tags: Tags | None = Field(None, description="Labels to find the run by.")
    note: Annotated[str, Field(max_length=LONGEST_NOTE), AfterValidator(_check_note)] | None = Field(
        None, description="What is worth remembering about the run."
    )
    hidden: bool | None = Field(None, description="Whether lists of runs leave it out.")

    def name_of(self, config: RunConfig) -> str:
        return config.name if self.name is None else self.name

    def tags_of(self, config: RunConfig) -> tuple[str, ...]:
        return config.tags if self.tags is None else self.tags


class LabelChange(Labels):
    """Labels to change; single tags are added and removed without knowledge of the others."""

    add_tags: Tags | None = Field(None, description="Tags to add.")
    remove_tags: Tags | None = Field(None, description="Tags to remove.")

    @model_validator(mode="after")
    def _once(self) -> Self:
        if self.tags is not None and (self.add_tags is not None or self.remove_tags is not None):
            raise ValueError("'tags' replaces all of them: leave it out, or 'add_tags' and 'remove_tags'")
        return self


def make_change(**values: object) -> LabelChange:
    """Check labels that a user typed; raise InputError for invalid ones."""
    for key, value in values.items():
        if value is None and key in LabelChange.model_fields:  # it would change nothing
            raise InputError(f"{key}: null is not a label. Leave it out to keep it; empty text or [] removes it.")
    try:
        return LabelChange.model_validate(values)
    except ValidationError as error:
        raise InputError(explain(error, LabelChange)) from error


def read_labels(folder: RunFolder) -> Labels:
    try:
        return Labels.model_validate_json(folder.labels.read_bytes())
    except FileNotFoundError:
        return Labels()
    except ValidationError as error:
        raise DamagedError(f"'{folder.labels}' is damaged: {explain(error, Labels)}") from error


def change_labels(folder: RunFolder, change: LabelChange) -> Labels:
    """Change the labels that `change` sets and return all of them. A live run can be changed too.

    Processes that change labels at the same time do it one after the other.
    """
    with _alone(folder):
        known = read_labels(folder)
        set_now = change.model_dump(exclude_none=True, exclude={"add_tags", "remove_tags"})
        if change.add_tags is not None or change.remove_tags is not None:
            before = known.tags_of(folder.read_config())
            set_now["tags"] = with_tags(before, change.add_tags or (), change.remove_tags or ())
        labels = make_change(**known.model_dump(exclude_none=True) | set_now)
        write_atomic(folder.labels, labels.model_dump_json(exclude_none=True, indent=1) + "\n")
        os.utime(folder.state)  # the index reads a run again when the time of its state.json has changed
    return labels


def with_tags(tags: Iterable[str], added: Iterable[str] = (), removed: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the tags, each once, after additions and removals."""
    without = set(removed)
    return tuple(tag for tag in dict.fromkeys((*tags, *added)) if tag not in without)


@contextmanager
def _alone(folder: RunFolder) -> Iterator[None]:
    """Lock out other processes that change the labels of this run."""
    try:
        descriptor = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(f"'{folder.path}' cannot be opened: {reason(error)}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
