"""The fake game as an exported one, and as one that runs in the editor."""

import shlex
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mosaic.envs.catalog import make_env

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
