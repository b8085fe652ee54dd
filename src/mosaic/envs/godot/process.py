"""Process of a game that Mosaic starts: its command line, its last output and its end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from mosaic.core import parent_death
from mosaic.core.child_process import kill_group
from mosaic.core.errors import InputError, nearest
from mosaic.core.proc import wait_gone
from mosaic.core.system import open_process
from mosaic.envs.godot.options import GodotOptions

_CHUNK = 1 << 16
_LAST_BYTES = 4096
_LAST_LINES = 8
ENDING_S = 3.0  # for a game that was asked to end, before it is killed
_SEED = "--env_seed="
_DYING_S = 0.5  # between the end of its connection and its own
_PROGRAMS = (b"\x7fELF", b"#!")  # how programs of Linux begin
_OF_MACOS = "/Applications/Godot.app/Contents/MacOS/Godot"
# Engines by `config_version` of project.godot: Godot 3 writes 4, Godot 4 writes 5.
ENGINES = {
    4: ("godot3-server", "godot3-headless", "godot3", "godot"),
    5: ("godot4", "godot", "godot-4", *([_OF_MACOS] if sys.platform == "darwin" else [])),
}


def command_line(path: Path, options: GodotOptions, port: int, seed: int) -> list[str]:
    """Return the command that starts the game; raise InputError if it cannot be started."""
    path = program_in_bundle(path) if path.suffix == ".app" and path.is_dir() else path
    if path.is_dir() or path.suffix in (".pck", ".zip"):
        engine = find_engine(path, options.engine)
        program = [engine, "--path", str(path)] if path.is_dir() else [engine, "--main-pack", str(path)]
        quiet = [] if "server" in Path(engine).name else ["--headless", "--disable-render-loop"]
    elif options.engine is not None:
        raise InputError(
            f"{path} is a program, which needs no engine: leave engine={options.engine} out, or name a project folder "
            "or a .pck file."
        )
    else:
        check_program(path)
        program, quiet = [str(path)], ["--disable-render-loop", "--headless"]
    arguments = [f"--port={port}"]
    if not any(word.startswith(_SEED) for word in options.args):
        arguments.append(f"{_SEED}{seed}")
    elif options.seed is not None:
        raise InputError(f"environment.options has seed={options.seed} and {_SEED} in args. Leave one of them out.")
    if options.action_repeat is not None:
        arguments.append(f"--action_repeat={options.action_repeat}")
    if options.speedup is not None:
        arguments.append(f"--speedup={options.speedup:g}")
    return [*program, *arguments, *([] if options.show_window else quiet), *options.args]


def check_program(path: Path) -> None:
    """Raise InputError unless the file can be run, naming what is nearest."""
    if not path.exists():
        there = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest(path.name, there)
        advice = f"Did you mean godot/{path.parent / near}?" if near else "Type the path of an exported game."
        raise InputError(f"There is no game {path}. {advice} For a game in the editor, type godot/debug.")
    if not path.is_file():
        raise InputError(f"{path} is not a file.")
    if not os.access(path, os.X_OK):
        raise InputError(f"{path} is not executable. Type: chmod +x '{path}'")
    with path.open("rb") as file:
        begin = file.read(4)
    if sys.platform == "linux" and not begin.startswith(_PROGRAMS):
        raise InputError(f"{path} is not a program of this system: export the game for Linux.")


def program_in_bundle(bundle: Path) -> Path:
    """Return the program of a game that was exported for macOS: a folder NAME.app."""
    folder = bundle / "Contents" / "MacOS"
    programs = sorted(folder.iterdir()) if folder.is_dir() else []
    named = [path for path in programs if path.name == bundle.stem] or programs
    if len(named) != 1:
        raise InputError(
            f"{bundle} has {len(named)} programs in Contents/MacOS, and a game has one. Type the path of the program: "
            f"godot/{folder}/NAME"
        )
    return named[0]


def find_engine(game: Path, asked: str | None) -> str:
    """Return the path of the engine that runs a project folder or a pack."""
    if game.is_dir() and not (game / "project.godot").is_file():
        raise InputError(f"{game} is a folder without project.godot. Name an exported game or a Godot project.")
    if not game.exists():
        raise InputError(f"There is no file {game}.")
    known = ENGINES.get(_config_version(game), tuple(dict.fromkeys((*ENGINES[5], *ENGINES[4]))))
    found = [path for name in ([asked] if asked else known) if (path := shutil.which(name))]
    if found:
        return os.path.abspath(found[0])
    if asked:
        here = installed_engines()
        advice = f"Installed: {', '.join(here)}." if here else "Install Godot, or give the path of its program."
        raise InputError(f"There is no engine '{asked}' that can be run. {advice}")
    raise InputError(
        f"{game} needs the Godot engine, and none of {', '.join(known)} is installed. Install it, give its path with "
        "--set environment.options.engine=PATH, or name an exported game."
    )


def installed_engines() -> list[str]:
    names = dict.fromkeys(name for names in ENGINES.values() for name in names)
    return [path for name in names if (path := shutil.which(name))]


def _config_version(game: Path) -> int:
    """Return `config_version` of a project folder; 0 if it is not known."""
    if not game.is_dir():
        return 0
    for line in (game / "project.godot").read_text(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "config_version" and value.strip().isdecimal():
            return int(value)
    return 0


class GameProcess:
    """Running game; call `end` when done. It ends with this process, even if that is killed."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self._process = _launcher(os.getpid()).submit(_start, command).result()
        self._output = self._process.stdout
        assert self._output is not None  # requested in _start
        os.set_blocking(self._output.fileno(), False)
        self._last = b""
        self._handle = open_process(self._process.pid)
        self._finish = weakref.finalize(self, _end, self._process, self._handle, os.getpid())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> int | None:
        return None if self._output is None else self._output.fileno()

    def drain(self) -> bool:
        """Read what the game has printed and keep the end of it; return False when its output is closed."""
        if self._output is None:
            return False
        while True:
            try:
                chunk = os.read(self._output.fileno(), _CHUNK)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self._last = (self._last + chunk)[-_LAST_BYTES:]

    def ended(self) -> bool:
        return not self._finish.alive or wait_gone(self._handle, 0.0)

    def postmortem(self) -> str:
        """Return its exit code and last lines."""
        if self._finish.alive and wait_gone(self._handle, _DYING_S):
            self.end(0.0)
        elif self._output is not None:
            self.drain()
        code = self._process.returncode
        state = "It is still running." if code is None else f"Its exit code is {_exit_text(code)}."
        lines = [line.strip() for line in self._last.decode(errors="replace").splitlines() if line.strip()]
        said = f" Its last output: {' | '.join(lines[-_LAST_LINES:])}" if lines else " It printed nothing."
        return state + said

    def end(self, within_s: float) -> None:
        """Wait a moment for the game to end by itself, then kill it and all that it started; may be called twice."""
        if self._finish.alive:
            wait_gone(self._handle, within_s)
        if self._output is not None:
            self.drain()
            self._output = None
        self._finish()


def _exit_text(code: int) -> str:
    return f"{code} ({signal.Signals(-code).name})" if -code in list(signal.Signals) else str(code)


@cache
def _launcher(pid: int) -> ThreadPoolExecutor:
    """Return a thread that lives as long as this process: a started game is killed when its *thread* ends."""
    return ThreadPoolExecutor(1, thread_name_prefix="godot-launcher")


def _start(command: Iterable[str]) -> subprocess.Popen[bytes]:
    tied = [sys.executable, "-I", "-S", parent_death.__file__, str(os.getpid())]
    return subprocess.Popen(
        [*tied, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        process_group=0,  # Ctrl-C goes to this process only; and the game's children can be killed with it
    )


def _end(process: subprocess.Popen[bytes], handle: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked child does not own the process
        kill_group(process)
        os.close(handle)
