"""Networks that are watched while they learn, and what is left of the pictures when their process dies."""

import os
import signal

import numpy as np
import pytest

from mosaic.envs.compiled.vector import CompiledVector
from mosaic.runs.trainer import Trainer
from mosaic.store.state import State
from mosaic.telemetry.events.reader import read_events
from mosaic.telemetry.frames.paths import ring_paths, unfinished
from mosaic.workers.context import WorkerContext
from tests.workers.hosting import run_config
from tests.workers.watching import EagerContext, assert_in_order, collect, distinct, looking, train_here, without_clocks

SMALL = {"hidden": [8], "n_steps": 32, "n_epochs": 2, "batch_size": 64}
SCREEN = (400, 600, 3)


def cartpole(steps, **settings):
    return run_config(
        "native",
        SMALL,
        environment={"env_id": "gym/CartPole-v1", "num_envs": 8},
        training={"total_timesteps": steps, "algorithm": "ppo", "preset": False},
        evaluation={"episodes": 1},
        **settings,
    )


def ring_files(run):
    return [path for each in ring_paths(run.folder.path) for path in (each, unfinished(each)) if path.exists()]


def test_whoever_looks_changes_no_metric(tmp_path):
    alone = train_here(tmp_path / "a", cartpole(4096, telemetry={"frames": False}), WorkerContext)
    seen = train_here(tmp_path / "b", cartpole(4096), EagerContext)
    events, others = (without_clocks(read_events(context.folder.metrics)) for context in (alone, seen))
    assert events == others
    assert seen.shown
    for rgb, facts in seen.shown:
        assert rgb.shape == SCREEN
        assert facts["reward"] == 1.0  # CartPole pays for every step
        assert facts["ret"] >= 0.0
    steps = [facts["step"] for _, facts in seen.shown]
    assert steps == sorted(set(steps))


def test_nobody_looks_and_nothing_is_drawn(tmp_path, monkeypatch):
    """Through the ring of a real context, which nobody has opened."""
    drawn = []

    def freeze(self, index):
        drawn.append(index)
        return lambda: np.zeros(SCREEN, np.uint8)

    monkeypatch.setattr(CompiledVector, "freeze", freeze)
    train_here(tmp_path / "unseen", cartpole(2048), WorkerContext)
    assert drawn == []
    train_here(tmp_path / "seen", cartpole(2048), EagerContext)
    assert drawn  # so that the count above means something


@pytest.mark.slow
def test_a_real_run_is_seen_from_another_process_and_its_death_too(tmp_path):
    run = Trainer(tmp_path).submit(cartpole(10**9))
    with looking(run) as reader:
        frames = collect(run, reader, lambda frames: distinct(frames) >= 5)
        assert_in_order(frames)
        assert {frame.pixels.shape for frame in frames} == {SCREEN}
        assert {frame.env for frame in frames} == {0}
        reader.look(env=3, grid=4)
        (*_, tiles) = collect(run, reader, lambda frames: frames and frames[-1].env == 3)
        assert tiles.pixels.shape[0] > SCREEN[0]
        assert reader.state() == "live"

        os.kill(run.record().attempts[-1].worker.pid, signal.SIGKILL)
        assert run.wait(60) is State.FAILED
        assert reader.state() == "writer died"
        assert ring_files(run) == []  # the reader still has it open

        while reader.read() is not None:  # the last picture of the dead writer, whose numbers end here
            pass
        run.resume()
        frames = collect(run, reader, lambda frames: len(frames) >= 2)
        assert_in_order(frames)
        assert len(ring_files(run)) == 1
        run.stop()
        assert reader.state() == "finished"
        assert ring_files(run) == []


@pytest.mark.slow
def test_a_run_that_died_leaves_no_ring(tmp_path):
    run = Trainer(tmp_path).submit(cartpole(10**9))
    with looking(run) as reader:
        collect(run, reader, lambda frames: len(frames) >= 1)
    assert len(ring_files(run)) == 1
    os.kill(run.record().attempts[-1].worker.pid, signal.SIGKILL)
    assert run.wait(60) is State.FAILED
    assert ring_files(run) == []
