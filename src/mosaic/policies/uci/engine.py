"""UCI client for a chess engine: one process, one game."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, NamedTuple

from mosaic.core.errors import InputError
from mosaic.policies.controller import PolicyError, PolicyTimeoutError
from mosaic.policies.uci.options import EngineOptions, go_command

_OPTION = re.compile(r"option\s+name\s+(?P<name>.+?)\s+type\s+(?P<kind>\w+)(?P<rest>.*)")
_BOUNDS = re.compile(r".*\bmin\s+(?P<low>-?\d+).*\bmax\s+(?P<high>-?\d+)")
_HASH_MB = 16  # many engines may run in parallel, and short searches fill no more


class Offer(NamedTuple):
    """Option that an engine has; bounds only for integers."""

    name: str
    low: int | None = None
    high: int | None = None


def parse_offer(line: str) -> Offer | None:
    """Parse `option name UCI_Elo type spin default 1350 min 1350 max 2850`; return None for any other line."""
    match = _OPTION.fullmatch(line)
    if match is None:
        return None
    bounds = _BOUNDS.match(match["rest"]) if match["kind"] == "spin" else None
    return Offer(match["name"]) if bounds is None else Offer(match["name"], int(bounds["low"]), int(bounds["high"]))


def parse_best_move(line: str) -> str | None:
    """Parse `bestmove e2e4 ponder e7e5` to `e2e4`; return None for any other line."""
    match line.split():
        case ["bestmove", move, *_]:
            return move
        case _:
            return None


def settings(options: EngineOptions, offers: Mapping[str, Offer], reference: str) -> list[str]:
    """Return the `setoption` lines; raise an error where the engine does not support an option."""
    wanted: dict[str, int | str] = {
        name: value for name, value in (("Threads", 1), ("Hash", _HASH_MB)) if _takes(offers.get(name), value)
    }
    if options.elo is not None:
        wanted["UCI_LimitStrength"] = "true"
        wanted["UCI_Elo"] = _checked("elo", options.elo, offers.get("UCI_Elo"), reference)
    if options.skill is not None:
        wanted["Skill Level"] = _checked("skill", options.skill, offers.get("Skill Level"), reference)
    return [f"setoption name {name} value {value}" for name, value in wanted.items()]


def _takes(offer: Offer | None, value: int) -> bool:
    return offer is not None and offer.low is not None and offer.high is not None and offer.low <= value <= offer.high


def _checked(option: str, value: int, offer: Offer | None, reference: str) -> int:
    if offer is None:
        raise InputError(f"'{reference}': this engine has no option {option}. Leave '{option}={value}' out.")
    if not _takes(offer, value):
        raise InputError(f"'{reference}': this engine's {option} ranges from {offer.low} to {offer.high}, not {value}.")
    return value


_LONGEST_LINE = 1 << 20
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Deadline:
    """End of a wait; never, where the limit is None."""

    limit_s: float | None
    started_s: float
    clock: Callable[[], float]

    @classmethod
    def after(cls, limit_s: float | None, clock: Callable[[], float] = monotonic) -> Deadline:
        return cls(limit_s, clock(), clock)

    def left_s(self) -> float | None:
        return None if self.limit_s is None else max(0.0, self.started_s + self.limit_s - self.clock())


class LineProcess:
    """Process that talks in lines; call `end` when done (losing the last reference also ends it).

    Every wait for it has a limit. It ends with this process even if that is killed: its standard input is closed then,
    on which engines quit (Stockfish even in the middle of a search). The kernel's parent-death signal would be sent as
    soon as the *thread* that started the process ends.
    """

    def __init__(self, program: Path) -> None:
        self.program = program
        self._process = _start(program)
        self._finish = weakref.finalize(self, _end, self._process, os.getpid())
        self._stdin = _pipe(self._process.stdin)
        self._stdout = _pipe(self._process.stdout)
        self._readable = selectors.PollSelector()
        self._readable.register(self._stdout, selectors.EVENT_READ)
        self._unread = b""
        self._asked = ""
        self._last_lines: deque[str] = deque(maxlen=5)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: str) -> None:
        self._asked = line
        try:
            self._stdin.write(line.encode() + b"\n")
        except BrokenPipeError as error:
            raise self._death() from error

    def read_line(self, deadline: Deadline) -> str:
        while b"\n" not in self._unread:
            self._read_more(deadline)
        line, _, self._unread = self._unread.partition(b"\n")
        text = line.decode(errors="replace").strip()
        self._last_lines.append(text)
        return text

    def end(self) -> None:
        """Kill the process and all that it started; may be called twice."""
        self._finish()

    def failure(self, what: str) -> PolicyError:
        """Return an error that says what the program did and its last output."""
        return PolicyError(f"{self.program} {what} {self._last_output()}")

    def _read_more(self, deadline: Deadline) -> None:
        left_s = deadline.left_s()
        if left_s == 0 or not self._readable.select(left_s):
            self.end()
            raise PolicyTimeoutError(
                f"{self.program} did not respond to '{self._asked}' within {deadline.limit_s:g} s and was terminated. "
                f"{self._last_output()}"
            )
        chunk = os.read(self._stdout.fileno(), _CHUNK)
        if not chunk:
            raise self._death()
        self._unread += chunk
        if len(self._unread) > _LONGEST_LINE and b"\n" not in self._unread:
            raise self.failure("wrote a line without an end.")

    def _death(self) -> PolicyError:
        self.end()
        self._last_lines.extend(self._unread.decode(errors="replace").splitlines()[-5:])
        return self.failure(f"exited (status {self._process.returncode}) on the command '{self._asked}'.")

    def _last_output(self) -> str:
        lines = " | ".join(line[-200:] for line in self._last_lines if line)
        return f"Its last output: {lines}" if lines else "It wrote nothing."


def _start(program: Path) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            process_group=0,  # Ctrl-C goes to this process only; and the engine's children can be killed with it
        )
    except OSError as error:
        raise InputError(f"{program} cannot be run as a program: {error.strerror}.") from error


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:
        return  # in a forked child, which does not own the process
    with suppress(ProcessLookupError, PermissionError):  # raised by some systems for a group whose members are all dead
        os.killpg(process.pid, signal.SIGKILL)  # not yet waited for, so the pid is still valid
    process.wait()
    _pipe(process.stdin).close()
    _pipe(process.stdout).close()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # requested in _start
    return stream


START_LIMIT_S = 60.0  # starting is not bound by the time limit for actions; large engines load networks


class UciEngine:
    """Chess engine, started and ready for a game on construction; call `end` when done."""

    def __init__(self, program: Path, options: EngineOptions, reference: str) -> None:
        self._go = go_command(options)
        self._process = LineProcess(program)
        try:
            for line in settings(options, self._introduce(), reference):
                self._process.send(line)
            self.new_game()
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def new_game(self) -> None:
        self._process.send("ucinewgame")
        self._process.send("isready")
        deadline = Deadline.after(START_LIMIT_S)
        while self._process.read_line(deadline) != "readyok":
            pass

    def best_move(self, fen: str, limit_s: float | None) -> str:
        """Return the engine's move as text, unchecked."""
        self._process.send(f"position fen {fen}")
        self._process.send(self._go)
        deadline = Deadline.after(limit_s)
        while True:
            move = parse_best_move(self._process.read_line(deadline))
            if move is not None:
                return move

    def failure(self, what: str) -> PolicyError:
        return self._process.failure(what)

    def end(self) -> None:
        self._process.end()

    def _introduce(self) -> dict[str, Offer]:
        self._process.send("uci")
        deadline = Deadline.after(START_LIMIT_S)
        offers: dict[str, Offer] = {}
        while (line := self._process.read_line(deadline)) != "uciok":
            offer = parse_offer(line)
            if offer is not None:
                offers[offer.name] = offer
        return offers
