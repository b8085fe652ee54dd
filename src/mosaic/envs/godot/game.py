"""A connected game: its description and its messages."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import NoReturn

from mosaic.core.seeding import SEED_LIMIT
from mosaic.envs.godot.connection import Connection, accept, listen
from mosaic.envs.godot.messages import HANDSHAKE, GameError, GameInfo, Reply, StepReply, check_info
from mosaic.envs.godot.options import GodotOptions
from mosaic.envs.godot.process import ENDING_S, GameProcess, command_line


def greet(connection: Connection) -> GameInfo:
    """Shake hands and return the game's description; a game gives it once."""
    connection.send(HANDSHAKE)
    connection.send({"type": "env_info"})
    return check_info(connection.receive(GameInfo))


class Game:
    """Game that has described itself. `player` is what has reset it last; `close` it when done."""

    def __init__(self, connection: Connection, info: GameInfo, process: GameProcess | None = None) -> None:
        self.connection, self.info, self.process = connection, info, process
        self.player: object = None
        self._stepping = False  # an action was sent, and its result not received

    def ask(self, message: dict[str, object], kind: type[Reply]) -> Reply:
        """Send a message and return the answer; the result of a step that was sent before is dropped."""
        if self._stepping:
            self.receive_step()
        self.connection.send(message)
        return self.connection.receive(kind)

    def send_step(self, actions: list[dict[str, object]]) -> None:
        self.connection.send({"type": "action", "action": actions})
        self._stepping = True

    def receive_step(self) -> StepReply:
        reply = self.connection.receive(StepReply)
        self._stepping = False
        return reply

    def fail(self, error: GameError) -> NoReturn:
        self.connection.fail(error)

    def close(self) -> None:
        """Ask the game to end, and end its process; may be called twice."""
        failed = self.connection.failed
        with suppress(GameError):  # it is gone, or does not read
            self.connection.send({"type": "close"})
        self.connection.close()
        if self.process is not None:
            self.process.end(0.0 if failed else ENDING_S)


def start_game(path: Path, options: GodotOptions) -> Game:
    """Start a game and wait until it has described itself."""
    seed = int.from_bytes(os.urandom(4), "little") % SEED_LIMIT if options.seed is None else options.seed
    with closing(listen(options.host, options.port, exact=False)) as listener, ExitStack() as failing:
        process = GameProcess(command_line(path, options, listener.getsockname()[1], seed))
        failing.callback(process.end, 0.0)
        sock = accept(listener, options.timeout_s, process)
        connection = Connection(sock, process, options.timeout_s, options.log)
        failing.callback(connection.close)
        game = Game(connection, greet(connection), process)
        failing.pop_all()
    return game
