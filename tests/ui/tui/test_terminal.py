"""The terminal around the app: as it was before, however the app ends; suspended, resized, and too small."""

import os
import signal

import psutil
import pytest

from tests.server.server_kit import eventually
from tests.ui.tui.tmux import MOSAIC, PATIENCE_S, PROMPT, terminal

pytestmark = pytest.mark.slow
FIRST = ("1 Home", "Newest runs", "this machine")
CRASH = """
from mosaic.ui.tui.run import run_tui
from mosaic.ui.tui.tabs.home import HomeTab

def show(self, load):
    raise RuntimeError("a tab that is broken")

HomeTab._show_load = show
raise SystemExit(run_tui(None))
"""


@pytest.fixture
def shell(tmp_path):
    with terminal(tmp_path / "home", (100, 30)) as opened:
        yield opened


def start(shell):
    """Start the app; return the modes that the terminal had before."""
    before = shell.modes()
    shell.line(f"clear; export COLUMNS LINES; {MOSAIC} tui; echo code=$?")
    shell.until(*FIRST)
    assert shell.asked("alternate_on") == "1"
    assert shell.modes() != before
    return before


def ended_with(shell, code, before):
    shell.until(f"code={code}", f"{PROMPT}")
    eventually(lambda: shell.modes() == before, "the modes of before")
    shell.line("echo still-$((40 + 2))")  # what is typed is shown
    assert "echo still-$((40 + 2))" in shell.until("still-42")


def test_quitting_restores_the_terminal(shell):
    before = start(shell)
    shell.keys("q")
    ended_with(shell, 0, before)


@pytest.mark.chosen
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_restores_the_terminal(shell, number):
    before = start(shell)
    os.kill(shell.foreground(), number)
    ended_with(shell, 128 + number, before)


def test_an_exception_restores_the_terminal_and_is_shown(shell, tmp_path):
    (tmp_path / "crash.py").write_text(CRASH)
    before = shell.modes()
    shell.line(f"clear; {MOSAIC.partition(' ')[0]} crash.py; echo code=$?")
    shell.until("RuntimeError: a tab that is broken")
    ended_with(shell, 1, before)


def test_a_lost_connection_ends_the_app(shell):
    start(shell)
    process = psutil.Process(shell.foreground())
    shell.tmux("kill-server")
    eventually(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "its end", PATIENCE_S)


def test_the_app_is_suspended_and_comes_back(shell):
    before = start(shell)
    shell.keys("C-z")
    shell.until("Stopped", PROMPT)
    assert shell.modes()[:-1] == before[:-1]
    shell.line("clear; fg; echo code=$?")
    shell.until(*FIRST)
    shell.keys("6")
    shell.until("There are no runs yet")
    shell.keys("q")
    ended_with(shell, 0, before)


def test_a_live_resize_changes_the_screen_and_a_small_one_gets_a_message(shell):
    before = start(shell)
    shell.resize(140, 42)
    eventually(lambda: shell.text().rstrip("\n").count("\n") == 41, "a footer in the last line")
    shell.until(*FIRST, "palette")
    shell.resize(79, 24)
    shell.until("needs a terminal of 80×24; this one is 79×24")
    shell.resize(80, 24)
    assert "needs a terminal" not in shell.until(*FIRST)
    shell.keys("q")
    ended_with(shell, 0, before)
