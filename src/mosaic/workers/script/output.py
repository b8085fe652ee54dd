"""Handling of a program's output: metrics are reported, the rest is logged."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import IO, Any, NamedTuple

from mosaic.store.errors import StorageError
from mosaic.telemetry.events.lines import LONGEST_LINE, MARK, MalformedMetricError, parse_metric
from mosaic.workers.context import WorkerContext
from mosaic.workers.script.checkpoints import ProgramFiles, UnusableCheckpointError, read_announcement
from mosaic.workers.script.process import Stream


class OutputLine(NamedTuple):
    raw: bytes  # including its line break, if any
    whole: bool  # False: a piece of a line that is too long

    @property
    def text(self) -> str:
        return self.raw.rstrip(b"\r\n").decode(errors="replace")


class LineSplitter:
    """Splitter of one stream's chunks into lines. Long lines come in pieces, so that no program can fill the memory."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._rest = b""  # unfinished line
        self._torn = False  # earlier pieces of this line were already returned

    def feed(self, chunk: bytes) -> Iterator[OutputLine]:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield self._line(self._rest + part + b"\n")
            self._rest, self._torn = b"", False
        self._rest += rest
        if len(self._rest) > self._longest:
            yield OutputLine(self._rest, False)
            self._rest, self._torn = b"", True

    def end(self) -> Iterator[OutputLine]:
        """Yield the last line, which needs no line break."""
        if self._rest:
            yield self._line(self._rest)
        self._rest, self._torn = b"", False

    def _line(self, raw: bytes) -> OutputLine:
        return OutputLine(raw, not self._torn and len(raw) <= self._longest + 1)


_EPISODES = 100  # averaged for the reward if a program reports single episodes only
_TRAINING = ("iteration", "episode")  # kinds whose env steps only rise
_LAST_LINES = 20  # shown in the message of a failure
_SHOWN = 10  # malformed lines explained in the log; further ones are only counted


class Listener:
    def __init__(self, context: WorkerContext, files: Path) -> None:
        self._context, self._files = context, files
        self._splitters: dict[Stream, LineSplitter] = {"stdout": LineSplitter(), "stderr": LineSplitter()}
        self._logs: dict[Stream, IO[bytes]] = {"stdout": sys.stdout.buffer, "stderr": sys.stderr.buffer}
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._malformed, self._understood = 0, 0
        self._last_error = ""
        self._alerted: set[str] = set()
        self._score = ScriptProgress()
        self._began_at = 0 if context.resume_from is None else context.resume_from.env_steps

    def hear(self, stream: Stream, chunk: bytes) -> None:
        for line in self._splitters[stream].feed(chunk):
            self._take(stream, line)

    def end(self) -> None:
        for stream, splitter in self._splitters.items():
            for line in splitter.end():
                self._take(stream, line)
        if self._malformed:
            message = f"{self._malformed} {MARK} lines of the program were not understood; worker.log says why."
            self._context.report(kind="alert", message=message, malformed_lines=self._malformed)

    @property
    def refusal(self) -> str:
        """Reason why all of the program's metric lines were refused; empty if one was accepted or none was printed."""
        return "" if self._understood else self._last_error

    def done(self) -> str | None:
        """Return why the program should stop, based on its reports so far."""
        return self._context.done(self._score.env_steps, self._score.episodes, self._score.reward)

    def last_words(self) -> str:
        return "\n".join(("Its last lines:", *self._last)) if self._last else "It said nothing."

    def _take(self, stream: Stream, line: OutputLine) -> None:
        if stream == "stdout" and (self._is_metric(line) or self._is_checkpoint(line)):
            return
        self._last.append(line.text[:500])
        self._logs[stream].write(line.raw)
        self._logs[stream].flush()

    def _is_metric(self, line: OutputLine) -> bool:
        """Store a metric line and return whether it was one. Malformed ones belong in the log."""
        try:
            event = _parse(line)
            if event is not None:
                self._check_steps(event)
        except MalformedMetricError as error:
            self._malformed += 1
            self._last_error = str(error)
            if self._malformed <= _SHOWN:
                log(f"not understood: {error}")
            return False
        if event is None:
            return False
        self._understood += 1
        self._context.report(**event)
        self._score.add(event)
        return True

    def _check_steps(self, event: dict[str, Any]) -> None:
        """Refuse env steps that fall, and place a reward without any at the last; each raises an alert, once."""
        reached, steps = self._score.env_steps, event.get("env_steps")
        if event["kind"] not in _TRAINING:
            return
        if steps is not None and steps < reached:
            fallen = f"env_steps fell from {reached:,} to {steps:,}, and they count all steps of the run so far"
            self._alert_once("fallen", f"{MARK} lines of the program are refused: {fallen}.")
            raise MalformedMetricError(f"{fallen}.")
        if steps is None and event.get("episode_reward_mean") is not None:
            event["env_steps"] = max(reached, self._began_at)
            self._alert_once(
                "stepless",
                f"A {MARK} line of the program has episode_reward_mean and no env_steps: it counts at the last ones, "
                f'{event["env_steps"]:,}. Print both in one line: {MARK} {{"env_steps": …, "episode_reward_mean": …}}',
            )

    def _alert_once(self, what: str, message: str) -> None:
        if what not in self._alerted:
            self._alerted.add(what)
            log(message)
            self._context.report(kind="alert", message=message)

    def _is_checkpoint(self, line: OutputLine) -> bool:
        """Save the checkpoint that a line announces; one that cannot be saved is logged and raises an alert."""
        try:
            announced = read_announcement(line.text) if line.whole else None
            if announced is None:
                return False
            files = ProgramFiles(self._files, announced)
            self._context.checkpoint(
                files.copy, env_steps=announced.env_steps, policies=files.policies, reward=announced.reward
            )
            for warning in files.warnings:
                self._warn(warning)
        except (UnusableCheckpointError, StorageError) as error:
            log(f"not saved: {error}")
            self._context.report(kind="alert", message=f"A checkpoint of the program was not saved: {error}")
            return False
        return True

    def _warn(self, warning: str) -> None:
        """Log and alert once per warning: a program saves many times."""
        self._alert_once(warning, warning)


class ScriptProgress:
    """Progress as reported by the program."""

    def __init__(self) -> None:
        self.env_steps = 0
        self.episodes = 0
        self.reward: float | None = None
        self._rewards: deque[float] = deque(maxlen=_EPISODES)

    def add(self, event: Mapping[str, Any]) -> None:
        self.env_steps = max(self.env_steps, event.get("env_steps") or 0)
        self.episodes = max(self.episodes + (event["kind"] == "episode"), event.get("episodes_total") or 0)
        reward = event.get("episode_reward_mean")
        match event:
            case {"kind": "episode", "custom_metrics": {"reward": int(paid) | float(paid)}} if reward is None:
                self._rewards.append(paid)
                reward = fmean(self._rewards) if len(self._rewards) == _EPISODES else None
        self.reward = self.reward if reward is None else reward


def log(text: str) -> None:
    print(f"mosaic: {text}", flush=True)


def _parse(line: OutputLine) -> dict[str, Any] | None:
    if line.whole:
        return parse_metric(line.text)
    if line.raw.lstrip().startswith(MARK.encode()):
        raise MalformedMetricError(f"A metric line of more than {len(line.raw)} bytes is too long.")
    return None
