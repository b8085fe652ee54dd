"""Types of single settings: step counts, references, plain data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from mosaic.core.errors import shown
from mosaic.core.user_code import PREFIX

MOST_STEPS = 10**15
MOST_VALUES = 10_000  # a few lines of YAML with aliases can expand to billions
MOST_LEVELS = 32
LONGEST = 4096
INTEGER_LIMIT = 2**63  # the limit of TOML, SQLite and every other JSON reader

_CODE = re.compile(PREFIX + r"[^:\s]+:[^:\s]+")


def is_code(text: str) -> bool:
    """Return whether the text has the form python:module:function."""
    return _CODE.fullmatch(text) is not None


def plain(data: Mapping[object, object]) -> dict[str, object]:
    """Return a deep copy that holds only what JSON can; anything else could be requested but never stored."""
    left = MOST_VALUES - 1

    def copy(value: object, path: tuple[str, ...]) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError(f"it should hold at most {MOST_VALUES} values")
        if len(path) > MOST_LEVELS:
            raise ValueError(f"it should be nested at most {MOST_LEVELS} levels deep")
        if isinstance(value, Mapping):
            return table(value, path)
        if isinstance(value, list | tuple):
            return [copy(item, (*path, str(index))) for index, item in enumerate(value)]
        return _scalar(value, ".".join(path))

    def table(values: Mapping[object, object], path: tuple[str, ...]) -> dict[str, object]:
        return {_key(key, path): copy(item, (*path, str(key))) for key, item in values.items()}

    return table(data, ())


def _key(key: object, path: tuple[str, ...]) -> str:
    if not isinstance(key, str):
        where = f" in '{'.'.join(path)}'" if path else ""
        raise ValueError(f"its names should be text: put {shown(key)}{where} in quotes")
    return writable(str.__str__(key))


def _scalar(value: object, where: str) -> object:
    match value:
        case None | bool():
            return value
        case str():
            return writable(str.__str__(value))
        case int():
            if abs(value) >= INTEGER_LIMIT:
                raise ValueError(f"its whole numbers should fit 64 bits: '{where}' does not")
            return int(value)
        case float():
            if not math.isfinite(value):
                raise ValueError(f"its numbers should be finite: '{where}' is {value}")
            return float(value)
        case _:
            raise ValueError(
                f"it should hold text, numbers, true, false, null, lists and mappings: '{where}' is of type "
                f"{type(value).__name__}; put it in quotes to mean text"
            )


def writable(text: str) -> str:
    """Return the text; raise ValueError if a file cannot hold it."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("it should be valid Unicode: a lone surrogate cannot be written to a file")
    return text


def _none_is_empty(value: object) -> object:
    return {} if value is None else value


def _check_policy_sections(sections: dict[str, object]) -> dict[str, object]:
    return {name: _policy_section(name, section) for name, section in sections.items()}


def _policy_section(name: str, section: object) -> dict[str, object]:
    """Return one policy's settings without those that are null, which mean the run's own."""
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise ValueError(f"'{name}' should be {{OPTION: VALUE}}, such as {{gamma: 0.9}}, not {shown(section)}")
    kept = {key: value for key, value in section.items() if value is not None or key not in ("algorithm", "network")}
    if not isinstance(kept.get("algorithm", ""), str):
        raise ValueError(f"'{name}.algorithm' should be text, such as ppo, not {shown(kept['algorithm'])}")
    if not isinstance(kept.get("network", {}), Mapping):
        raise ValueError(f"'{name}.network' should be {{OPTION: VALUE}}, not {shown(kept['network'])}")
    return kept


def _auto_is_none(value: object) -> object:
    return None if isinstance(value, str) and value.casefold() == "auto" else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Steps: TypeAlias = Annotated[int, Field(ge=1, le=MOST_STEPS)]
Reference: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST)]
FreeOptions: TypeAlias = Annotated[dict[str, Any], BeforeValidator(_none_is_empty), AfterValidator(plain)]
AnyCase = BeforeValidator(_lower)  # for settings with a few lower-case choices: `AEC` is `aec`
PolicySections: TypeAlias = Annotated[
    dict[str, Any], BeforeValidator(_none_is_empty), AfterValidator(plain), AfterValidator(_check_policy_sections)
]
BASIC = Field(json_schema_extra={"group": "basic"})  # marks an option that forms show first; the others are advanced
SHAPES_CHECKPOINTS = "shapes checkpoints"  # marks an option that must not change when a run resumes from a checkpoint
MosaicPicks = BeforeValidator(_auto_is_none)  # for settings where None lets Mosaic choose: `auto` means the same
