"""Worker for any program: lines it prints as `@METRIC {json}` become the run's metrics."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections import deque
from importlib.metadata import version
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from time import monotonic
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mosaic.core.errors import MosaicError
from mosaic.telemetry.events.lines import MARK
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.context import WorkerContext
from mosaic.workers.script.output import Listener, log
from mosaic.workers.script.process import Program

if TYPE_CHECKING:
    from mosaic.policies.controller import PolicyController, PolicyRequest
    from mosaic.store.checkpoints import Checkpoint

FILES = "program"  # folder in the run folder for the program's weights
_AFTERWARDS_S = 5.0  # to read the program's last lines and to end
_TICK_S = 0.1  # longest delay until a command is noticed


class ScriptOptions(BaseModel):
    """Program to run, with its settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: tuple[str, ...] = Field(
        min_length=1, description="Program and arguments: a list, or one text that is split as a shell would."
    )
    cwd: Path | None = Field(None, description="Folder it starts in; None: where the run was started.")
    env: dict[str, str] = Field(default_factory=dict, description="Further environment variables for it.")
    patience_s: float = Field(
        30.0, gt=0, description="Seconds it may take to end after SIGINT; SIGTERM and SIGKILL follow."
    )

    @field_validator("command", mode="before")
    @classmethod
    def _split(cls, command: object) -> object:
        return shlex.split(command) if isinstance(command, str) else command


class ProgramFailedError(MosaicError):
    """Failure of the user's program that was not caused by a stop."""


class ScriptWorker:
    """Worker that runs a program.

    It knows nothing of what the program does, so it promises little: it can be stopped, and frozen for a pause.
    """

    info = WorkerCapabilities(
        name="script",
        version=version("mosaic-rl"),
        algorithms=("program",),
        paradigms=(),
        pause=True,
        samples=True,
        resources=(
            "num_env_runners",
            "num_gpus",
            "num_cpus",
        ),  # passed to the program, and reserved in a server's queue
        refuses={"telemetry.report_every_s": "the program decides when it reports"},
        not_applicable={
            "environment": "the program makes its own env; it is told in MOSAIC_ENVIRONMENT",
            "seed": "the program draws its own random numbers; it is told in MOSAIC_SEED",
        },
    )

    resumes_what_was_saved = True  # not promised for every program: one that announces checkpoints resumes from them
    loads_pickles = False  # ONNX, safetensors, and only the tensors of a zip

    def options(self, algorithm: str) -> type[BaseModel]:
        return ScriptOptions

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        from mosaic.workers.script.policies import load_saved_policy

        return load_saved_policy(checkpoint.path / checkpoint.manifest.policies[policy].files[0], request)

    def run(self, context: WorkerContext) -> None:
        options = context.options
        assert isinstance(options, ScriptOptions)
        context.heartbeat.every_s = None  # the program's own reports are forwarded, and nothing else is known
        context.patience.declare(options.patience_s + _AFTERWARDS_S)
        environment = _environment(context, options)
        name = options.command[0]
        if "/" not in name and (found := shutil.which(name, path=environment["PATH"])):
            log(f"{name} is {found}")
        with Program(options.command, options.cwd, environment) as program:
            listener = Listener(context, context.folder.path / FILES)
            why = _listen(context, program, listener, options.patience_s)
            listener.end()
            code = program.exit_code
        assert code is not None
        if why:
            log(f"the program was stopped ({why}) and ended with {_outcome(code)}")
        elif code != 0:
            said = listener.last_words()
            raise ProgramFailedError(f"The program {shlex.join(options.command)} ended with {_outcome(code)}. {said}")
        elif listener.refusal:
            raise ProgramFailedError(
                f"The program {shlex.join(options.command)} ended, but none of its {MARK} lines was accepted, so the "
                f"run has no metrics. The last reason: {listener.refusal} All of them are in the log: "
                f"mosaic runs log {context.folder.run_id}"
            )


def _listen(context: WorkerContext, program: Program, listener: Listener, patience_s: float) -> str | None:
    """Read the program's output until it ends. Return why it was stopped, or None if it ended by itself."""
    stop: Push | None = None
    while program.exit_code is None:
        for stream, chunk in program.read(_TICK_S):
            listener.hear(stream, chunk)
        if stop is None and (why := listener.done()):
            stop = Push(why, patience_s)
        if stop is not None:
            stop.push(program)
        elif context.inbox.pause_asked():
            _pause(context, program, listener)
    for stream, chunk in program.rest():
        listener.hear(stream, chunk)
    return stop.why if stop else None


def _pause(context: WorkerContext, program: Program, listener: Listener) -> None:
    """Freeze the program, then read its remaining output, so that nothing is reported while the run is paused."""
    program.freeze()
    for stream, chunk in program.rest():
        listener.hear(stream, chunk)
    context.inbox.wait_while_paused()
    program.thaw()


class Push:
    """Stop of a program with escalating signals as its time runs out."""

    def __init__(self, why: str, patience_s: float) -> None:
        now_s = monotonic()
        self.why = why
        self._rungs = deque([(now_s, SIGINT), (now_s + 0.75 * patience_s, SIGTERM), (now_s + patience_s, SIGKILL)])

    def push(self, program: Program) -> None:
        while self._rungs and self._rungs[0][0] <= monotonic():
            _, signal = self._rungs.popleft()
            program.signal(signal)


def _environment(context: WorkerContext, options: ScriptOptions) -> dict[str, str]:
    files = context.folder.path / FILES
    files.mkdir(exist_ok=True)
    resources = context.config.resources
    ours = {
        "MOSAIC_METRICS": "1",
        "CONTROLLER_METRICS": "1",
        "MOSAIC_SEED": str(context.seed),
        "MOSAIC_ENVIRONMENT": context.config.environment.model_dump_json(),
        "MOSAIC_RUN_FOLDER": str(context.folder.path),
        "MOSAIC_CHECKPOINT_DIR": str(files),
        "MOSAIC_NUM_ENV_RUNNERS": str(resources.env_runners),
        "MOSAIC_NUM_WORKERS": str(resources.env_runners),  # its earlier name
        "MOSAIC_NUM_CPUS": str(resources.num_cpus),
        "MOSAIC_NUM_GPUS": f"{resources.num_gpus:g}",
    }
    if context.resume_from is not None:
        ours["MOSAIC_RESUME_FROM"] = str(context.resume_from.path)
        ours["MOSAIC_RESUME_ENV_STEPS"] = str(context.resume_from.env_steps)
    mark = {name: os.environ[name] for name in ("MOSAIC_RUN",) if name in os.environ}  # identifies leftover processes
    # A name means what it means in the shell; Mosaic's own Python serves where the shell has none of that name.
    path = os.pathsep.join(filter(None, [os.environ.get("PATH"), str(Path(sys.executable).parent)]))
    return {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **options.env, **ours, **mark}


def _outcome(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"the signal {Signals(-code).name}"


worker = ScriptWorker()
