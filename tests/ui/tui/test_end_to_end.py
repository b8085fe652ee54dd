"""The terminal app with real keys: a project, a run and its curve, an export, and all of it after a restart."""

import pytest

from tests.ui.tui.tmux import MOSAIC, PROMPT, terminal

pytestmark = pytest.mark.slow
ENV = "classic/tictactoe_v3"


def dots(screen):
    """Return the columns of the screen in which a curve is drawn."""
    return {column for row in screen.splitlines() for column, letter in enumerate(row) if 0x2800 < ord(letter) < 0x2900}


def test_create_train_watch_stop_export_quit_and_reopen(tmp_path):
    with terminal(tmp_path / "home") as shell:
        shell.line(f"clear; {MOSAIC} tui; echo code=$?")
        shell.until("Newest runs", "doctor ·")

        shell.keys("Tab", "n")  # a project
        shell.until("New project")
        shell.field("demo")
        shell.field("noughts")
        shell.line(ENV)
        shell.until("The project noughts is ready.", ENV)

        shell.keys("2")  # train
        shell.until("Environment to train in", "✓ tabular")
        shell.keys("o")
        shell.until("Load a preset", "noughts")
        shell.keys("Enter")
        shell.until("The form shows the settings of noughts")
        shell.keys(*["Down"] * 6)  # the cursor passes over headings
        shell.until("Stop after this many environment steps")
        shell.keys("Enter")
        shell.until("Total timesteps", "⏎ accept")
        shell.line("2000000000")
        shell.until("✓ tabular q_learning · self play · 2,000,000,000 env steps")
        shell.keys("t")
        shell.until(" starts.")

        shell.keys("3")  # its curve
        screen = shell.until("tictactoe", "· running ·", "Return", "Episode length", "env steps", "⠤")
        assert len(dots(screen)) > 50

        shell.keys("s")
        shell.until("· stopped ·")
        shell.keys("5")
        shell.until("Latest: ", "table", "exported")
        shell.keys("t")
        shell.until("finished", "100.00%", "equal")
        shell.keys("q")
        shell.until("code=0", PROMPT)

        shell.line(f"clear; {MOSAIC} tui; echo code=$?")
        shell.until("noughts", ENV, "stopped", "0 running")
        shell.keys("Enter")
        assert len(dots(shell.until("· stopped ·", "Return", "▲"))) > 50
        shell.keys("q")
        shell.until("code=0", PROMPT)
    assert [file.name for file in (tmp_path / "home").rglob("table.onnx")] == ["table.onnx"]
