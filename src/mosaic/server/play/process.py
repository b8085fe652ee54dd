"""Match in a process of its own, for one viewer without a server: the messages of its WebSocket, through pipes.

A message of the match is a letter, its length and its bytes; one of the viewer is a line of JSON, and the first line is
the request. The match ends with the viewer's pipe. What envs and policies print goes to the standard error.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import BinaryIO

from mosaic.core.errors import MosaicError
from mosaic.server.auth.programs import ProgramRule
from mosaic.server.client.matches import ENDED, HEAD, PICTURE, TEXT
from mosaic.server.play.feed import MatchFeed
from mosaic.server.play.match import Match
from mosaic.server.play.messages import read_request
from mosaic.server.play.registry import Matches
from mosaic.store.store import home as store_home

_PATIENCE_S = 2.0  # for an env in the middle of a step when the viewer has left


def main() -> None:
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    with suppress(BrokenPipeError):  # the viewer has left
        _send(pipe, ENDED, _serve(pipe).encode())


def _serve(pipe: BinaryIO) -> str:
    """Play until the match has ended or the viewer has left; return the reason."""
    lines = sys.stdin.buffer
    first = lines.readline()
    home = store_home()
    matches = Matches(home, programs=ProgramRule(home, allowed=True))  # the viewer owns this machine
    try:
        match = matches.open(read_request(first))
    except MosaicError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - an env or policy of a user; the viewer learns of it
        return f"{type(error).__name__}: {error}"
    wake = threading.Event()
    feed = MatchFeed(match, set(), lambda policy: None, wake.set)
    feed.join()

    def listen() -> None:
        for line in lines:
            feed.take(line.decode())
        _leave(match)

    threading.Thread(target=listen, name="viewer", daemon=True).start()
    while not feed.ending:
        wake.wait()
        wake.clear()
        for text in feed.texts():
            _send(pipe, TEXT, text.encode())
        frame = feed.picture()
        if frame is not None:
            _send(pipe, PICTURE, frame.message())
    match.join_thread(_PATIENCE_S)
    return feed.ending


def _leave(match: Match) -> None:
    """End the match, and the process even if an env or a policy does not return."""
    match.end("its viewer has left.")
    match.join_thread(_PATIENCE_S)
    os._exit(0)


def _send(pipe: BinaryIO, letter: bytes, data: bytes) -> None:
    pipe.write(HEAD.pack(letter, len(data)) + data)


if __name__ == "__main__":
    main()
