"""Backend with three runs and one project, none of them on disk."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal

import numpy as np
from pydantic import BaseModel, Field

from mosaic.config.export import ExportRequest
from mosaic.config.loading import parse_run_config
from mosaic.core.errors import InputError, MosaicError, UnknownNameError
from mosaic.runs.exporting.record import ComparedFile, ExportRow, ProgressRow, WrittenFile
from mosaic.server.machine_load import MachineLoad
from mosaic.server.schemas import EnvRow, FindingRow, WorkerRow
from mosaic.store.projects.registry import ProjectDetails, ProjectRow
from mosaic.store.state import State
from mosaic.store.views import AttemptRow, CheckpointRow, LogPart, RunDetails, RunRow
from mosaic.ui.series import ManySeries, Series
from mosaic.ui.tui.backend.files import LocalFiles
from mosaic.ui.tui.backend.protocol import StartedRuns
from mosaic.ui.web.data.draft import Checked
from mosaic.ui.web.data.env_info import EnvLook, EnvOffer
from mosaic.ui.web.data.schema_fields import complaints, fields_of
from tests.ui.tui.match_links import FakeMatches, FakeReplays

NOW = 1_800_000_000.0
POLICIES = [f"policy_{number}" for number in (10, 2, 1)]
NAMES = ("episode_reward_mean", "episode_reward_min", "episode_reward_max", "episode_len_mean", "env_steps_per_s",
         "learner/loss", *(f"policies/{name}/reward_mean" for name in POLICIES))  # fmt: skip


def row(run_id, state, **more):
    about = {"env": "gym/CartPole-v1", "worker": "native", "algorithm": "ppo", "env_steps": 40_960,
             "episode_reward_mean": 286.25, "started": NOW - 600}  # fmt: skip
    return RunRow(run_id=run_id, state=State(state), **about | more)


class FakePictures:
    def __init__(self, frame):
        self._frame, self.state = frame, "waiting" if frame is None else "live"

    def newest(self):
        return self._frame

    def close(self):
        self.state = "finished"


class FakeRun:
    def __init__(self, backend, run):
        self._backend, self._row, self.id = backend, run, run.run_id

    def show(self):
        failed = self._row.state == "failed"
        config = {"name": self._row.name, "telemetry": {"frames": self._backend.drawn}, **self._backend.settings}
        labels = {"name": self._row.name, "tags": self._row.tags, "note": self._row.note}
        return RunDetails(
            run_id=self.id, **labels, state=self._row.state, queued_at=NOW, config=config, env_steps=40_960,
            attempts=(AttemptRow(number=1, started=NOW - 600),), last_metric=None, last_seq=7, exit=None,
            checkpoints=(CheckpointRow(env_steps=20_000, path="there", policies=tuple(POLICIES)),),
            start=self._backend.start,
            reason="The worker failed: the game file is missing" if failed else "",
        )  # fmt: skip

    def log(self, after=None, size=65_536, stream="stdout"):
        text = "" if after else "first line\nRuntimeError: the game file is missing\n"
        return LogPart(text=text if stream == "stderr" else "", start=0, end=9)

    def pictures(self, request, source=None):
        return FakePictures(self._backend.frame)

    def stop(self, patience_s=None, *, wait=True):
        self._backend.asked.append(("stop", self.id))

    def pause(self):
        self._change("pause", "paused")

    def resume(self, settings=()):
        self._change(("resume", *settings) if settings else "resume", "running")

    def checkpoint(self):
        self._backend.asked.append(("checkpoint", self.id))

    def label(self, change):
        rows, place = self._backend.rows_, self._backend.rows_.index(self._row)
        rows[place] = self._row.model_copy(update=change.model_dump(exclude_none=True))

    def _change(self, asked, state):
        self._backend.asked.append((asked, self.id))
        rows = self._backend.rows_
        rows[rows.index(self._row)] = self._row.model_copy(update={"state": State(state)})

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


class FakeProjects:
    def __init__(self):
        self.kept = {"demo": ProjectRow(name="demo", folder="/demo", state="ok", env="gym/CartPole-v1", used=0.0)}

    def rows(self):
        return list(self.kept.values())

    def details(self, name):
        row = self.kept[name]
        settings = {"": {"environment": {"env_id": row.env}, "project": name}}
        return ProjectDetails(**row.model_dump(), config={"name": name, "env": row.env}, settings=settings)

    def create(self, folder, name, env):
        if not folder:
            raise InputError("A project needs a folder.")
        made = ProjectRow(name=name or folder.rpartition("/")[2], folder=folder, state="ok", env=env, used=0.0)
        self.kept[made.name] = made
        return made.name

    def rename(self, name, new_name):
        if new_name in self.kept:
            raise InputError(f"There is a project named '{new_name}' already.")
        self.kept = {new_name if key == name else key: each.model_copy(update={"name": new_name} if key == name else {})
                     for key, each in self.kept.items()}  # fmt: skip

    def forget(self, name):
        del self.kept[name]


class FakeExports:
    """Exports that are under way until `finish` ends them."""

    def __init__(self):
        self.kept = [
            self._row("lake-1", "finished", ExportRequest(run="run-a", checkpoint=20_000, policies=("policy_1",)))
        ]

    def _row(self, export_id, state, request):
        ended = state == "finished"
        compared = tuple(
            ComparedFile(policy=name, path=f"/there/{name}.onnx", name=f"{name}.onnx", max_abs_diff=2.4e-7,
                         tolerance=1e-4, action_agreement=1.0, recorded=500, random=500, passed=True)
            for name in request.policies
        ) if ended else ()  # fmt: skip
        written = tuple(WrittenFile(name=each.name, path=each.path, size=4096, sha256="") for each in compared)
        progress = ProgressRow(policy="policy_1", number=1, policies=3, step="comparing", done=250, total=500)
        return ExportRow(
            export_id=export_id, state=State(state), reason="", request=request, created=NOW - 60, started=NOW - 60,
            ended=NOW if ended else None, progress=progress, compared=compared, written=written, exit_code=0,
        )  # fmt: skip

    def start(self, request):
        policies = request.policies or tuple(sorted(POLICIES))
        fixed = request.model_copy(update={"policies": policies, "checkpoint": 20_000})
        self.kept.insert(0, self._row(f"lake-{len(self.kept) + 1}", "running", fixed))
        return self.kept[0]

    def finish(self):
        self.kept[0] = self._row(self.kept[0].export_id, "finished", self.kept[0].request)

    def rows(self, run=None):
        return list(self.kept)

    def cancel(self, reference, *, wait=True):
        place = next(number for number, each in enumerate(self.kept) if each.export_id == reference)
        self.kept[place] = self._row(reference, "stopped", self.kept[place].request)
        return self.kept[place]

    def delete(self, reference):
        self.kept = [each for each in self.kept if each.export_id != reference]
        return reference

    def log(self, reference):
        return LogPart(text="1 of 1 policy_1: comparing\n", start=0, end=9)

    def download(self, reference, name, to):
        to.write_bytes(b"onnx")


class FakeBackend:
    place = "this machine"

    def __init__(self):
        self.asked = []
        self.lost = ""
        self.drawn, self.frame = True, None  # whether runs draw, and what
        self.rows_ = [row("run-c", "running", name="cart"), row("run-b", "failed", name="broken"),
                      row("run-a", "finished", env="classic/tictactoe_v3")]  # fmt: skip
        self.names_, self.start, self.settings = NAMES, None, {}
        self.runs = SimpleNamespace(rows=self._rows, run=self._run, check=check, start=self._start, queue=self._queue)
        self.metrics = SimpleNamespace(names=lambda ref: self.names_, series=self._series)
        load = MachineLoad(cpu=50, used_gb=4, memory_gb=16)
        doctor = [FindingRow(id="extra mpi", ok=False, detail="without mpi4py", install="pip install x", optional=True)]
        self.machine = SimpleNamespace(load=lambda: load, doctor=lambda: doctor)
        self.presets, self.catalog = FakePresets(), FakeCatalog()
        self.projects = FakeProjects()
        self.exports = FakeExports()
        self.matches = FakeMatches()
        self.replays = FakeReplays()
        self.files = LocalFiles()

    def _rows(self, *, hidden=False):
        if self.lost:
            raise InputError(self.lost)
        return [each for each in self.rows_ if hidden or not each.hidden]

    def _queue(self):
        return {each.run_id: "Two runs are running." for each in self.rows_ if each.state == "queued"}

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
