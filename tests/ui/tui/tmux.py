"""A real terminal for tests: a shell in tmux, real keys, the screen as text, and the modes of the terminal."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.server.server_kit import eventually

PATIENCE_S = 90.0  # for a screen, on a machine that has much else to do
MOSAIC = f"{sys.executable} -m mosaic"
PROMPT = "ready>"


class Terminal:
    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-f", "/dev/null", "-S", str(self._socket), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names: `Enter`, `C-z`, `q`."""
        self.tmux("send-keys", *names)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def line(self, text: str) -> None:
        self.type(text)
        self.keys("Enter")

    def field(self, text: str) -> None:
        """Fill in a field of a dialog, and wait until the next one has the cursor: keys go to where it is."""
        self.type(text)
        rows = self.until(text).splitlines()
        row = next(str(number) for number, line in enumerate(rows) if text in line)
        self.keys("Enter")
        eventually(lambda: self.asked("cursor_y") != row, f"the end of the field with {text}", PATIENCE_S)

    def text(self) -> str:
        return self.tmux("capture-pane", "-p")

    def until(self, *words: str) -> str:
        """Wait until the screen has these words; return it."""
        seen = ""

        def there() -> bool:
            nonlocal seen
            seen = self.text()
            return all(word in seen for word in words)

        try:
            eventually(there, f"{words} on the screen", PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{seen}") from None
        return seen

    def asked(self, name: str) -> str:
        """Return one of tmux's variables, such as `alternate_on`."""
        return self.tmux("display-message", "-p", f"#{{{name}}}").strip()

    def modes(self) -> tuple[object, ...]:
        """Return everything that an app may change: screen, cursor, mouse, keypad, and the line discipline."""
        names = ("alternate_on", "cursor_flag", "mouse_any_flag", "keypad_flag", "keypad_cursor_flag")
        with open(self.asked("pane_tty"), "rb") as terminal:
            return (*map(self.asked, names), termios.tcgetattr(terminal))

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def foreground(self, among: Sequence[str] = ("python",)) -> int:
        """Return the process that the shell has started."""
        found = {each.pid: each.name() for each in psutil.Process(int(self.asked("pane_pid"))).children()}
        pids = [pid for pid, name in found.items() if name.startswith(tuple(among))]
        assert len(pids) == 1, found
        return pids[0]


@contextmanager
def terminal(home: Path, size: tuple[int, int] = (140, 42)) -> Iterator[Terminal]:
    """Open a terminal of this size with a shell in the home's parent."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    folder = Path(tempfile.mkdtemp(prefix="mosaic-tmux-"))  # names of sockets must be short
    made = Terminal(folder / "socket")
    columns, rows = map(str, size)
    shell = f"env PS1='{PROMPT} ' bash --norc --noprofile -i"
    try:
        made.tmux(
            "new-session", "-d", "-x", columns, "-y", rows, "-c", str(home.parent), "-e", f"MOSAIC_HOME={home}", shell
        )
        made.until(PROMPT)
        yield made
    finally:
        subprocess.run(["tmux", "-S", str(made._socket), "kill-server"], capture_output=True, check=False)
        shutil.rmtree(folder)
