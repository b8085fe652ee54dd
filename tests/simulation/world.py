"""One simulated world: its servers and runs, what strikes them, and what must hold."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mosaic.config.loading import parse_run_config
from mosaic.runs import supervisor
from mosaic.runs.daemonize import ORPHANS_END_WITHIN_S
from mosaic.server.queue.policy import Demand, QueueLimits, fits
from mosaic.store import state
from mosaic.store.checkpoint_record import damage, read_checkpoint
from mosaic.store.index import index
from mosaic.store.state import ENDED, LIVE, RunState, State
from mosaic.workers import host
from tests.simulation.kernel import BrokenInvariantError, Kernel, OpenFile, Process
from tests.simulation.simulated_programs import server
from tests.simulation.syscalls import ROOT

HOME = Path(ROOT, "home")
RUNS = f"{HOME}/runs"
STEPS = 10  # env steps of one iteration


@dataclass
class Plan:
    """What the worker of one run does."""

    iterations: int
    iteration_s: float
    fault: str  # "", raise, exit, hang, child
    at: int
    cores: int


@dataclass
class Faults:
    """How often what strikes. Each history draws its own mixture, so that rare combinations occur."""

    kill: float = 0.0  # chance per effect, of any process
    power: int = 0  # number of power losses
    full: int = 0  # number of times that the disk is full for a while
    jumps: int = 0  # of the wall clock
    deletions: int = 0  # of a run's folder, by hand


@dataclass
class Ledger:
    """What the outside world knows about one run."""

    plan: Plan
    state: RunState | None = None  # as last written
    confirmed: RunState | None = None  # as last written by a call that returned: it must survive a power loss
    unconfirmed: list[RunState] = field(default_factory=list)  # written since then
    events: dict[int, str] = field(default_factory=dict)  # seq → kind, of every report() that returned
    saved: int = -1  # env steps of the last checkpoint that was confirmed
    deleted: bool = False
    by_server: bool = False  # who started the newest attempt


class World:
    def __init__(self, seed: int) -> None:
        self.kernel = kernel = Kernel(seed)
        self.rng = kernel.rng
        kernel.switch_rate = self.rng.choice([0.01, 0.03, 0.1, 0.3])
        self.limits = QueueLimits(runs=self.rng.randint(1, 3), cores=self.rng.randint(1, 4), memory_mb=10_000, gpus=0)
        self.faults = self._draw_faults()
        self.ledgers: dict[str, Ledger] = {}
        self.rows: dict[str, Any] | None = None  # of the index; None: there is no file
        self.striking = True
        self.seen: Counter[str] = Counter()
        self.servers = self.rng.choice([1, 2, 2])
        self.poll_s = self.rng.choice([1.0, 3.0, 10.0])
        self.retries = self.rng.choice([0, 0, 2])
        kernel.fault, kernel.died = self._strike, self._on_death

    def _draw_faults(self) -> Faults:
        rng = self.rng
        return Faults(
            kill=rng.choice([0.0, 0.0, 0.001, 0.004, 0.015]),
            power=rng.choice([0, 0, 0, 1, 2]),
            full=rng.choice([0, 0, 0, 1, 2]),
            jumps=rng.choice([0, 0, 2]),
            deletions=rng.choice([0, 0, 0, 1]),
        )

    # Programs

    def boot(self) -> None:
        for _ in range(self.servers):
            self.kernel.spawn("server", lambda: server(self))

    def submit(self, store: Any) -> str:
        rng = self.rng
        plan = Plan(
            iterations=rng.randint(2, 7),
            iteration_s=rng.choice([0.1, 1.0, 5.0]),
            fault=rng.choice(["", "", "", "raise", "exit", "hang", "child"]),
            at=rng.randint(1, 6),
            cores=rng.randint(1, 3),
        )
        run_id = f"run-{len(self.ledgers)}"
        self.ledgers[run_id] = Ledger(plan)
        config = parse_run_config({
            "run_id": run_id, "environment": {"env_id": "gym/CartPole-v1"},
            "training": {"worker": "toy", "algorithm": "walk", "total_timesteps": STEPS * plan.iterations},
            "resources": {"num_env_runners": plan.cores, "num_cpus": 1},
        })  # fmt: skip
        store.create(config, group=rng.choice(["", "a", "b"]))
        self.ledgers[run_id].confirmed = self.ledgers[run_id].state
        return run_id

    def start_supervisor(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        """What `subprocess.run` does for `start_attempt`."""
        starter = self.kernel.call("spawn", effect=True)
        run_id = Path(argv[-2]).name
        self.ledgers[run_id].by_server = starter.name == "server"
        if starter.name == "server":
            self._check_room(run_id)
        guard = self.kernel.spawn(f"guard {run_id}", lambda: self._guard(process))
        guard.subreaper = True
        process = self.kernel.spawn(
            f"supervisor {run_id}", supervisor.main, parent=guard.pid, argv=["supervisor", *argv[-2:]], run_id=run_id
        )
        self.kernel.wait(lambda: process.ready or not process.alive, None)
        code = 0 if process.ready else process.status or 1
        return subprocess.CompletedProcess(argv, code if code >= 0 else 1, "", process.said.getvalue())

    def _guard(self, watched: Process) -> int:
        """The parent of a supervisor: it ends what a killed supervisor leaves. See mosaic.runs.daemonize."""
        kernel = self.kernel
        guard = watched.parent
        kernel.wait(lambda: not watched.alive, None)
        kernel.processes.pop(watched.pid, None)
        if (watched.status or 0) < 0:
            kernel.wait(lambda: not kernel.descendants(guard), ORPHANS_END_WITHIN_S)
            while left := kernel.descendants(guard):
                kernel.die(left[0], -signal.SIGKILL)
        return 0

    def detach(self, log: Path) -> Any:
        log.open("a").close()

        def ready() -> None:
            process = self.kernel.call("ready", effect=True)
            process.ready = True

        return ready

    def adopt_orphans(self) -> None:
        self.kernel.call("prctl").subreaper = True

    def spawn_worker(self, parent: Process, argv: list[str], environ: dict[str, str]) -> int:
        run_id = Path(argv[-2]).name
        others = [
            p for p in self.kernel.processes.values() if p.alive and p.name in (f"worker {run_id}", f"child {run_id}")
        ]
        if others:
            self.fail(f"{run_id} gets a second worker while pid {others[0].pid} of it is alive")
        fds = [int(environ[name]) for name in ("MOSAIC_CONTROL_FD", "MOSAIC_PROGRESS_FD")]
        files: dict[int, OpenFile] = {fd: parent.files[fd] for fd in fds}
        process = self.kernel.spawn(
            f"worker {run_id}", host.main, parent=parent.pid, environ=environ, argv=["host", *argv[-2:]], files=files,
            run_id=run_id,
        )  # fmt: skip
        return process.pid

    # What strikes

    def _strike(self, process: Process, call: str) -> None:
        if self.striking and self.faults.kill and self.rng.random() < self.faults.kill:
            self.kernel.say(f"FAULT: {process.name} is killed at {call}")
            self.seen[f"killed {process.name.split()[0]}"] += 1
            self.kernel.die(process, -signal.SIGKILL)

    def _on_death(self, process: Process) -> None:
        if process.name == "server":
            self.kernel.spawn("server", lambda: server(self))

    def lose_power(self) -> None:
        kernel = self.kernel
        kernel.say("FAULT: power loss")
        for process in kernel.processes.values():
            process.alive = False
            process.files.clear()
        kernel.processes.clear()
        kernel.disk.lose_power()
        before_s = kernel.now_s
        kernel.now_s, kernel._next_pid = 1000.0, 100
        kernel.boots += 1
        kernel.wall_offset_s += before_s - kernel.now_s + 30.0
        self.rows = self.rng.choice([self.rows, None])
        for run_id, ledger in self.ledgers.items():
            self._after_power_loss(run_id, ledger)
        self.boot()

    def _after_power_loss(self, run_id: str, ledger: Ledger) -> None:
        """Reports are promised to survive processes, not power; states and checkpoints survive both."""
        path = f"{RUNS}/{run_id}"
        found = self._read(f"{path}/state.json")
        if found is None:
            if ledger.confirmed is not None and not ledger.deleted:
                self.fail(f"{run_id} is gone after a power loss although its state was written")
            return
        written = self._parse(run_id, found)
        if ledger.confirmed is not None and written not in (ledger.confirmed, *ledger.unconfirmed):
            self.fail(f"{run_id}: a power loss took back the state {ledger.confirmed.state}; now {written.state}")
        ledger.state = ledger.confirmed = written
        ledger.unconfirmed.clear()
        there = [event["seq"] for event in self._events(run_id, torn=True)]
        ledger.events = {seq: kind for seq, kind in ledger.events.items() if seq <= (there[-1] if there else 0)}

    def strike_now(self, kind: str) -> None:
        kernel, rng = self.kernel, self.rng
        self.seen[kind] += 1
        match kind:
            case "power":
                self.lose_power()
            case "full":
                kernel.disk.capacity = kernel.disk.used + rng.randint(0, 300)
                kernel.say("FAULT: the disk is full")
            case "room":
                kernel.disk.capacity = None
                kernel.say("the disk has room again")
            case "jump":
                kernel.wall_offset_s += rng.choice([-86_400.0, -1.0, 3600.0])
                kernel.say("FAULT: the wall clock jumps")
            case "delete":
                there = [run_id for run_id, ledger in self.ledgers.items() if not ledger.deleted and ledger.state]
                if there:
                    self._delete(rng.choice(there))

    def _delete(self, run_id: str) -> None:
        self.kernel.say(f"FAULT: the folder of {run_id} is deleted by hand")
        self.ledgers[run_id].deleted = True
        path = f"{RUNS}/{run_id}"
        disk = self.kernel.disk
        if run_id in disk.find(RUNS).entries:
            for below in reversed(disk.tree(path)):
                disk.remove(below, folder=disk.find(below).kind == "folder")
            disk.remove(path, folder=True)

    # What must hold

    def fail(self, text: str) -> None:
        self.kernel.say(f"BROKEN: {text}")
        self.kernel.broken = self.kernel.broken or BrokenInvariantError(text)
        raise self.kernel.broken

    def on_write(self, folder: Any, written: RunState) -> None:
        """Called when `write_state` has returned."""
        if folder.run_id in self.ledgers:
            self.ledgers[folder.run_id].confirmed = written
            self.ledgers[folder.run_id].unconfirmed.clear()

    def on_rename(self, source: str, target: str) -> None:
        """Look at every state.json that takes its place, and at every run that is published."""
        if "/.trash-" in target and source.removeprefix(f"{RUNS}/") in self.ledgers:
            self.ledgers[source.removeprefix(f"{RUNS}/")].deleted = True
        path = target.removesuffix("/state.json")
        run_id = path.removeprefix(f"{RUNS}/")
        if run_id not in self.ledgers or (path == target and self.kernel.disk.find(path).kind != "folder"):
            return
        found = self._read(f"{path}/state.json")
        if found is None:
            self.fail(f"{run_id} is published without a state.json")
            return
        new, ledger = self._parse(run_id, found), self.ledgers[run_id]
        old, ledger.state = ledger.state, new
        ledger.unconfirmed.append(new)
        if [attempt.number for attempt in new.attempts] != list(range(1, len(new.attempts) + 1)):
            self.fail(f"{run_id}: the attempts are not 1, 2, 3 …")
        if old is None:
            return
        added = len(new.attempts) - len(old.attempts)
        if added not in (0, 1):
            self.fail(f"{run_id}: {len(old.attempts)} attempts became {len(new.attempts)}")
        if added and old.state is State.FINISHED:
            self.fail(f"{run_id} was finished and is started again")
        if not added and old.state in ENDED and new.state is not old.state:
            self.fail(f"{run_id} was {old.state} and became {new.state} without a new attempt")

    def _parse(self, run_id: str, data: bytes) -> RunState:
        try:
            return RunState.model_validate_json(data)
        except ValueError as error:
            self.fail(f"{run_id}: state.json cannot be read: {error}")
            raise

    def on_report(self, path: Path, seq: int, kind: str) -> None:
        ledger = self.ledgers[path.parent.name]
        if seq in ledger.events:
            self.fail(f"{path.parent.name}: two events have seq {seq}")
        ledger.events[seq] = kind

    def on_saved(self, run_id: str, env_steps: int) -> None:
        self.ledgers[run_id].saved = env_steps

    def _living(self, run_id: str) -> bool:
        """Whether a supervisor holds the run's lock and has not written the end."""
        ledger = self.ledgers[run_id]
        try:
            lock = self.kernel.disk.find(f"{RUNS}/{run_id}/lock")
        except FileNotFoundError:
            return False
        return lock.lock is not None and ledger.state is not None and ledger.state.state in LIVE

    def _check_room(self, run_id: str) -> None:
        """A server is about to start this run."""
        names = [
            name for name in self.ledgers if name != run_id and self.ledgers[name].by_server and self._living(name)
        ]
        demands = [Demand(name, cores=self.ledgers[name].plan.cores) for name in (*names, run_id)]
        if not fits(demands, self.limits):
            self.fail(f"{run_id} is started beside {', '.join(names)}, which is more than {self.limits}")

    def _read(self, path: str) -> bytes | None:
        try:
            return bytes(self.kernel.disk.find(path).data)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _events(self, run_id: str, *, torn: bool = False) -> list[dict[str, Any]]:
        data = self._read(f"{RUNS}/{run_id}/metrics.jsonl") or b""
        *lines, rest = data.split(b"\n")
        if rest and not torn:
            self.fail(f"{run_id}: the metrics end in a torn line although the run has ended")
        events = []
        for line in lines:
            try:
                events.append(json.loads(line))
            except ValueError:
                if torn:
                    break
                self.fail(f"{run_id}: a line of the metrics is damaged: {line[:60]!r}")
        return events

    def audit(self) -> None:
        """After everything has ended. Runs inside the simulation, without faults."""
        for run_id, ledger in self.ledgers.items():
            folder = index.RunFolder(Path(RUNS, run_id))
            if ledger.deleted or ledger.state is None:
                continue
            now = state.read_state(folder).state
            if now is not State.FINISHED and not (now is State.STOPPED and not ledger.state.attempts):
                self.fail(f"{run_id} is {now}: it could not be brought to its end")
            self._audit_events(run_id, ledger)
            for name in (
                self.kernel.disk.find(f"{RUNS}/{run_id}").entries.get("checkpoints", self.kernel.disk.root).entries
            ):
                if name.isdecimal():
                    problem = damage(read_checkpoint(folder.checkpoints / name))
                    if problem:
                        self.fail(f"{run_id}: checkpoint {name}: {problem}")

    def _audit_events(self, run_id: str, ledger: Ledger) -> None:
        events = self._events(run_id)
        if [event["seq"] for event in events] != list(range(1, len(events) + 1)):
            self.fail(f"{run_id}: the seqs are not 1, 2, 3 …: {[event['seq'] for event in events]}")
        for seq, kind in ledger.events.items():
            if seq > len(events) or events[seq - 1]["kind"] != kind:
                self.fail(f"{run_id}: the event {seq} ({kind}) was reported and is not stored")
        if ledger.state is not None and ledger.state.state is State.FINISHED:
            steps = [event["env_steps"] for event in events if event["kind"] == "iteration"]
            if not steps or steps[-1] != STEPS * ledger.plan.iterations:
                self.fail(f"{run_id} is finished after {steps[-1:]} of {STEPS * ledger.plan.iterations} steps")

    def leftovers(self) -> list[str]:
        """Processes that are alive and should not be for ever."""
        alive = [process for process in self.kernel.processes.values() if process.alive and process.name != "server"]
        return [process.name for process in alive]
