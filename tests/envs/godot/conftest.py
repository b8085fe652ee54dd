"""The fake game as an exported one, and as one that runs in the editor."""

import shlex
import socket
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mosaic.core.errors import notices_to
from mosaic.envs.catalog import make_env
from mosaic.envs.godot import editor
from tests.envs.godot.fake_game import FakeGame
from tests.ports import reserved_port

SCRIPT = Path(__file__).with_name("fake_game.py")


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Path of a program that plays the fake game; it contains a blank."""
    path = tmp_path_factory.mktemp("exported games") / "fake game.x86_64"
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(SCRIPT))} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def started(exported):
    """Make an env of the fake game with these arguments; it is closed after the test."""
    made = []

    def start(*args, **options):
        made.append(make_env(f"godot/{exported}", args=list(args), **{"timeout_s": 20, **options}))
        return made[-1]

    yield start
    for env in made:
        with closing(env):
            pass


class Editor:
    """A person at the editor, who presses Play when Mosaic says so."""

    def __init__(self, port):
        self.port = port
        self.notices, self.games, self.arguments, self.threads = [], [], {}, []

    def play(self, notice=""):
        self.notices.append(notice)
        game = FakeGame(self.arguments)
        connection = socket.create_connection(("127.0.0.1", self.port))
        self.games.append(game)
        self.threads.append(threading.Thread(target=self._run, args=(game, connection), daemon=True))
        self.threads[-1].start()

    def _run(self, game, connection):
        with closing(connection), suppress(SystemExit, ConnectionError):
            game.play(connection)


@pytest.fixture
def person():
    with reserved_port() as port:
        at_editor = Editor(port)
        with notices_to(at_editor.play):
            yield at_editor
        for game in list(editor._games.values()):
            game.end()
        editor._games.clear()
    for thread in at_editor.threads:
        thread.join(60)
        assert not thread.is_alive(), "a game that Mosaic has left open"
