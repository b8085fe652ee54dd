"""The simulated machine: plays histories of the product's code on simulated system calls."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from mosaic.core.errors import notices_to
from mosaic.runs import monitoring as chores
from mosaic.runs import resume as recovery
from mosaic.runs import state_file, supervision, supervisor
from mosaic.store import checkpoint_record, origin, run_manifest, state
from mosaic.store import store as home
from mosaic.store.archives import archive
from mosaic.store.index import index
from mosaic.store.state import RunState
from mosaic.telemetry.events import writer
from mosaic.workers import context, heartbeat, host, inbox, registry
from tests.simulation.files import Condition
from tests.simulation.installing import installed
from tests.simulation.kernel import BrokenInvariantError
from tests.simulation.memory_index import MemoryDatabase
from tests.simulation.simulated_programs import SimulatedWorker, client, finish_all
from tests.simulation.syscalls import ROOT, Calls
from tests.simulation.world import World

PATIENCE_S = 3000.0  # of virtual time, for everything to end once nothing strikes any more
HERE = origin.MachineRecord(host="simulated", system="", cpu="", cores=4, gpus=())  # the same on every machine
LONGEST = 200_000  # switches of one history


class Machine:
    """The product's code on simulated system calls, for any number of histories."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.world: World
        self.seen: Counter[str] = Counter()  # what happened in all histories: faults and final states

    def history(self, seed: int) -> World:
        """Run one history. Raises BrokenInvariantError with the world as its second argument."""
        self.world = world = World(seed)
        calls = self.calls
        calls.kernel, calls.renamed = world.kernel, world.on_rename
        calls.spawn_worker, calls.start_supervisor = world.spawn_worker, world.start_supervisor
        try:
            _play(world)
        except BrokenInvariantError as broken:
            raise BrokenInvariantError(f"seed {seed}: {broken.args[0]}", world) from None
        finally:
            world.kernel.unwind()
        self.seen.update(world.seen)
        self.seen.update(str(ledger.state.state) for ledger in world.ledgers.values() if ledger.state)
        return world


def _play(world: World) -> None:
    kernel, rng = world.kernel, world.rng
    for folder in ("", "/home", "/home/runs"):
        kernel.disk.make(f"{ROOT}{folder}", "folder")
    for node in kernel.disk._nodes(kernel.disk.root):
        kernel.disk.sync(node)
    world.boot()
    length_s = rng.choice([20.0, 60.0])
    faults = world.faults
    events = [(rng.uniform(0, length_s), "power") for _ in range(faults.power)]
    for _ in range(faults.full):
        begin_s = rng.uniform(0, length_s)
        events += [(begin_s, "full"), (begin_s + rng.uniform(0, 20.0), "room")]
    events += [(rng.uniform(0, length_s), "jump") for _ in range(faults.jumps)]
    events += [(rng.uniform(0, length_s), "delete") for _ in range(faults.deletions)]
    events += [(rng.uniform(0, length_s / 2), "client") for _ in range(rng.randint(1, 3))]
    elapsed_s = 0.0
    for at_s, kind in sorted([*events, (length_s, "quiet")]):
        while elapsed_s < at_s:
            before_s = kernel.now_s
            deadline = before_s + (at_s - elapsed_s)
            if _step(world, deadline):
                elapsed_s += kernel.now_s - before_s
            else:
                kernel.now_s, elapsed_s = deadline, at_s
        if kind == "client":
            kernel.spawn("client", lambda: client(world))
        elif kind != "quiet":
            world.strike_now(kind)
    world.striking = False
    kernel.disk.capacity = None
    kernel.say("from now on nothing strikes any more")
    _run_until(world, lambda: not any(name.startswith("client") for name in world.leftovers()), "clients end")
    kernel.spawn("finisher", lambda: finish_all(world))
    _run_until(world, lambda: not world.leftovers(), "every run comes to its end")
    kernel.spawn("auditor", lambda: world.audit())
    while any(p.name == "auditor" for p in kernel.processes.values()):
        kernel.step()


def _step(world: World, deadline_s: float) -> bool:
    """False when nothing happens before the deadline."""
    kernel = world.kernel
    if not any(map(kernel._is_ready, (task for task in kernel.tasks if not task.done and task.process.alive))):
        times = [task.deadline_s for task in kernel.tasks if task.deadline_s is not None and task.process.alive]
        if not times or min(times) > deadline_s:
            return False
    return kernel.step()


def _run_until(world: World, true: Callable[[], bool], what: str) -> None:
    kernel = world.kernel
    deadline_s, switches = kernel.now_s + PATIENCE_S, 0
    while not true():
        switches += 1
        if not kernel.step() or kernel.now_s > deadline_s or switches > LONGEST:
            states = {name: str(ledger.state.state) for name, ledger in world.ledgers.items() if ledger.state}
            world.fail(
                f"it does not happen that {what}: {', '.join(world.leftovers())} are alive; the runs are {states}"
            )


@contextmanager
def machine() -> Iterator[Machine]:
    # Processes that are killed in a history leave no block: notices would go to their runs for ever.
    with notices_to(lambda message: None), installed() as calls, ExitStack() as stack:
        made = Machine(calls)
        threads = types.SimpleNamespace(
            Condition=lambda: Condition(calls),
            Event=lambda: _Event(calls),
            Lock=nullcontext,  # threads of the simulation change places at system calls only
            RLock=nullcontext,
            Thread=lambda **k: _Thread(calls, **k),
        )
        real_write, real_report = state.write_state, writer.EventWriter.report
        worker = SimulatedWorker(lambda: made.world)

        def write_state(folder: Any, written: RunState) -> None:
            real_write(folder, written)
            made.world.on_write(folder, written)

        def report(self: Any, event: Any = None, /, **fields: Any) -> int:
            kind = fields.get("kind", "iteration")
            seq = real_report(self, event, **fields)
            made.world.on_report(self.path, seq, kind)
            return seq

        for target, name, value in (
            (supervisor, "detach", lambda log: made.world.detach(log)),
            (supervisor, "adopt_orphans", lambda: made.world.adopt_orphans()),
            (supervision, "prepare_curves", lambda folder: False),
            (chores, "Publisher", _NoPublisher),
            *((module, "remove_rings", lambda path: None) for module in (recovery, supervision)),
            (archive, "remove_rings", lambda path: None),
            (index, "Database", lambda home: MemoryDatabase(made.world)),
            (registry, "load_worker", lambda name: worker),
            *((module, "all_versions", lambda *_: {}) for module in (origin, run_manifest, context)),
            *((module, "packages_of", lambda config: ()) for module in (origin, context)),
            (origin, "checkouts", lambda packages: {}),
            (context, "code_of_attempt", lambda *_: None),
            (host, "code_told", lambda *_: nullcontext()),
            *((module, "machine_here", lambda: HERE) for module in (origin, run_manifest)),
            (checkpoint_record, "versions", dict),
            (host, "threading", threads),
            (heartbeat.Heartbeat, "beating", lambda self: nullcontext()),  # the worker reports often enough by itself
            (inbox, "threading", threads),
            (writer.EventWriter, "report", report),
            *((module, "write_state", write_state) for module in (state_file, home)),
        ):
            stack.enter_context(patch.object(target, name, value))
        yield made


class _NoPublisher:
    """The index is a cache that every list checks against the folders: it may learn of a change at any time."""

    def __init__(self, folder: Any) -> None:
        pass

    def close(self, timeout_s: float) -> None:
        pass


class _Event:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def wait(self, timeout_s: float | None = None) -> bool:
        self._calls.sleep(timeout_s or 0.0)
        return False


class _Thread:
    def __init__(self, calls: Calls, target: Any, args: Any = (), **_: Any) -> None:
        self._calls, self._work = calls, lambda: target(*args)

    def start(self) -> None:
        self._calls.kernel.thread(self._calls.kernel.call("thread"), self._work)
