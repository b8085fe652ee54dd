"""Tables trained by MPI ranks: as good as on threads, to the last step, and gone with an order or a failure."""

import signal

import numpy as np
import psutil
import pytest

from mosaic.config.environment import EnvironmentConfig
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.twins import find_twin
from mosaic.learners.tabular.proof import prove
from mosaic.learners.tabular.settings import TabularOptions
from mosaic.learners.tabular.twin_training import TwinTraining
from mosaic.runs.trainer import Trainer
from mosaic.runtimes.mpi import RankError
from mosaic.runtimes.parallel import ParallelTraining
from mosaic.runtimes.tabular_mpi import MpiTraining

GAME = find_twin(EnvironmentConfig(env_id="classic/tictactoe_v3"))
FULL_SPEED = {"epsilon": 1.0, "epsilon_schedule": "constant", "learning_rate": 1.0, "discount_factor": 1.0}
OPTIONS = TabularOptions(**FULL_SPEED)
EVERY = 200_000


def on_ranks(ranks):
    return MpiTraining(GAME, "q_learning", OPTIONS, 7, ranks=ranks, merge_every=EVERY)


def on_threads(threads):
    def make(number):
        return TwinTraining(GAME, "q_learning", OPTIONS, child_seed(7, "learner", number))

    return ParallelTraining(make, threads, EVERY, shared=False)


def same(one, other):
    mine, theirs = one.tensors(), other.tensors()
    return all(np.array_equal(mine[name], theirs[name]) for name in theirs)


def ranks_alive():
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if "mosaic.runtimes.mpi_learner" in command and "mpiexec" not in command[0]:
            found.append(process)
    return found


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_learn_what_threads_learn_to_the_last_bit(ranks, tmp_path):
    training, threads = on_ranks(ranks), on_threads(ranks)
    for each in (training, threads):
        each.advance(1_500_001)
    assert training.agent_steps == training.env_steps == int(training.visits.sum()) == 1_500_001
    assert prove(GAME, training.values).unbeatable
    assert same(training, threads)
    assert training.coverage == threads.coverage
    assert training.read_statistics() == threads.read_statistics()

    threads.save(tmp_path)
    training.advance(1)  # what is restored is what counts from then on
    training.restore(tmp_path, 0)
    for each in (training, threads):
        each.advance(10**9, episodes=each.episodes + 1)  # less than there are ranks: some have no share
    assert training.episodes == threads.episodes
    assert same(training, threads)
    training.close()
    training.close()
    assert ranks_alive() == []


@pytest.mark.slow
@pytest.mark.chosen
def test_a_killed_rank_ends_the_training_with_its_name():
    training = on_ranks(2)
    victim = ranks_alive()[-1]
    victim.send_signal(signal.SIGKILL)
    with pytest.raises(RankError, match=r"Rank \d of 2 failed: .*The other ranks were ended"):
        training.advance(10 * EVERY)
    assert ranks_alive() == []
    training.close()


def test_no_rank_at_all_is_refused():
    with pytest.raises(InputError, match="at least 1 rank, not 0"):
        on_ranks(0)


@pytest.mark.slow
@pytest.mark.chosen
def test_a_run_on_ranks_is_stopped_resumed_and_finishes(tmp_path):
    config = RunConfig.model_validate(
        {
            "environment": {"env_id": "classic/tictactoe_v3"},
            "training": {
                "worker": "tabular",
                "params": {**FULL_SPEED, "report_every_steps": 10_000},
                "total_timesteps": 2_000_001,
            },
            "resources": {"runtime": "mpi", "num_workers": 2},
        }
    )
    run = Trainer(tmp_path).submit(config)
    for event in run.events(follow=True):
        if event["kind"] == "iteration":
            break
    run.stop()
    assert run.wait(60) == "stopped", run.log()
    assert 0 < run.checkpoints()[-1].env_steps < 2_000_001
    run.resume()
    assert run.wait(60) == "finished", run.log()
    assert run.checkpoints()[-1].env_steps == 2_000_001
    assert "2 MPI ranks" in run.log()
