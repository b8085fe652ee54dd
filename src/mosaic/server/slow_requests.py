"""HTTP protocol that closes connections whose request is not sent in time; uvicorn itself waits for ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

REQUEST_WITHIN_S = 30.0  # from the first byte, or from the connection's begin, to the end of the headers

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    _Protocol = AutoHTTPProtocol  # httptools where it is installed


class TimedProtocol(_Protocol):
    """Watches the time between two requests in which a part of the next one has come."""

    within_s = REQUEST_WITHIN_S
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.get_protocol() is not self or self._is_busy():
            self._end_waiting()
        elif self._deadline is None:
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        super().connection_lost(exc)

    def _is_busy(self) -> bool:
        """Whether the headers of a request have come and its answer is on the way; the guard limits its body."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait_for_request(self) -> None:
        self._deadline = self.loop.call_later(self.within_s, self._give_up)

    def _end_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self._is_busy():
            self.transport.close()
