"""A worker plug-in that misbehaves in the way that its algorithm names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from mosaic.store.checkpoints import PolicyEntry
from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.context import WorkerContext

_CHILD = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
if os.fork():
    os._exit(0)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""


class RogueOptions(BaseModel):
    megabytes: int = 0
    code: int = 7


class RogueWorker:
    info = WorkerCapabilities(
        name="rogue",
        version="1",
        algorithms=("deaf", "hungry", "quitter", "broken", "heavy"),
        paradigms=("parameter_sharing",),
        resume=True,
        checkpoints=True,
    )

    def options(self, algorithm: str) -> type[BaseModel]:
        return RogueOptions

    def run(self, context: WorkerContext) -> None:
        getattr(self, f"_{context.config.training.algorithm}")(context)

    def _deaf(self, context: WorkerContext) -> None:
        """Ignores everything, and has a child that left its group, its session and its parent."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        child = context.folder.path / "child.pid"
        subprocess.Popen([sys.executable, "-c", _CHILD, str(child)])
        (context.folder.path / "me.pid").write_text(str(os.getpid()))
        context.report(kind="iteration", env_steps=1)
        threading.Event().wait(600)

    def _hungry(self, context: WorkerContext) -> None:
        """Takes memory, and keeps it until it is stopped."""
        eaten = bytearray(b"x" * (context.options.megabytes << 20))  # type: ignore[attr-defined]
        context.report(kind="iteration", env_steps=len(eaten))
        while not context.inbox.stop_asked():
            threading.Event().wait(0.05)

    def _quitter(self, context: WorkerContext) -> None:
        os._exit(context.options.code)  # type: ignore[attr-defined]

    def _broken(self, context: WorkerContext) -> None:
        raise RuntimeError("the reward is not a number")

    def _heavy(self, context: WorkerContext) -> None:
        """Saves a small checkpoint, then ever larger ones, and says more and more; goes on where it was."""
        start = context.resume_from.env_steps if context.resume_from else 0
        for env_steps in range(start + 1, start + 6):
            if context.inbox.stop_asked():
                return
            context.report(kind="iteration", env_steps=env_steps, note="n" * 1000)
            self._save(context, env_steps, (context.options.megabytes << 20) if env_steps > 2 else 10)  # type: ignore[attr-defined]
        while context.options.megabytes == 0 and not context.inbox.stop_asked():  # type: ignore[attr-defined]
            context.report(kind="iteration", env_steps=5, note="n" * 1000)

    def _save(self, context: WorkerContext, env_steps: int, size: int) -> None:
        def save(folder: Path) -> None:
            (folder / "weights").write_bytes(b"w" * size)

        context.checkpoint(save, env_steps=env_steps, policies={"learner": PolicyEntry(files=("weights",))})


worker: Any = RogueWorker()
