"""Programs of the simulated machine: a server, clients, and the worker of every run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic.core.errors import InputError, MosaicError
from mosaic.runs.run import Run, WaitedTooLongError
from mosaic.runs.trainer import Trainer
from mosaic.server.queue.dispatcher import Dispatcher
from mosaic.store.checkpoints import PolicyEntry
from mosaic.store.state import ENDED, RunState, State
from mosaic.store.store import Store
from mosaic.workers.toy import ToyOptions, ToyWorker

if TYPE_CHECKING:
    from tests.simulation.world import World

STEPS = 10
HOME = Path("/simulated/home")


def server(world: World) -> int:
    dispatcher = Dispatcher(Trainer(HOME), world.limits, world.retries, clock=time.monotonic)
    while True:
        dispatcher.look()
        if dispatcher._failure:
            world.kernel.say(f"the queue could not be processed: {dispatcher._failure}")
        time.sleep(world.poll_s)


def client(world: World) -> int:
    """A person at the command line: submits runs, then does this and that with them."""
    rng, store = world.rng, Store(HOME)
    mine: list[str] = []
    for _ in range(rng.randint(1, 3)):
        mine.append(_try(world, lambda: world.submit(store)) or "")
    mine = [run_id for run_id in mine if run_id]
    for _ in range(rng.randint(0, 5)):
        time.sleep(rng.choice([0.0, 0.1, 1.0, 7.0]))
        if mine:
            _act(world, store, rng.choice(mine))
    return 0


def _act(world: World, store: Store, run_id: str) -> None:
    run, rng = Run(store, store.folder(run_id)), world.rng
    what = rng.choice(["stop", "stop", "stop twice", "pause", "continue", "resume", "start", "list", "delete"])
    world.kernel.say(f"asks: {what} {run_id}")
    match what:
        case "stop":
            _try(world, lambda: _stop(world, run))
        case "stop twice":
            _try(world, lambda: run.stop(1.0, wait=False))
            _try(world, lambda: _stop(world, run))
        case "pause":
            _try(world, lambda: run.pause(timeout_s=5.0))
        case "continue" | "resume":
            _try(world, lambda: run.resume(timeout_s=5.0))
        case "start":
            _try(world, run.start)
        case "list":
            _try(world, store.index.list)
        case "delete":
            _try(world, run.delete)


def _stop(world: World, run: Run) -> None:
    attempts = len(run.record().attempts)
    try:
        run.stop(world.rng.choice([None, 0.0, 2.0]))
    except WaitedTooLongError as error:
        world.fail(f"a stop is not honoured: {error}")
    after = run.record()
    if after.state not in ENDED and len(after.attempts) <= attempts:
        world.fail(f"{run.id} was stopped and is {after.state}")


def _try(world: World, work: Any) -> Any:
    """Return what it returns; a refusal is said and no fault of the simulation."""
    try:
        return work()
    except (MosaicError, OSError) as error:
        world.kernel.say(f"refused: {type(error).__name__}: {error}")
        return None


def finish_all(world: World) -> int:
    """A patient person brings every run to its end: continues, stops what hangs, resumes what ended early."""
    store = Store(HOME)
    open_runs = [run_id for run_id, ledger in world.ledgers.items() if not ledger.deleted and ledger.state is not None]
    while open_runs:
        for run_id in list(open_runs):
            if _advance(world, Run(store, store.folder(run_id))):
                open_runs.remove(run_id)
        time.sleep(5.0)
    return 0


def _advance(world: World, run: Run) -> bool:
    """Do the next thing for a run; return whether it is at its end."""
    record, plan = run.record(), world.ledgers[run.id].plan
    match record.state:
        case State.PAUSED:
            _try(world, lambda: run.resume(timeout_s=30.0))  # it may be about to hang
        case State.RUNNING if plan.fault == "hang":
            run.stop(1.0)
        case State.FAILED | State.LOST | State.STOPPED if record.attempts:
            plan.fault = ""
            _resume(world, run, record)
    return record.state is State.FINISHED or (record.state is State.STOPPED and not record.attempts)


def _resume(world: World, run: Run, seen: RunState) -> None:
    """Resume, unless the queue was faster, which starts failed runs again: then there is nothing left to do."""
    try:
        run.resume()
    except InputError as error:
        if run.record() == seen:
            raise
        world.kernel.say(f"refused: {type(error).__name__}: {error}")


class SimulatedWorker(ToyWorker):
    """Reports and saves as a real worker does, and misbehaves as its plan says."""

    def __init__(self, world: Callable[[], World]) -> None:
        self._now = world

    @property
    def _world(self) -> World:
        return self._now()

    def options(self, algorithm: str) -> type[ToyOptions]:
        return ToyOptions

    def run(self, context: Any) -> None:
        run_id = context.folder.run_id
        plan, iteration = self._world.ledgers[run_id].plan, 0
        if context.resume_from:
            iteration = json.loads((context.resume_from.path / "walk.json").read_text())["iteration"]
            if iteration * STEPS < self._world.ledgers[run_id].saved:
                self._world.fail(
                    f"{run_id} resumes from {iteration * STEPS}; {self._world.ledgers[run_id].saved} was saved"
                )
        elif self._world.ledgers[run_id].saved > 0:
            self._world.fail(f"{run_id} starts over although {self._world.ledgers[run_id].saved} steps were saved")

        def save() -> None:
            def fill(folder: Path) -> None:
                (folder / "walk.json").write_text(json.dumps({"iteration": iteration, "filling": "x" * 100}))

            policies = {"learner": PolicyEntry(files=("walk.json",), agents=("*",))}
            context.checkpoint(
                fill, env_steps=iteration * STEPS, policies=policies, reward=1.0 * iteration, pickles=False
            )
            self._world.on_saved(run_id, iteration * STEPS)

        while not context.done(iteration * STEPS, iteration, 0.0):
            time.sleep(plan.iteration_s)
            iteration += 1
            context.report(kind="iteration", env_steps=iteration * STEPS, training_iteration=iteration)
            if context.checkpoint_due(iteration * STEPS, every_steps=2 * STEPS):
                save()
            context.inbox.wait_while_paused(save)
            if iteration == plan.at:
                self._misbehave(run_id, plan.fault)
        save()

    def _misbehave(self, run_id: str, fault: str) -> None:
        kernel = self._world.kernel
        match fault:
            case "raise":
                raise RuntimeError("the user's env is broken")
            case "exit":
                os._exit(0)
            case "hang":
                kernel.call("hang").frozen = True
                time.sleep(1e6)
            case "child":
                process = kernel.call("fork")
                kernel.spawn(f"child {run_id}", _child, parent=process.pid, environ=dict(os.environ), run_id=run_id)


def _child() -> int:
    """Something that the worker started, and that ignores every request to end."""
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(1e6)
    return 0
