"""Tables trained by Ray actors: as good as on threads, to the last step, whatever becomes of an actor."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.machine import available_cores
from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.optimal import prove
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.twin import TwinTraining
from mosaic.runs.processes import marked
from mosaic.runs.trainer import Trainer
from mosaic.runtimes.parallel import ParallelTraining
from mosaic.runtimes.ray import tabular as tabular_ray
from mosaic.runtimes.ray.session import ray_session
from mosaic.runtimes.ray.tabular import RayTraining
from mosaic.store.store import Store
from mosaic.workers.ray_record import RAY, clear_session

GAME = find_twin(EnvironmentConfig(env_id="classic/tictactoe_v3"))
FULL_SPEED = {"epsilon": 1.0, "epsilon_schedule": "constant", "learning_rate": 1.0, "discount_factor": 1.0}
OPTIONS = TabularOptions(**FULL_SPEED)
EVERY = 200_000
ACTORS = min(2, available_cores())


@pytest.fixture(scope="module")
def ray_up():
    with ray_session(ACTORS) as session:
        yield session


@pytest.fixture
def training(ray_up):
    training = RayTraining(GAME, "q_learning", OPTIONS, 7, actors=ACTORS, merge_every=EVERY)
    yield training
    training.close()


def on_threads():
    def make(number):
        return TwinTraining(GAME, "q_learning", OPTIONS, child_seed(7, "learner", number))

    return ParallelTraining(make, ACTORS, EVERY, shared=False)


def same(one, other):
    mine, theirs = one.tensors(), other.tensors()
    return all(np.array_equal(mine[name], theirs[name]) for name in theirs)


@pytest.mark.slow
@pytest.mark.chosen
def test_actors_learn_what_threads_learn_to_the_last_bit(training, tmp_path):
    threads = on_threads()
    for each in (training, threads):
        each.advance(1_500_001)
    assert training.agent_steps == training.env_steps == int(training.visits.sum()) == 1_500_001
    assert prove(GAME, training.values).unbeatable
    assert same(training, threads)
    assert training.coverage == threads.coverage
    assert training.read_statistics() == threads.read_statistics()

    training.save(tmp_path)
    threads.restore(tmp_path, 0)
    for each in (training, threads):
        each.advance(10**9, episodes=each.episodes + 1_001)
    assert training.episodes == threads.episodes
    assert same(training, threads)
    wrong = RayTraining(GAME, "q_learning", OPTIONS, 7, actors=ACTORS + 1, merge_every=EVERY)
    with pytest.raises(InputError, match=f"written by {ACTORS} learners.*--num-env-runners {ACTORS}"):
        wrong.restore(tmp_path, 0)
    wrong.close()


@pytest.mark.slow
def test_a_killed_actor_is_replaced_and_no_step_is_lost_or_done_twice(training, monkeypatch, capsys):
    import ray

    threads = on_threads()
    training.advance(EVERY)
    ray.kill(training._actors[0])  # between two rounds
    training.advance(EVERY)
    asked = training._ask

    def ask_and_kill(base, share):
        answer = asked(base, share)
        if share.number == ACTORS - 1:
            monkeypatch.undo()
            ray.kill(training._actors[share.number])  # while it works, or as soon as it has answered
        return answer

    monkeypatch.setattr(training, "_ask", ask_and_kill)
    training.advance(EVERY * ACTORS * 2)
    for steps in (EVERY, EVERY, EVERY * ACTORS * 2):
        threads.advance(steps)
    assert training.agent_steps == int(training.visits.sum()) == EVERY * 2 * (ACTORS + 1)
    assert same(training, threads)
    assert capsys.readouterr().out.count("died and is replaced") == 2


class Doomed(tabular_ray.TabularActor):
    def train(self, base, counts, sums, share):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_share_that_kills_every_actor_ends_the_run(ray_up, monkeypatch):
    import ray

    training = RayTraining(GAME, "q_learning", OPTIONS, 7, actors=1, merge_every=EVERY)
    monkeypatch.setattr(training, "_actor_class", ray.remote(num_cpus=1)(Doomed))
    training._replace(0)
    with pytest.raises(MosaicError, match="Actor 0 died 3 times over the same 1,000 steps"):
        training.advance(1_000)
    assert training.agent_steps == 0 == int(training.visits.sum())
    training.close()


def test_no_actor_at_all_is_refused():
    with pytest.raises(InputError, match="at least 1 actor, not 0"):
        RayTraining(GAME, "q_learning", OPTIONS, 7, actors=0, merge_every=EVERY)


def run_config(runtime, env_id="classic/tictactoe_v3", **resources):
    return RunConfig.model_validate(
        {
            "environment": {"env_id": env_id},
            "training": {
                "worker": "tabular",
                "params": {**FULL_SPEED, "report_every_steps": 10_000},
                "total_timesteps": 1_500_001,
            },
            "resources": {"runtime": runtime, "num_env_runners": ACTORS, **resources},
        }
    )


@pytest.mark.slow
def test_a_run_on_ray_is_killed_resumed_finishes_and_leaves_nothing(tmp_path):
    run = Trainer(tmp_path).submit(run_config("ray"))
    for event in run.events(follow=True):
        if event["kind"] == "iteration":
            break
    cluster = Path(json.loads((run.folder.path / RAY).read_text())["temp_dir"])
    assert cluster.exists()
    os.kill(run.record().attempts[-1].worker.pid, signal.SIGKILL)
    assert run.wait(60) == "failed", "it was faster than the test"
    assert not cluster.exists()  # the supervisor cleared it away at once
    assert not (run.folder.path / RAY).exists()
    run.resume()
    assert run.wait(120) == "finished", run.log()
    assert f"{ACTORS} Ray actors here" in run.log()
    assert run.checkpoints()[-1].env_steps == 1_500_001
    assert not (run.folder.path / RAY).exists()
    assert marked(run.id) == set()


def test_a_session_that_was_left_is_cleared_away_and_forgotten(tmp_path):
    folder = Store(tmp_path / "home").create(run_config("ray"))
    clear_session(folder)  # nothing was left
    directory = tmp_path / "mosaic-ray-12345678"
    directory.mkdir()
    record = json.dumps({"temp_dir": str(directory), "address": None, "processes": []})
    (folder.path / RAY).write_text(record)
    folder.imported.write_text("{}")
    clear_session(folder)
    assert directory.exists(), "what an imported run names is not ours"
    assert not (folder.path / RAY).exists()
    folder.imported.unlink()
    (folder.path / RAY).write_text(record)
    clear_session(folder)
    assert not directory.exists()
    assert not (folder.path / RAY).exists()


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (run_config("ray", "gym/CartPole-v1"), "The runtime ray needs a compiled loop, but for gym/CartPole-v1"),
        (run_config("mpi", "gym/CartPole-v1"), "The runtime mpi needs a compiled loop, but for gym/CartPole-v1"),
    ],
)
def test_what_a_runtime_cannot_do_is_said(config, complaint):
    from mosaic.workers.tabular.options import TabularWorkerOptions
    from mosaic.workers.tabular.worker import make_training

    with pytest.raises(InputError, match=complaint):
        make_training(config, TabularWorkerOptions(**FULL_SPEED), lambda cpus, address: pytest.fail("Ray was started"))
