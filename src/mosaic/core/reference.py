"""Parser of `name:key=value,key=value` references, which name policies and wrappers."""

from __future__ import annotations

import os
import re
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mosaic.core.errors import InputError, demand, did_you_mean, shown, suggestion


class Options(BaseModel):
    """Options after the colon of a reference: subclass it with one documented field per option."""

    model_config = ConfigDict(frozen=True, extra="forbid")


PATHS = ("path", "command", "address")  # the leading options whose value may contain commas
FILES = ("bundle", "checkpoint", "onnx", "sb3")  # kinds of policies whose path follows the colon
COMMAND = "process"  # the kind of policy that starts a program
SEARCH = "search"  # the kind of policy that searches with the policy of a run
MODEL = "llm"  # the kind of policy that calls an address, which must not be one of a stranger's choice
_OPTION = re.compile(r",+(?=[A-Za-z_]\w*=)")
_NAMED = re.compile(r"[A-Za-z_]\w*=")
_SECRET = re.compile(r"(?i)([\w-]*(?:key|token|secret|password|passwd|authorization|bearer))=[^,;\s]+")
_CREDENTIALS = re.compile(r"://[^/?#,;\s]*@")
Model = TypeVar("Model", bound=Options)
KindOptions: TypeAlias = Any  # instance of the subclass of Options that a kind of policy or wrapper declares


def split_reference(reference: str) -> tuple[str, str]:
    """Split a reference: `stockfish:elo=1500` → ("stockfish", "elo=1500")."""
    name, _, rest = reference.partition(":")
    return name, rest


def without_search(reference: str) -> str:
    """Return the policy that a reference searches with: `search:run:ID,simulations=9` → `run:ID`; others unchanged."""
    name, rest = split_reference(reference)
    return rest.partition(",")[0] if name == SEARCH else reference


def split_path(text: str) -> tuple[str, str]:
    """Split `PATH,key=value,…` → ("PATH", "key=value,…"). A path may contain commas: an option is a word and `=`."""
    path, *options = _OPTION.split(text, maxsplit=1)
    return path.rstrip(","), "".join(options)


def absolute_file(reference: str, folder: str | os.PathLike[str]) -> str:
    """Return `KIND:PATH,…` with an absolute path, where a relative one starts at `folder`."""
    kind, rest = split_reference(reference)
    path, options = split_path(rest)
    if not path or _NAMED.match(path):  # the path is given by its name, `path=…`, and stays as it is
        return reference
    absolute = os.path.normpath(os.path.join(folder, os.path.expanduser(path)))
    return f"{kind}:{absolute}{',' if options else ''}{options}"


def absolute_command(reference: str, folder: str | os.PathLike[str]) -> str:
    """Return `process:COMMAND,…` with the folder that its program is to be started in."""
    _, rest = split_reference(reference)
    named = any(part.startswith("folder=") for part in _OPTION.split(rest))
    return reference if named or not rest else f"{reference},folder={os.path.abspath(folder)}"


def parse_options(reference: str, text: str, model: type[Model], first: str | None = None) -> Model:
    """Parse `elo=1500,depth=3` into an instance of the model.

    `first` is the field of a leading part without `=` (a path).
    """
    if first not in PATHS:
        _refuse_secrets(reference, text, model)
    values: dict[str, str] = {}
    if first in PATHS and not _NAMED.match(text):
        leading, text = split_path(text)
        values |= {first: leading} if leading else {}
        first = None
    for index, part in enumerate(filter(None, text.split(","))):
        key, equals, value = part.partition("=")
        if index == 0 and first is not None and (not equals or "/" in key):
            key, value = first, part
        elif not equals:
            raise InputError(f"'{part}' in '{reference}' is not KEY=VALUE. {_known(model)}")
        if key in values:
            raise InputError(f"'{key}' is duplicated in '{reference}'.")
        values[key] = value
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InputError(f"'{reference}': {explain(error, model)}") from error


def without_secrets(text: str) -> str:
    """Return the text with the values of keys and passwords left out."""
    return _CREDENTIALS.sub("://…@", _SECRET.sub(r"\1=…", text))


def _refuse_secrets(reference: str, text: str, model: type[Options]) -> None:
    """Raise InputError, without repeating it, where a reference holds a key: references are listed and recorded."""
    for part in text.split(","):
        named = _SECRET.match(part)
        if (named and named[1] not in model.model_fields) or _CREDENTIALS.search(part):
            raise InputError(
                f"'{without_secrets(reference)}' holds a key or a password. References appear in lists of processes, "
                "logs and records: put it into an environment variable instead."
            )


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Describe pydantic's first error in one sentence, with the nearest known key."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"there is no option '{where}'.{did_you_mean(where, model.model_fields)} {_known(model)}"
    if first["type"] == "missing":
        return f"the option '{where}' is missing. {_known(model)}"
    place = f"{where}: " if where else ""
    return f"{place}{demand(first)} (got {shown(first['input'])}).{suggestion(first)}"


def _known(model: type[BaseModel]) -> str:
    fields = model.model_fields
    return f"Options: {', '.join(fields)}." if fields else "It takes no options."
