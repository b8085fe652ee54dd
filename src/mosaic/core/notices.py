"""Notices for the user from code that does not know what runs it: they go to standard error, or into a run's events."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
