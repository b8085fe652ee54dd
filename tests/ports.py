"""Ports for servers that end and start again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """Keep a port of this machine for the servers of a test: nobody else is given it while none of them listens."""
    with socket.socket() as holder:
        # Bound, not listening: other sockets with this option may listen here, and connections are refused meanwhile.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
