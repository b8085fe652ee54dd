"""The game that runs in the editor: one for all envs of a process, handed over to the next process that plays it.

A game connects once, when Play is pressed, and describes itself once. A run is described, trained and evaluated by
several processes. So the one that holds the connection hands it over to others of the same user: to any process if no
env uses it, and between two steps to processes of the same run.
"""

from __future__ import annotations

import atexit
import os
import socket
import threading
from contextlib import closing, suppress
from dataclasses import dataclass

import msgspec

from mosaic.core.errors import InputError, notify
from mosaic.envs.godot.connection import Connection, accept, listen
from mosaic.envs.godot.game import RUN, Game, greet
from mosaic.envs.godot.messages import GameError, GameInfo, Reply, StepReply
from mosaic.envs.godot.names import LocalListener, connect_local, is_same_user
from mosaic.envs.godot.options import DEFAULT_PORT, GodotOptions

_PATIENCE_S = 10.0  # for the process that holds the game
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class _Place:
    """Address at which a game in the editor connects."""

    host: str
    port: int

    @property
    def name(self) -> str:
        return f"godot-{self.host}-{self.port}"


_games: dict[_Place, EditorGame] = {}
_making = threading.Lock()


def editor_game(options: GodotOptions) -> EditorGame:
    """Return the game of the editor; wait for the Play button if no process of this user holds it."""
    place = _Place(options.host, DEFAULT_PORT if options.port is None else options.port)
    with _making:
        game = _games.get(place)
        if game is not None and game.use(options):
            return game
        if game is not None:
            game.wait_for_end()
        connection, info = _obtain(place, options)
        try:
            game = _games[place] = EditorGame(place, options, connection, info)
        except BaseException:
            connection.close()
            raise
        return game


class EditorGame(Game):
    """Game of the editor. `close` leaves it connected until this process ends, for the next env."""

    def __init__(self, place: _Place, options: GodotOptions, connection: Connection, info: GameInfo) -> None:
        super().__init__(connection, info)
        self._place, self._options = place, options
        self._users = 1
        self._idle = threading.Condition()  # no question is open
        self._held = True
        atexit.register(self.end)
        self._listener, self._server = self._offer()

    def use(self, options: GodotOptions) -> bool:
        """Count a further env; return False if the game is gone."""
        with self._idle:
            self._options = options
            if self._held and not self.connection.usable():
                self.end()
                return False
            if self._held:
                self.connection.configure(options.timeout_s, options.log)
            self._users += 1
            return True

    def ask(self, message: dict[str, object], kind: type[Reply]) -> Reply:
        with self._idle:
            if not self._held:
                self._get_back()
            return super().ask(message, kind)

    def send_step(self, actions: list[dict[str, object]]) -> None:
        with self._idle:
            super().send_step(actions)

    def receive_step(self) -> StepReply:
        with self._idle:
            reply = super().receive_step()
            self._idle.notify_all()
            return reply

    def begin_end(self) -> None:
        """Do nothing: the game is shared, and continues when one env of it is closed."""

    def close(self) -> None:
        with self._idle:
            self._users -= 1

    def end(self) -> None:
        """Let the game end, if this process holds it."""
        atexit.unregister(self.end)
        if self._held:
            self._held = False
            self._listener.stop()
            self._end_by_s = None  # this connection was not asked yet
            super().begin_end()

    def wait_for_end(self) -> None:
        """Wait until the name of the listener is free again: its thread closes it."""
        self._server.join()

    def _get_back(self) -> None:
        connection, info = _obtain(self._place, self._options)
        if info != self.info:
            connection.close()
            raise GameError(
                "The game in the editor has other agents, observations or actions than before. Start the run again."
            )
        self.connection, self._held = connection, True
        self._listener, self._server = self._offer()

    def _offer(self) -> tuple[LocalListener, threading.Thread]:
        listener = LocalListener(self._place.name)
        server = threading.Thread(target=self._serve, args=(listener,), daemon=True, name="godot-hand-over")
        server.start()
        return listener, server

    def _serve(self, listener: LocalListener) -> None:
        """Answer the processes that want the game, until one has it or it ends."""
        with closing(listener):
            while self._held and (asking := listener.accept()) is not None:
                with closing(asking), suppress(OSError):  # it is gone, or too slow
                    asking.settimeout(_PATIENCE_S)
                    if is_same_user(asking):
                        self._answer(asking, listener)

    def _answer(self, asking: socket.socket, listener: LocalListener) -> None:
        run = asking.recv(_LONGEST).decode(errors="replace")
        if not run:  # it only looked whether the name is in use
            return
        with self._idle:
            ours = run == os.environ.get(RUN, "") != ""
            self._idle.wait_for(lambda: not self._stepping, _PATIENCE_S if ours else 0.0)
            if self._stepping or (self._users > 0 and not ours):
                asking.sendall(msgspec.json.encode({"pid": os.getpid()}))
                return
            listener.close()  # the next holder serves under the same name
            _hand_over(asking, self.connection.fileno(), msgspec.json.encode(self.info))
            self.connection.close()
            self._held, self.player = False, None


def _hand_over(asking: socket.socket, game: int, info: bytes) -> None:
    """Send a game's socket and description; return when the other process has them.

    On macOS a descriptor that is closed before it is received may be lost, and a message with one is short.
    """
    socket.send_fds(asking, [info[:1]], [game])
    asking.sendall(info[1:])
    asking.shutdown(socket.SHUT_WR)
    asking.recv(1)


def _obtain(place: _Place, options: GodotOptions) -> tuple[Connection, GameInfo]:
    taken = _take_over(place)
    if taken is not None:
        sock, info = taken
        return Connection(sock, None, options.timeout_s, options.log), info
    connection = Connection(_await_play(place, options), None, options.timeout_s, options.log)
    try:
        return connection, greet(connection)
    except BaseException:
        connection.close()
        raise


def _await_play(place: _Place, options: GodotOptions) -> socket.socket:
    with closing(listen(place.host, place.port, exact=True)) as listener:
        bound = "" if options.wait_s is None else f" for at most {options.wait_s:g} s"
        notify(
            f"Waiting{bound} for the game on {place.host}:{place.port}: press Play in the Godot editor (Ctrl-C ends)."
        )
        return accept(listener, options.wait_s, None)


def _take_over(place: _Place) -> tuple[socket.socket, GameInfo] | None:
    """Return the game that another process of this user holds, if there is one."""
    holding = connect_local(place.name, 3 * _PATIENCE_S)
    if holding is None:
        return None
    with closing(holding):
        if not is_same_user(holding):
            return None
        holding.sendall((os.environ.get(RUN) or "-").encode())
        payload, descriptors, _, _ = socket.recv_fds(holding, 1, 1)
        while chunk := holding.recv(_LONGEST):
            payload += chunk
        if descriptors:
            holding.sendall(b".")
    if descriptors:
        return socket.socket(fileno=descriptors[0]), msgspec.json.decode(payload, type=GameInfo)
    holder = msgspec.json.decode(payload, type=dict[str, int]) if payload else {}
    raise InputError(
        f"The game in the editor is being played by another process of Mosaic (pid {holder.get('pid', 'unknown')}). "
        "Wait until it is done, or export the game: any number of exported games can be played in parallel."
    )
