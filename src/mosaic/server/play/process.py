"""Match or replay in a process of its own, for one viewer without a server, through pipes.

A message of the process is a letter, its length and its bytes; one of the viewer is a line of JSON, and the first line
is the request: of a match, a replay, or a match from a position of a replay. A match sends the messages of its
WebSocket; a replay replies to each line. Both end with the viewer's pipe. What envs and policies print goes to the
standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from typing import BinaryIO

from pydantic import TypeAdapter

from mosaic.core.errors import MosaicError
from mosaic.server.auth.programs import ProgramRule
from mosaic.server.client.matches import ENDED, HEAD, PICTURE, PLAY_ON, REPLAY, TEXT
from mosaic.server.play.feed import MatchFeed
from mosaic.server.play.match import Match
from mosaic.server.play.messages import read_request
from mosaic.server.play.registry import Matches
from mosaic.server.play.replay_views import ReplayAsked, ReportRow, open_replay, replay_row, report_rows
from mosaic.server.play.replays import Replay
from mosaic.store.store import home as store_home

_PATIENCE_S = 2.0  # for an env in the middle of a step when the viewer has left


def main() -> None:
    pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    with suppress(BrokenPipeError):  # the viewer has left
        _send(pipe, ENDED, _serve(pipe, "".join(sys.argv[1:])).encode())


def _serve(pipe: BinaryIO, argument: str) -> str:
    """Play until the match has ended or the viewer has left; return the reason."""
    lines = sys.stdin.buffer
    first = lines.readline()
    home = store_home()
    matches = Matches(home, programs=ProgramRule(home, allowed=True))  # the viewer owns this machine
    try:
        if argument == REPLAY:
            return _serve_replay(pipe, lines, open_replay(matches, ReplayAsked.model_validate_json(first)))
        match = _play_on(matches, first) if argument == PLAY_ON else matches.open(read_request(first))
    except MosaicError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - an env or policy of a user; the viewer learns of it
        return f"{type(error).__name__}: {error}"
    wake = threading.Event()
    claims = set(match.state.episode.agents) if match.state.hides else set()  # all people sit at this screen
    feed = MatchFeed(match, claims, lambda policy: None, wake.set)
    feed.join()
    match.state.identify(feed.viewer, match.state.access.owner_key)

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


def _play_on(matches: Matches, request: bytes) -> Match:
    """Open a match from a position of a recorded episode, whose replay is no longer needed."""
    asked = json.loads(request)
    replay = open_replay(matches, ReplayAsked.model_validate(asked["replay"]))
    replay.end()
    replay.join_thread(_PATIENCE_S)
    return matches.play_on(replay, asked["step"], asked["agents"])


def _serve_replay(pipe: BinaryIO, lines: BinaryIO, replay: Replay) -> str:
    """Reply to the viewer's requests, one after the other, until it has left."""
    for line in lines:
        asked = json.loads(line)
        match asked["type"]:
            case "show":
                _send(pipe, TEXT, replay_row(replay).model_dump_json().encode())
            case "reports":
                _send(pipe, TEXT, TypeAdapter(list[ReportRow]).dump_json(report_rows(replay)))
            case _:
                try:
                    _send(pipe, PICTURE, replay.picture(asked["step"]).data)
                except MosaicError as error:
                    _send(pipe, TEXT, json.dumps({"error": str(error)}).encode())
    replay.end()
    return "The viewer has left."


def _leave(match: Match) -> None:
    """End the match, and the process even if an env or a policy does not return."""
    match.end("its viewer has left.")
    match.join_thread(_PATIENCE_S)
    os._exit(0)


def _send(pipe: BinaryIO, letter: bytes, data: bytes) -> None:
    pipe.write(HEAD.pack(letter, len(data)) + data)


if __name__ == "__main__":
    main()
