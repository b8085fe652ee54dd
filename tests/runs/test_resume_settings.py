"""A run that goes on with other resources than it began with."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic.core.errors import InputError
from mosaic.runs.launch import RunAliveError
from mosaic.runs.resume_settings import change_settings, with_changes
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.lock import RunLock
from mosaic.store.origin import read_history
from mosaic.store.state import State
from tests.runs.run_cases import assert_no_gap, first_event, toy


def used(run: Run) -> list[tuple[int, int | None]]:
    """What each attempt said it works with."""
    return [(event["attempt"], event["num_env_runners"]) for event in run.events() if event["kind"] == "started"]


def stopped(trainer: Trainer, **sections: Any) -> Run:
    """It has begun."""
    run = trainer.submit(toy(**sections))
    first_event(run)
    run.stop()
    return run


def test_a_stopped_run_goes_on_with_another_number_of_workers(trainer: Trainer) -> None:
    run = stopped(trainer, resources={"num_cpus": 3})
    before = run.config
    run.resume(resources={"num_env_runners": 5})
    next(event for event in run.events(follow=True) if event["attempt"] == 2 and event["kind"] == "iteration")
    run.stop()
    changed = before.resources.model_copy(update={"num_env_runners": 5})
    assert run.config == before.model_copy(update={"resources": changed})
    assert used(run) == [(1, None), (2, 5)]
    assert_no_gap(run)


def test_a_run_may_be_resumed_as_soon_as_it_says_that_it_ended(trainer: Trainer) -> None:
    run = trainer.submit(toy())
    first_event(run)
    run.stop(wait=False)
    while run.state is not State.STOPPED:  # its supervisor still has the run's lock
        pass
    run.resume()
    assert len(run.record().attempts) == 2


def test_a_run_that_is_alive_keeps_its_resources(trainer: Trainer) -> None:
    run = trainer.submit(toy())
    first_event(run)
    before = run.config
    with pytest.raises(
        InputError, match=rf"is (starting|running), and keeps its .* with others: mosaic runs stop {run.id}"
    ):
        run.resume(resources={"num_env_runners": 5})
    run.pause()
    with pytest.raises(InputError, match=r"is paused, and keeps its resources for as long as it lives. Stop it"):
        run.resume(resources={"num_env_runners": 5})
    assert run.config == before
    run.resume(resources={})
    assert run.state is State.RUNNING
    run.stop()


def test_what_is_no_resource_is_refused_and_changes_nothing(trainer: Trainer) -> None:
    run = stopped(trainer)
    before = run.config
    for wrong, text in (
        ({"num_worker": 3}, r"Did you mean 'resources\.num_env_runners'\?"),
        ({"num_env_runners": 0}, r"resources\.num_env_runners"),
        ({"ray_address": "a:1", "runtime": "mpi"}, r"needs the runtime ray"),
    ):
        with pytest.raises(InputError, match=text):
            run.resume(resources=wrong)
    assert run.config == before
    assert len(run.record().attempts) == 1


def test_the_worker_is_asked_before_anything_is_changed(trainer: Trainer) -> None:
    run = trainer.submit(
        {
            "environment": {"env_id": "gym/Taxi-v3"},
            "training": {"worker": "tabular", "total_timesteps": 10**12},
        }
    )
    first_event(run)
    run.stop()
    with pytest.raises(InputError, match=r"No Ray cluster answers at 127\.0\.0\.1:1"):
        run.resume(resources={"runtime": "ray", "ray_address": "127.0.0.1:1"})
    assert run.config.resources.ray_address is None


def test_nobody_changes_what_somebody_else_has(trainer: Trainer) -> None:
    run = trainer.submit(toy(500), start=False)
    record = run.record()
    with RunLock(run.folder) as lock:
        assert lock.try_acquire()
        with pytest.raises(RunAliveError, match="another process holds its lock"):
            change_settings(run.folder, record, {"num_env_runners": 3})
    run.start()
    run.wait(60)
    with pytest.raises(RunAliveError, match="was started by another process in the meantime"):
        change_settings(run.folder, record, {"num_env_runners": 3})
    assert run.config.resources.num_env_runners is None


def test_only_resources_are_changed(trainer: Trainer) -> None:
    config = trainer.submit(toy(500, tags=["a"]), start=False).config
    changed = with_changes(config, {"num_env_runners": "auto", "max_wall_s": 7})
    assert changed.resources.max_wall_s == 7
    assert changed.model_copy(update={"resources": config.resources}) == config


def finished(trainer: Trainer, **sections: Any) -> Run:
    run = trainer.submit(toy(training={"worker": "toy", "total_timesteps": 500}, **sections))
    assert run.wait(60) is State.FINISHED
    return run


def test_a_finished_run_is_extended(trainer: Trainer, runs_here: None) -> None:
    run = finished(trainer)
    with pytest.raises(
        InputError, match=rf"is finished and cannot be resumed. .* mosaic runs resume {run.id} --steps 1000"
    ):
        run.resume()
    with pytest.raises(InputError, match=r"its total_timesteps is 500 and it has reached 500.*--steps N"):
        run.resume(settings=["training.params.noise=0.5"])
    assert run.state is State.FINISHED
    run.resume(settings=["training.total_timesteps=900", "training.params.noise=0.5"])
    assert run.wait(60) is State.FINISHED
    assert run.summary().env_steps == 900
    assert [event["env_steps"] for event in run.events() if event["kind"] == "iteration"] == list(range(100, 1000, 100))
    with pytest.raises(InputError, match=r"its total_timesteps is 800 and it has reached 900\."):
        run.resume(settings=["training.total_timesteps=800"])
    expected = {"training.total_timesteps": [500, 900], "training.params.noise": [1.0, 0.5]}
    (changed,) = [event for event in run.events() if event["kind"] == "config_changed"]
    assert (changed["attempt"], changed["changes"]) == (2, expected)
    (kept,) = read_history(run.folder)
    assert (kept["attempt"], kept["changes"]) == (2, expected)
    assert run.config.training.params["noise"] == 0.5
    assert_no_gap(run)


@pytest.mark.parametrize(
    "setting", ["seed=77", "environment.options.size=3", "training.algorithm=other", "training.worker=native"]
)
def test_what_was_learned_with_stays(trainer: Trainer, runs_here: None, setting: str) -> None:
    run = finished(trainer)
    before = run.config
    with pytest.raises(InputError, match="cannot change on resume"):
        run.resume(settings=[setting, "training.total_timesteps=900"])
    assert run.config == before
    assert run.state is State.FINISHED


def test_options_that_shape_checkpoints_stay(trainer: Trainer, runs_here: None) -> None:
    options = {"hidden": [8], "n_steps": 32, "n_epochs": 1}
    document = {
        "environment": {"env_id": "gym/CartPole-v1", "num_envs": 2},
        "training": {"worker": "native", "preset": False, "total_timesteps": 64, "params": options},
        "evaluation": {"episodes": 1},
    }
    run = trainer.submit(document)
    assert run.wait(300) is State.FINISHED
    with pytest.raises(InputError, match=r"training\.params\.hidden would be \[16\], and .* made with \[8\]"):
        run.resume(settings=["training.total_timesteps=128", "training.params.hidden=[16]"])
    run.resume(settings=["training.total_timesteps=128", "training.params.learning_rate=0.001"])
    assert run.wait(300) is State.FINISHED
    assert run.summary().env_steps == 128
    assert run.config.training.params["learning_rate"] == 0.001
