"""One of a thing for all who need it at the same time: made for the first, told to end after the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar


class Feed(Protocol):
    """`over` is done when it has nothing more to give."""

    over: asyncio.Task[Any]

    def close(self) -> None: ...


K = TypeVar("K", bound=Hashable)
F = TypeVar("F", bound=Feed)


class _Loan(Generic[F]):
    def __init__(self, feed: F) -> None:
        self.feed, self.users = feed, 0


class Shared(Generic[K, F]):
    """For one event loop. One that is over is lent no more: what it told of may have begun anew."""

    def __init__(self, make: Callable[[K], F]) -> None:
        self._make = make
        self._loans: dict[K, _Loan[F]] = {}

    @contextmanager
    def lend(self, key: K) -> Iterator[F]:
        loan = self._loans.get(key)
        if loan is None or loan.feed.over.done():
            loan = self._loans[key] = _Loan(self._make(key))
        loan.users += 1
        try:
            yield loan.feed
        finally:
            loan.users -= 1
            if not loan.users:
                loan.feed.close()
                if self._loans.get(key) is loan:
                    del self._loans[key]


async def nap(left: asyncio.Event, for_s: float) -> None:
    """So long, but no longer than somebody is there."""
    try:
        async with asyncio.timeout(for_s):
            await left.wait()
    except TimeoutError:
        return
