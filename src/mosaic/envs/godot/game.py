"""A connected game: started by Mosaic or in the editor, described, and asked."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import NoReturn

from mosaic.core.seeding import SEED_LIMIT
from mosaic.envs.godot.connection import Connection, accept, listen
from mosaic.envs.godot.messages import HANDSHAKE, GameError, GameInfo, Reply, check_info
from mosaic.envs.godot.options import DEFAULT_PORT, GodotOptions
from mosaic.envs.godot.process import GameProcess, command_line


class Game:
    """Game that has answered the handshake; `close` it when done."""

    def __init__(self, connection: Connection, process: GameProcess | None) -> None:
        self._connection, self.process = connection, process
        connection.send(HANDSHAKE)
        self.info = check_info(self.ask({"type": "env_info"}, GameInfo))

    def ask(self, message: dict[str, object], kind: type[Reply]) -> Reply:
        self._connection.send(message)
        return self._connection.receive(kind)

    def send(self, message: dict[str, object]) -> None:
        self._connection.send(message)

    def receive(self, kind: type[Reply]) -> Reply:
        return self._connection.receive(kind)

    def fail(self, error: GameError) -> NoReturn:
        self._connection.fail(error)

    def close(self) -> None:
        """Ask the game to end, and end its process; may be called twice."""
        with suppress(GameError):  # it is gone, or does not read
            self._connection.send({"type": "close"})
        self._connection.close()
        if self.process is not None:
            self.process.end()


def start_game(path: Path, options: GodotOptions) -> Game:
    """Start a game and wait until it has described itself."""
    seed = int.from_bytes(os.urandom(4), "little") % SEED_LIMIT if options.seed is None else options.seed
    with ExitStack() as stack:
        listener = stack.enter_context(closing(listen(options.host, options.port, exact=False)))
        process = GameProcess(command_line(path, options, listener.getsockname()[1], seed))
        with ExitStack() as failing:
            failing.callback(process.end, 0.0)
            sock = accept(listener, options.timeout_s, process)
            connection = Connection(sock, process, options.timeout_s, options.log)
            failing.callback(connection.close)
            game = Game(connection, process)
            failing.pop_all()
        return game


def wait_for_editor(options: GodotOptions) -> Game:
    """Wait for a game that is started in the editor, saying so on standard error."""
    port = DEFAULT_PORT if options.port is None else options.port
    with closing(listen(options.host, port, exact=True)) as listener:
        bound = "" if options.wait_s is None else f" for at most {options.wait_s:g} s"
        print(
            f"Waiting{bound} for the game on {options.host}:{port}: press Play in the Godot editor (Ctrl-C ends).",
            file=sys.stderr,
            flush=True,
        )
        sock = accept(listener, options.wait_s, None)
    connection = Connection(sock, None, options.timeout_s, options.log)
    try:
        return Game(connection, None)
    except BaseException:
        connection.close()
        raise
