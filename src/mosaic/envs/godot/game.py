"""A connected game: its description and its messages."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from time import monotonic
from typing import NoReturn

from mosaic.core.seeding import SEED_LIMIT
from mosaic.envs.godot.connection import Connection, accept, listen
from mosaic.envs.godot.messages import HANDSHAKE, GameError, GameInfo, Reply, StepReply, check_info
from mosaic.envs.godot.names import hold_name, release_name
from mosaic.envs.godot.options import GodotOptions
from mosaic.envs.godot.process import ENDING_S, GameProcess, command_line

RUN = "MOSAIC_RUN"  # environment variable of all processes of a run


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
        self.seed: SeedClaim | None = None
        self._stepping = False  # an action was sent, and its result not received
        self._end_by_s: float | None = None  # it was asked to end

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

    def begin_end(self) -> None:
        """Ask the game to end within a moment; may be called twice."""
        if self._end_by_s is not None:
            return
        self._end_by_s = monotonic() + (0.0 if self.connection.failed else ENDING_S)
        with suppress(GameError):  # it is gone, or does not read
            self.connection.send({"type": "close"})
        self.connection.close()

    def close(self) -> None:
        """Ask the game to end, wait for it, and end its process; may be called twice."""
        self.begin_end()
        if self.process is not None and self._end_by_s is not None:
            self.process.end(max(0.0, self._end_by_s - monotonic()))
        if self.seed is not None:
            self.seed.close()


class SeedClaim:
    """Seed of a game, the first from `first` on that no other game of this run has (outside of runs: of this process).

    A name is held while the game is played, so that processes of one run need not know each other.
    """

    def __init__(self, first: int) -> None:
        scope = os.environ.get(RUN) or os.getpid()
        for number in range(SEED_LIMIT):
            self.value = (first + number) % SEED_LIMIT
            self._name = f"godot-seed-{scope}-{first}-{number}"
            self._held = hold_name(self._name)
            if self._held is not None:
                return

    def close(self) -> None:
        if self._held is not None:
            release_name(self._name)
            os.close(self._held)
            self._held = None


def start_game(path: Path, options: GodotOptions) -> Game:
    """Start a game and wait until it has described itself."""
    with closing(listen(options.host, options.port, exact=False)) as listener, ExitStack() as failing:
        claim = None if options.seed is None else SeedClaim(options.seed)
        if claim is not None:
            failing.callback(claim.close)
        seed = int.from_bytes(os.urandom(4), "little") % SEED_LIMIT if claim is None else claim.value
        process = GameProcess(command_line(path, options, listener.getsockname()[1], seed))
        failing.callback(process.end, 0.0)
        sock = accept(listener, options.timeout_s, process)
        connection = Connection(sock, process, options.timeout_s, options.log)
        failing.callback(connection.close)
        game = Game(connection, greet(connection), process)
        game.seed = claim
        failing.pop_all()
    return game
