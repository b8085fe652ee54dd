"""Backend with three runs and one project, none of them on disk."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal

import numpy as np
from pydantic import BaseModel, Field

from mosaic.config.loading import parse_run_config
from mosaic.core.errors import InputError, MosaicError, UnknownNameError
from mosaic.server.machine_load import MachineLoad
from mosaic.server.schemas import EnvRow, FindingRow, WorkerRow
from mosaic.store.projects.registry import ProjectRow
from mosaic.store.state import State
from mosaic.store.views import AttemptRow, CheckpointRow, LogPart, RunDetails, RunRow
from mosaic.ui.series import ManySeries, Series
from mosaic.ui.tui.backend.protocol import EnvOffer, StartedRuns
from mosaic.ui.web.data.draft import Checked
from mosaic.ui.web.data.env_info import EnvLook
from mosaic.ui.web.data.schema_fields import complaints, fields_of

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
        text = "" if after else "first line\nRuntimeError: the game file is missing\n"
        return LogPart(text=text if stream == "stderr" else "", start=0, end=9)

    def pause(self):
        self._backend.asked.append(("pause", self.id))

    def stop(self, patience_s=None, *, wait=True):
        self._backend.asked.append(("stop", self.id))

    def delete(self):
        if self._row.state == "running":
            raise InputError(f"The run {self.id} is running. Stop it first.")
        self._backend.rows_ = [each for each in self._backend.rows_ if each.run_id != self.id]


class Options(BaseModel):
    """Options of the algorithm of the only worker."""

    lr: float = Field(3e-4, gt=0, le=1, description="Learning rate.")
    normalise: bool = Field(True, description="Normalise observations.")
    schedule: Literal["constant", "linear"] = Field("constant", description="Change of the learning rate.")


def check(document):
    try:
        return Checked(parse_run_config(document))
    except MosaicError as error:
        return Checked(None, str(error))


class FakePresets:
    """A project of the working directory whose preset trains in an env with two agents."""

    def __init__(self):
        training = {"worker": "native", "algorithm": "ppo", "total_timesteps": 5000}
        self.settings = {"environment": {"env_id": "gym/duel-v0"}, "training": training, "project": "demo"}
        self.saved = {}

    def here(self):
        return self.settings

    def save(self, project, preset, document):
        self.saved[project, preset] = document


class FakeCatalog:
    def envs(self):
        facts = {"incentives": "unknown", "shared_reward": None}
        return [EnvRow(id="gym/duel-v0", installed=True, install=None, **facts),
                EnvRow(id="gym/far-v0", installed=False, install="pip install far", **facts)]  # fmt: skip

    def workers(self):
        about = {"algorithms": ["ppo", "dqn"], "paradigms": ["parameter_sharing", "independent"]}
        return [WorkerRow(id="native", installed=True, install=None, capabilities=about)]

    def look(self, env):
        agents = ("agent_2", "agent_10")
        shared = {"parameter_sharing": dict.fromkeys(agents, "shared"), "independent": {name: name for name in agents}}
        spaces = dict.fromkeys(agents, "sees Box(4), acts Discrete(2)")
        return EnvOffer(EnvLook(env, agents, False, False, "unknown", None, spaces, shared), {})

    def options(self, worker, algorithm):
        return fields_of(Options)

    def complaints(self, worker, algorithm, values):
        return complaints(Options, values)


class FakeBackend:
    place = "this machine"

    def __init__(self):
        self.asked = []
        self.lost = ""
        self.rows_ = [row("run-c", "running", name="cart"), row("run-b", "failed", name="broken"),
                      row("run-a", "finished", env="classic/tictactoe_v3")]  # fmt: skip
        self.names_ = NAMES
        self.runs = SimpleNamespace(rows=self._rows, run=self._run, check=check, start=self._start)
        self.metrics = SimpleNamespace(names=lambda ref: self.names_, series=self._series)
        load = MachineLoad(cpu=50, used_gb=4, memory_gb=16)
        doctor = [FindingRow(id="extra mpi", ok=False, detail="without mpi4py", install="pip install x")]
        self.machine = SimpleNamespace(load=lambda: load, doctor=lambda: doctor)
        project = ProjectRow(name="demo", folder="/demo", state="ok", env="gym/CartPole-v1", used=0.0)
        self.projects = SimpleNamespace(rows=lambda: [project], details=lambda name: project)
        self.presets, self.catalog = FakePresets(), FakeCatalog()

    def _rows(self):
        if self.lost:
            raise InputError(self.lost)
        return list(self.rows_)

    def _start(self, document, seeds, *, queue):
        self.asked.append((document, seeds, queue))
        self.rows_ = [row("run-new", "queued" if queue else "running"), *self.rows_]
        return StartedRuns(("run-new",), queue)

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
