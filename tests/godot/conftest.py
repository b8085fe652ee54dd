"""The example game as an env; no engine may be left running."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from mosaic.envs.catalog import make_env
from tests.godot.raw_game import ORCHARD, SPEEDUP

OPTIONS = {"speedup": SPEEDUP, "engine": "godot3-server", "timeout_s": 30}
SETTINGS = [word for key, value in OPTIONS.items() for word in ("--set", f"environment.options.{key}={value}")]


@pytest.fixture
def orchard():
    """Make an env of the example game with these further options; it is closed after the test."""
    made = []

    def start(**options):
        made.append(make_env(f"godot/{ORCHARD}", **{**OPTIONS, **options}))
        return made[-1]

    yield start
    for env in made:
        with closing(env):
            pass


def engines_of(parent=None):
    """Return the processes of engines that play the example game: those of one process, or all."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            words, status = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile
        state, its_parent = status.rpartition(")")[2].split()[:2]
        mine = parent is None or int(its_parent) == parent
        if mine and state != "Z" and str(ORCHARD).encode() in words and b"godot3-server" in words:
            found.append(int(folder.name))
    return {*found}


@pytest.fixture(autouse=True)
def nothing_left_running(request):
    """Fail a test whose games outlive it; the shared game of a module may stay."""
    before = engines_of(os.getpid()) if "game" not in request.fixturenames else None
    yield
    if before is not None:
        assert engines_of(os.getpid()) <= before
