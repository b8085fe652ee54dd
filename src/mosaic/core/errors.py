"""Errors with messages that name the request, the nearest match, the known names and what to type; notices.

A notice is for the user, from code that does not know what runs it: it goes to standard error, or into a run's events.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


class MosaicError(Exception):
    """Failure with an explanation: screens print the message alone, without a traceback."""

    exit_code: ClassVar[int] = 1


class InputError(MosaicError):
    """Request that cannot be carried out as given; the message says what to type instead."""

    exit_code: ClassVar[int] = 2


class UnknownNameError(InputError):
    """Name that does not exist."""


class MissingExtraError(InputError):
    """Existing feature that is not installed; the message holds the exact install line."""


class FormatError(InputError):
    """File or document with an invalid format."""


class TrustError(InputError):
    """Code from an untrusted source that the user has not allowed to run."""


def describe_error(error: BaseException) -> str:
    """Return type and message of the first error in a chain of causes that has a message: some are raised without."""
    while not str(error) and (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return f"{type(error).__name__}: {error}"


def nearest(asked: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant."""
    by_fold = {name.casefold(): name for name in known}
    near = get_close_matches(asked.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[near[0]] if near else None


def known_spelling(asked: str, known: Iterable[str]) -> str:
    """Return the known name that differs from the asked one only in upper and lower case; else the asked one."""
    names = list(known)
    same = [name for name in names if name.casefold() == asked.casefold()]
    return asked if asked in names or len(same) != 1 else same[0]


def unknown(what: str, asked: str, known: Iterable[str], advice: str = "") -> UnknownNameError:
    """Build an error such as «There is no worker named 'sb4'. Did you mean 'sb3'? Known: native, rllib, sb3.»."""
    names = sorted(known)
    near = nearest(asked, names)
    parts = [f"There is no {what} named '{asked}'."]
    if near:
        parts.append(f"Did you mean '{near}'?")
    if names:
        shown = ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else "")
        parts.append(f"Known: {shown}.")
    if advice:
        parts.append(advice)
    return UnknownNameError(" ".join(parts))


_KINDS: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list, such as [a, b]",
    "list": "a list, such as [a, b]",
    "dict": "a group of settings",
    "mapping": "a group of settings",
    "model": "a group of settings",
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        """Shorten very long integers, which Python refuses to print."""
        return repr(x) if x.bit_length() < 128 else f"<integer of {x.bit_length()} bits>"


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = 80


def shown(value: object) -> str:
    """Return a short text for any value, however large."""
    return _SHORT.repr(value)


def did_you_mean(asked: str, known: Iterable[str]) -> str:
    """Return « Did you mean 'ppo'?» with its leading blank, or an empty string."""
    near = nearest(asked, known)
    return f" Did you mean '{near}'?" if near else ""


def check_keywords(function: Callable[..., object], given: Iterable[str], options: type) -> None:
    """Raise TypeError for an argument that is not one of the function with `**given: Unpack[options]`."""
    named = [each.name for each in signature(function).parameters.values() if each.kind is Parameter.KEYWORD_ONLY]
    known = sorted([*named, *options.__annotations__])
    for name in given:
        if name not in known:
            raise TypeError(
                f"{function.__name__}() has no argument '{name}'.{did_you_mean(name, known)} Known: {', '.join(known)}."
            )


def demand(complaint: ErrorDetails) -> str:
    """Describe what the value should be instead: «it should be a whole number»."""
    kind, context = complaint["type"], complaint.get("ctx", {})
    if kind in _BOUNDS:
        words, limit = _BOUNDS[kind]
        return f"it should be {words} {context[limit]}"
    match kind:
        case "value_error":
            return str(context["error"])
        case "literal_error":
            return f"it should be {context['expected']}"
        case "invalid_key":
            return "names of settings should be text"
        case "string_unicode":
            return "it should be valid Unicode"
        case "finite_number":
            return "it should be a finite number"
        case "string_too_short":
            return "it should not be empty"
        case "too_short":
            return f"it should have at least {_items(context['min_length'])}"
        case "too_long":
            return f"it should have at most {_items(context['max_length'])}"
        case "string_too_long":
            return f"it should have at most {context['max_length']} characters"
        case "string_type" if isinstance(complaint["input"], int | float):
            return "it should be text: put it in quotes"
    noun = _KINDS.get(kind.partition("_")[0]) if kind.endswith(("_type", "_parsing", "_from_float")) else None
    if noun:
        return f"it should be {noun}"
    message: str = complaint["msg"]
    return message.replace("Input should", "it should", 1)


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


def suggestion(complaint: ErrorDetails) -> str:
    """Return « Did you mean 'parallel'?» where one of the allowed words is near the value, else an empty string."""
    asked = complaint["input"]
    if complaint["type"] != "literal_error" or not isinstance(asked, str):
        return ""
    expected: str = complaint["ctx"]["expected"]  # "'aec', 'parallel' or 'gym'"
    return did_you_mean(asked, expected.split("'")[1::2])


def _print(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


_show: Callable[[str], None] = _print


def notify(message: str) -> None:
    """Show a notice, such as what the user has to do before the program can continue."""
    _show(message)


@contextmanager
def notices_to(show: Callable[[str], None]) -> Iterator[None]:
    """Pass all notices of this process to a function, in this block."""
    global _show
    before, _show = _show, show
    try:
        yield
    finally:
        _show = before
