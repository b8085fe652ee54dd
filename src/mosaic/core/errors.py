"""How Mosaic says what went wrong: what was asked, what is nearest, what exists, what to type."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar


class MosaicError(Exception):
    """Something failed in a way we can explain. Screens print the message alone, without a traceback."""

    exit_code: ClassVar[int] = 1


class InputError(MosaicError):
    """What was asked cannot be done as asked; the message says what to type instead."""

    exit_code: ClassVar[int] = 2


class UnknownNameError(InputError):
    """A name that nothing answers to."""


class MissingExtraError(InputError):
    """Something that exists but is not installed; the message holds the exact install line."""


class FormatError(InputError):
    """A file or document that is not what it should be."""


class TrustError(InputError):
    """Something made by a stranger may run code, and the user has not said that it may."""


def nearest(asked: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    by_fold = {name.casefold(): name for name in known}
    near = get_close_matches(asked.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[near[0]] if near else None


def unknown(what: str, asked: str, known: Iterable[str], advice: str = "") -> UnknownNameError:
    """«There is no worker named 'sb4'. Did you mean 'sb3'? Known: native, rllib, sb3.»"""
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
