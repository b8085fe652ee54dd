"""Search space: the notation NAME=SPEC, checked against the worker's own options.

`0.9..0.999` is any number between the two (an integer where the option is one), `log:1e-5..1e-2` the same with every
order of magnitude equally likely, `int:1..20` integers, and `32|64|128` or `choice:32,64,128` one of those values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import yaml
from pydantic import BaseModel

from mosaic.config.yaml import read_scalar, read_yaml
from mosaic.core.errors import InputError, UnknownNameError, did_you_mean
from mosaic.workers.api import Worker
from mosaic.workers.registry import options_model, parse_params

_EXAMPLES = "0.9..0.999, log:1e-5..1e-2, int:1..20, 32|64|128 or choice:32,64,128"


@dataclass(frozen=True, slots=True)
class Between:
    """Closed interval: both ends are included."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class OneOf:
    values: tuple[object, ...]


Domain: TypeAlias = Between | OneOf
Space: TypeAlias = dict[str, Domain]


def split_specs(texts: Iterable[str]) -> dict[str, str]:
    """Parse `["gamma=0.9..0.999"]` into {"gamma": "0.9..0.999"}."""
    specs: dict[str, str] = {}
    for text in texts:
        name, equals, spec = (part.strip() for part in text.partition("="))
        if not equals or not name or not spec:
            raise InputError(f"'{text}' is not NAME=VALUES, for example learning_rate=log:1e-5..1e-2.")
        if name in specs:
            raise InputError(f"'{name}' is searched twice. Say everything about it at once: {name}=A|B|C.")
        specs[name] = spec
    return specs


def parse_space(specs: Mapping[str, str], worker: Worker, algorithm: str, params: Mapping[str, object]) -> Space:
    """Parse the domain of each option. Raises InputError if the worker would refuse one of the values."""
    model = options_model(worker, algorithm)
    space = {name: _parse(name, spec, model) for name, spec in specs.items()}
    for name, domain in space.items():
        for value in _extremes(domain):
            try:
                parse_params(worker, algorithm, {**params, name: value})
            except InputError as error:
                raise InputError(f"--search {name}={specs[name]}: {error}") from error
    return space


def clamp(domain: Domain, value: Any) -> object:
    """Return the nearest value inside the domain: a perturbed one may have left it."""
    match domain:
        case OneOf():
            return value
        case Between(low, high, whole=whole):
            kept = min(max(value, low), high)
            return round(kept) if whole else kept
        case _:
            assert_never(domain)


def _parse(name: str, spec: str, model: type[BaseModel]) -> Domain:
    if name not in model.model_fields:
        raise UnknownNameError(
            f"--search {name}={spec}: there is no option '{name}'.{did_you_mean(name, model.model_fields)} "
            f"Options: {', '.join(model.model_fields)}."
        )
    kind, colon, rest = spec.partition(":")
    match kind if colon else "":
        case "choice":
            return _choices(name, spec, rest)
        case "log" | "int":
            return _range(name, spec, rest, log=kind == "log", whole=kind == "int" or _is_whole(model, name))
        case _ if "|" in spec:
            return _choices(name, spec, spec)
        case _:
            return _range(name, spec, spec, log=False, whole=_is_whole(model, name))


def _range(name: str, spec: str, text: str, *, log: bool, whole: bool) -> Between:
    first, dots, last = text.partition("..")
    try:
        low, high = float(first), float(last)
    except ValueError:
        low = high = math.nan
    if not dots or not math.isfinite(low) or not math.isfinite(high):
        raise InputError(f"--search {name}={spec}: that names no values. Type one of: {_EXAMPLES}.")
    if whole and not (low.is_integer() and high.is_integer()):
        raise InputError(f"--search {name}={spec}: '{name}' is a whole number, and so should both ends be.")
    if low >= high:
        raise InputError(
            f"--search {name}={spec}: the first end should be below the second. Type {name}={last}..{first}"
        )
    if log and low <= 0:
        raise InputError(f"--search {name}={spec}: a log scale begins above 0. Type {name}={text} for an even one.")
    return Between(int(low), int(high), log, whole) if whole else Between(low, high, log)


def _choices(name: str, spec: str, text: str) -> OneOf:
    try:
        values = tuple(_value(part.strip()) for part in (text.split("|") if "|" in text else _at_commas(text)))
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(f"--search {name}={spec}: a value cannot be read ({error}).") from error
    if len(values) < 2 or any(value in values[:place] for place, value in enumerate(values)):
        raise InputError(
            f"--search {name}={spec}: a choice is between two or more different values. Type {name}=A|B|C."
        )
    return OneOf(values)


def _value(text: str) -> object:
    if not text:
        raise ValueError("it is empty")
    return read_yaml(text) if text[0] in "[{\"'" else read_scalar(text)


def _at_commas(text: str) -> Iterator[str]:
    """Split at commas that are outside brackets."""
    depth, part = 0, ""
    for char in text:
        depth += (char in "[{") - (char in "]}")
        if char == "," and depth == 0:
            yield part
            part = ""
        else:
            part += char
    yield part


def _is_whole(model: type[BaseModel], name: str) -> bool:
    """Return whether the option is an integer, according to the schema that forms are built from."""
    schema = model.model_json_schema(by_alias=False)["properties"][name]
    kinds = {each.get("type") for each in schema.get("anyOf", [schema])}
    return "integer" in kinds and "number" not in kinds


def _extremes(domain: Domain) -> tuple[object, ...]:
    """Return the values whose validity implies that of all others."""
    match domain:
        case OneOf(values):
            return values
        case Between(low, high):
            return low, high
        case _:
            assert_never(domain)
