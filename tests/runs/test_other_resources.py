"""A run that goes on with other resources than it began with."""

from __future__ import annotations

from typing import Any

import pytest
from run_cases import assert_no_gap, first_event, toy

from mosaic.core.errors import InputError
from mosaic.runs.other_resources import change_resources, with_resources
from mosaic.runs.run import Run
from mosaic.runs.start import RunAliveError
from mosaic.runs.trainer import Trainer
from mosaic.store.lock import RunLock
from mosaic.store.state import State


def used(run: Run) -> list[tuple[int, int | None]]:
    """What each attempt said it works with."""
    return [(event["attempt"], event["num_workers"]) for event in run.events() if event["kind"] == "started"]


def stopped(trainer: Trainer, **sections: Any) -> Run:
    """It has begun."""
    run = trainer.submit(toy(**sections))
    first_event(run)
    run.stop()
    return run


def test_a_stopped_run_goes_on_with_another_number_of_workers(trainer: Trainer) -> None:
    run = stopped(trainer, resources={"num_cpus": 3})
    before = run.config
    run.resume(resources={"num_workers": 5})
    next(event for event in run.events(follow=True) if event["attempt"] == 2 and event["kind"] == "iteration")
    run.stop()
    changed = before.resources.model_copy(update={"num_workers": 5})
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
    with pytest.raises(InputError, match=rf"is running, and keeps its .* with others: mosaic runs stop {run.id}"):
        run.resume(resources={"num_workers": 5})
    run.pause()
    with pytest.raises(InputError, match=r"is paused, and keeps its resources for as long as it lives. Stop it"):
        run.resume(resources={"num_workers": 5})
    assert run.config == before
    run.resume(resources={})
    assert run.state is State.RUNNING
    run.stop()


def test_what_is_no_resource_is_refused_and_changes_nothing(trainer: Trainer) -> None:
    run = stopped(trainer)
    before = run.config
    for wrong, text in (
        ({"num_worker": 3}, r"Did you mean 'resources\.num_workers'\?"),
        ({"num_workers": 0}, r"resources\.num_workers"),
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
        with pytest.raises(RunAliveError, match="somebody else holds its lock"):
            change_resources(run.folder, record, {"num_workers": 3})
    run.start()
    run.wait(60)
    with pytest.raises(RunAliveError, match="was started by somebody else meanwhile"):
        change_resources(run.folder, record, {"num_workers": 3})
    assert run.config.resources.num_workers is None


def test_only_resources_are_changed(trainer: Trainer) -> None:
    config = trainer.submit(toy(500, tags=["a"]), start=False).config
    changed = with_resources(config, {"num_workers": "auto", "max_wall_s": 7})
    assert changed.resources.max_wall_s == 7
    assert changed.model_copy(update={"resources": config.resources}) == config
