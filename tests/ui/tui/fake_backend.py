"""Backend with three runs and one project, none of them on disk."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from mosaic.core.errors import InputError, UnknownNameError
from mosaic.server.machine_load import MachineLoad
from mosaic.server.schemas import FindingRow
from mosaic.store.projects.registry import ProjectRow
from mosaic.store.state import State
from mosaic.store.views import AttemptRow, CheckpointRow, LogPart, RunDetails, RunRow
from mosaic.ui.series import ManySeries, Series

NOW = 1_800_000_000.0
POLICIES = [f"policy_{number}" for number in (10, 2, 1)]
NAMES = ("episode_reward_mean", "episode_reward_min", "episode_reward_max", "episode_len_mean", "env_steps_per_s",
         "learner/loss", *(f"policies/{name}/reward_mean" for name in POLICIES))  # fmt: skip


def row(run_id, state, **more):
    about = {"env": "gym/CartPole-v1", "worker": "native", "algorithm": "ppo", "env_steps": 40_960,
             "episode_reward_mean": 286.25, "started": NOW - 600}  # fmt: skip
    return RunRow(run_id=run_id, state=State(state), **about | more)


class FakeRun:
    def __init__(self, backend, run):
        self._backend, self._row, self.id = backend, run, run.run_id

    def show(self):
        failed = self._row.state == "failed"
        return RunDetails(
            run_id=self.id, state=self._row.state, queued_at=NOW, config={"name": self._row.name}, env_steps=40_960,
            attempts=(AttemptRow(number=1, started=NOW - 600),), last_metric=None, last_seq=7, exit=None,
            checkpoints=(CheckpointRow(env_steps=20_000, path="there"),),
            reason="The worker failed: the game file is missing" if failed else "",
        )  # fmt: skip

    def log(self, after=None, size=65_536, stream="stdout"):
        return LogPart(text="first line\nRuntimeError: the game file is missing\n", start=0, end=9)

    def stop(self, patience_s=None, *, wait=True):
        self._backend.asked.append(("stop", self.id))

    def delete(self):
        if self._row.state == "running":
            raise InputError(f"The run {self.id} is running. Stop it first.")
        self._backend.rows_ = [each for each in self._backend.rows_ if each.run_id != self.id]


class FakeBackend:
    place = "this machine"

    def __init__(self):
        self.asked = []
        self.lost = ""
        self.rows_ = [row("run-c", "running", name="cart"), row("run-b", "failed", name="broken"),
                      row("run-a", "finished", env="classic/tictactoe_v3")]  # fmt: skip
        self.names_ = NAMES
        self.runs = SimpleNamespace(rows=self._rows, run=self._run)
        self.metrics = SimpleNamespace(names=lambda ref: self.names_, series=self._series)
        load = MachineLoad(cpu=50, used_gb=4, memory_gb=16)
        doctor = [FindingRow(id="extra mpi", ok=False, detail="without mpi4py", install="pip install x")]
        self.machine = SimpleNamespace(load=lambda: load, doctor=lambda: doctor)
        project = ProjectRow(name="demo", folder="/demo", state="ok", env="gym/CartPole-v1", used=0.0)
        self.projects = SimpleNamespace(rows=lambda: [project], details=lambda name: project)

    def _rows(self):
        if self.lost:
            raise InputError(self.lost)
        return list(self.rows_)

    def _run(self, ref):
        found = [each for each in self.rows_ if each.run_id == ref]
        if not found:
            raise UnknownNameError(f"There is no run '{ref}'.")
        return FakeRun(self, found[0])

    def _series(self, asked):
        self.asked.append(asked)
        x = np.linspace(asked.start or 0, asked.stop or 40_000, 50).tolist()
        found = []
        for ref in asked.refs:
            for place, metric in enumerate(asked.metrics):
                y = [value / 100 + 10 * place for value in x]
                found.append(Series(ref=ref, metric=metric, x=x, low=y, high=y, mean=y))
        return ManySeries(series=found, last_seq=dict.fromkeys(asked.refs, 7), started={})
