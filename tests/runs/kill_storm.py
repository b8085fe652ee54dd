"""A storm of SIGKILL over runs of every kind: each resumes to its end, and nothing is left alive meanwhile.

`python -m tests.runs.kill_storm [KILLS] [SEED]` prints what happened as JSON. Kill number N of a seed is always the
same: the kind of run, the victims and the moment.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, NamedTuple

from mosaic.runs.processes import Row, below, is_alive, list_processes, look, marked
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.state import ENDED, State
from mosaic.workers.registry import load_worker

RAY = ("rllib", "tabular-ray")
OTHERS = ("native", "tabular", "mpi", "script")
RAY_SHARE = 0.3
VICTIMS = (("worker",), ("supervisor",), ("supervisor", "worker"))
LATEST_S = {"rllib": 25.0, "tabular-ray": 15.0}
_GAME = {"env_id": "classic/tictactoe_v3"}
_CARTPOLE = {"env_id": "gym/CartPole-v1"}
_SMALL = {
    "num_env_runners": 1, "num_envs_per_env_runner": 2, "fcnet_hiddens": [8], "train_batch_size_per_learner": 200,
    "minibatch_size": 100, "num_epochs": 1,
}  # fmt: skip
_PROGRAM = """
import os, time
from pathlib import Path
folder = Path(os.environ["MOSAIC_CHECKPOINT_DIR"])
before = int(os.environ.get("MOSAIC_RESUME_ENV_STEPS", "0")) // 100
for step in range(before + 1, 41):
    print('@METRIC {"env_steps": %d}' % (step * 100), flush=True)
    if step % 2 == 0:
        (folder / "state.txt").write_text(str(step))
        print('@CHECKPOINT {"env_steps": %d, "files": ["state.txt"]}' % (step * 100), flush=True)
    time.sleep(0.1)
"""


class Kill(NamedTuple):
    number: int
    kind: str
    victims: tuple[str, ...]
    moment_s: float  # after the run was submitted


class Outcome(NamedTuple):
    kill: Kill
    state: State  # after the kill
    cleared_s: float | None  # until nothing of the run was alive; None: it had ended before
    attempts: int


def plan(kills: int, seed: int) -> list[Kill]:
    ray = [RAY[number % len(RAY)] for number in range(round(RAY_SHARE * kills))]
    kinds = ray + [OTHERS[number % len(OTHERS)] for number in range(kills - len(ray))]
    Random(seed).shuffle(kinds)
    return [_kill(number, kind, Random(f"{seed} {number}")) for number, kind in enumerate(kinds)]


def _kill(number: int, kind: str, random: Random) -> Kill:
    return Kill(number, kind, random.choice(VICTIMS), random.uniform(0.0, LATEST_S.get(kind, 6.0)))


def config(kind: str, folder: Path) -> dict[str, Any]:
    """A run of some seconds, which saves often."""
    checkpoint = {"every_steps": 2000}
    match kind:
        case "native":
            return _asked("native", _CARTPOLE, 300_000, {"threads": 1}, checkpoint=checkpoint)
        case "tabular":
            env = {"env_id": "gym/CartPole-v1"}
            return _asked(
                "tabular",
                env,
                150_000,
                {"bins": [4, "4@-3..3", 4, "4@-3..3"], "report_every_steps": 2000},
                checkpoint=checkpoint,
            )
        case "mpi" | "tabular-ray":
            resources = {"runtime": kind.removeprefix("tabular-"), "num_env_runners": 2}
            params = {"report_every_steps": 10_000, "merge_every_steps": 5_000}
            return _asked("tabular", _GAME, 1_500_000, params, resources=resources)
        case "rllib":
            return _asked("rllib", _CARTPOLE, 4000, _SMALL, checkpoint=checkpoint)
        case _:
            (folder / "program.py").write_text(_PROGRAM)
            command = [sys.executable, str(folder / "program.py")]
            return _asked("script", _CARTPOLE, None, {"command": command})


def _asked(worker: str, env: dict[str, Any], steps: int | None, params: Any, **sections: Any) -> dict[str, Any]:
    training = {"worker": worker, "params": params} | ({} if steps is None else {"total_timesteps": steps})
    return {"environment": env, "training": training, **sections}


def strike(kill: Kill, folder: Path) -> Outcome:
    """Start the run, kill its victims at the moment, wait until nothing is alive, and resume it to its end."""
    run = Trainer(folder / "home").submit(config(kill.kind, folder))
    threading.Event().wait(kill.moment_s)
    supervisor = run.record().attempts[-1].supervisor
    row = None if supervisor is None else look(supervisor.pid)
    if run.state in ENDED or row is None:
        return Outcome(kill, run.state, None, 1)
    guard, tree = row.parent, below(row.parent)
    for victim in kill.victims:
        process = getattr(run.record().attempts[-1], victim)
        if process is not None and is_alive(process):
            os.kill(process.pid, signal.SIGKILL)
    cleared_s = _await_nothing(run, guard, tree)
    state = run.state
    while run.state is not State.FINISHED:
        if not load_worker(run.config.training.worker or "").info.resume and not run.checkpoints():
            break  # a program that was killed before its first checkpoint cannot resume
        run.resume()
        assert run.wait(240) is State.FINISHED, f"{kill}: {run.state}: {run.reason}\n{run.log()}"
    return Outcome(kill, state, cleared_s, len(run.record().attempts))


def _await_nothing(run: Run, guard: int, tree: set[Row], within_s: float = 120.0) -> float:
    """Seconds until no process is alive of those that were there, of their children and of what bears the mark."""
    began_s, known = monotonic(), set(tree)
    while True:
        rows = list_processes()
        children = {row for row in rows.values() if row.parent in {each.pid for each in known} or row.parent == guard}
        known |= {
            row for row in children if row.parent == guard or any(is_alive(e) for e in known if e.pid == row.parent)
        }
        alive = {row for row in known if is_alive(row)} | marked(run.id)
        if not alive:
            return monotonic() - began_s
        if monotonic() - began_s > within_s:
            raise AssertionError(f"{within_s:g} s after the kill these are alive: {sorted(row.pid for row in alive)}")
        threading.Event().wait(0.2)


def main() -> None:
    kills, seed = (int(word) for word in (sys.argv[1:] + ["100", "1"][len(sys.argv) - 1 :]))
    outcomes = []
    for kill in plan(kills, seed):
        with tempfile.TemporaryDirectory(prefix="mosaic-storm-") as folder:
            outcomes.append(strike(kill, Path(folder)))
        print(outcomes[-1], file=sys.stderr, flush=True)
    hit = [each for each in outcomes if each.cleared_s is not None]
    slowest = {}
    for kind in (*RAY, *OTHERS):
        of_kind = [each.cleared_s for each in hit if each.kill.kind == kind and "supervisor" in each.kill.victims]
        slowest[kind] = round(max((seconds for seconds in of_kind if seconds is not None), default=0.0), 1)
    figures = {
        "kills": len(outcomes),
        "hit a living run": len(hit),
        "seed": seed,
        "kinds": Counter(each.kill.kind for each in hit),
        "states": Counter(str(each.state) for each in hit),
        "longest until nothing is alive after a killed supervisor, s": slowest,
        "load": os.getloadavg(),
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
