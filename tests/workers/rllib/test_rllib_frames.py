"""A run whose envs are in processes of Ray's, seen from outside."""

import os
import signal
from contextlib import closing
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.runners.screen import Shot
from mosaic.runs.trainer import Trainer
from mosaic.store.state import State
from mosaic.store.views import details_of, running_rows
from mosaic.telemetry.frames.paths import request_pictures, ring_paths
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.telemetry.frames.run_pictures import RunPictures
from mosaic.telemetry.frames.sources import list_sources, source_folder
from mosaic.workers.inbox import Inbox
from mosaic.workers.rllib.training import _evaluation_screen
from tests.workers.watching import assert_in_order, collect, distinct

PARAMS = {
    "num_env_runners": 1,
    "train_batch_size_per_learner": 512,
    "minibatch_size": 256,
    "num_epochs": 1,
    "fcnet_hiddens": [8],
}


class Viewer:
    """Pictures of a run, read as those of a ring."""

    def __init__(self, run, source=None, **request):
        self._pictures = RunPictures(run.folder.path, FrameRequest(**request), source)

    def read(self):
        return self._pictures.newest()

    def state(self):
        return self._pictures.state

    def close(self):
        self._pictures.close()


def submit(home, *, evaluation, **params):
    return Trainer(home).submit(
        {
            "environment": {"env_id": "gym/CartPole-v1", "num_envs": 4},
            "training": {"worker": "rllib", "preset": False, "total_timesteps": 10**9, "params": PARAMS | params},
            "evaluation": evaluation,
        }
    )


def rings(run):
    folders = [run.folder.path, *(run.folder.path / ".pictures").glob("*")]
    return [path for folder in folders for path in ring_paths(folder) if path.exists()]


def is_evaluation(frame):
    return frame.agent.startswith("evaluation, return=")


@pytest.mark.slow
def test_envs_in_an_env_runner_and_evaluations_are_seen_and_their_end_too(tmp_path):
    run = submit(tmp_path, evaluation={"episodes": 200, "every_steps": 2048})
    with closing(Viewer(run)) as viewer:
        frames = collect(run, viewer, lambda frames: distinct(frames) >= 5)
        trained = [frame for frame in frames if not is_evaluation(frame)]
        assert_in_order(trained)
        assert {frame.pixels.shape for frame in frames} == {(400, 600, 3)}
        assert all(frame.reward == 1.0 and frame.ret >= 1.0 for frame in trained)  # CartPole pays for every step
        collect(run, viewer, lambda frames: any(map(is_evaluation, frames)))
        collect(run, viewer, lambda frames: frames and not is_evaluation(frames[-1]))
        with closing(Viewer(run, "env-runner-1", env=2, grid=2)) as other:
            (*_, tiles) = collect(run, other, lambda frames: frames and frames[-1].env == 2)
            assert max(tiles.pixels.shape) > 600
        run.stop()
        viewer.read()
        assert viewer.state() == "finished"
    assert rings(run) == []


@pytest.mark.slow
def test_every_env_runner_is_a_source_also_after_its_restart_and_nothing_is_left_of_a_killed_run(tmp_path):
    run = submit(tmp_path, evaluation={"episodes": 1}, num_env_runners=2)
    for source in ("env-runner-1", "env-runner-2"):
        with closing(Viewer(run, source)) as viewer:
            collect(run, viewer, lambda frames: distinct(frames) >= 3)
    assert details_of(run.folder).sources == ("env-runner-1", "env-runner-2")
    (row,) = running_rows(Trainer(tmp_path).store)
    assert (row.id, row.kind, row.sources) == (run.id, "run", ("env-runner-1", "env-runner-2"))
    folder = source_folder(run.folder.path, "env-runner-2")
    killed = owner(folder)
    os.kill(killed, signal.SIGKILL)
    with closing(Viewer(run, "env-runner-2")) as viewer:
        collect(run, viewer, lambda frames: len(frames) > 2 and owner(folder) not in (killed, None))
    left = {path.parent for path in rings(run)}
    assert len(left) == 2
    os.kill(run.record().attempts[-1].worker.pid, signal.SIGKILL)
    assert run.wait() is State.FAILED
    assert not any(path.exists() for path in left)
    assert rings(run) == []


def owner(folder):
    """The process that writes the ring; None while there is no ring."""
    try:
        return int((ring_paths(folder)[0].parent / "owner").read_text().split()[0])
    except FileNotFoundError:
        return None


def context_of(folder, *, frames=True):
    told = []
    environment = EnvironmentConfig(env_id="python:mazes:Maze")
    config = SimpleNamespace(telemetry=SimpleNamespace(frames=frames), environment=environment)
    report = lambda **fields: told.append(fields["message"])  # noqa: E731
    inbox = Inbox()
    return SimpleNamespace(config=config, folder=SimpleNamespace(path=folder), report=report, inbox=inbox), told


def test_an_evaluation_is_a_source_while_it_lasts(tmp_path):
    context, told = context_of(tmp_path)
    with _evaluation_screen(context, set()) as screen:
        assert list_sources(tmp_path) == ("evaluation",)
        assert not screen.wanted()
    assert list_sources(tmp_path) == ()
    assert told == []


def test_an_evaluation_that_was_over_at_once_is_seen_by_a_viewer_that_waited_for_it(tmp_path, monkeypatch):
    (tmp_path / ".pictures" / "env-runner-1").mkdir(parents=True)
    context, _ = context_of(tmp_path)
    seen = []
    with closing(RunPictures(tmp_path, FrameRequest(), clock=count(0, 1).__next__)) as pictures:
        pictures.newest()  # it waits, and looks again only after the last step
        monkeypatch.setattr(context.inbox, "wait_for_stop", lambda timeout_s: seen.append(pictures.newest()))
        with _evaluation_screen(context, set()) as screen:
            assert screen.wanted()
            screen.show(Shot(lambda: np.zeros((4, 4, 3), np.uint8), 0, 0, 0, 0.0, {"agent_0": 0.0}, "evaluation"))
    (frame,) = seen
    assert is_evaluation(frame)


@pytest.mark.parametrize("stop", [False, True])
def test_a_viewer_that_has_left_is_waited_for_in_vain_and_not_for_long(tmp_path, monkeypatch, stop):
    context, _ = context_of(tmp_path)
    waits = []
    monkeypatch.setattr(context.inbox, "wait_for_stop", lambda timeout_s: waits.append(timeout_s) or stop)
    with _evaluation_screen(context, set()):
        pass
    assert waits == []  # no viewer asked
    with _evaluation_screen(context, set()) as screen:
        request_pictures(screen.folder)
        assert screen.wanted()
    assert sum(waits) == pytest.approx(0.02 if stop else 1.0)


def test_an_evaluation_that_cannot_be_watched_is_played_nevertheless(tmp_path):
    context, _ = context_of(tmp_path, frames=False)
    with _evaluation_screen(context, set()) as screen:
        assert screen is None
    context, told = context_of(tmp_path / "missing")
    with _evaluation_screen(context, set()) as screen:
        assert screen is None
    assert told[0].startswith("No pictures of this evaluation: ")


def test_a_viewer_of_evaluations_without_pictures_is_told_so_once(tmp_path):
    context, told = context_of(tmp_path)
    alerts = set()
    for _ in range(2):
        with _evaluation_screen(context, alerts) as screen:
            request_pictures(screen.folder)
            assert screen.wanted()
            screen.show(Shot(lambda: None, 0, 0, 0, 0.0, {"agent_0": 0.0}))
    assert [message.partition(". ")[0] for message in told] == ["No pictures: python:mazes:Maze draws none"]
