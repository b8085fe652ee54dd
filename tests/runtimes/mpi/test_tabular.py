"""Tables trained by MPI ranks: as good as on threads, to the last step, and gone with an order or a failure."""

import signal
from contextlib import closing

import numpy as np
import psutil
import pytest

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.kernels import loops as kernels
from mosaic.learners.tabular.optimal import probabilities, prove, value_iteration
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.twin import TwinTraining
from mosaic.runs.trainer import Trainer
from mosaic.runtimes.mpi import launch as mpi
from mosaic.runtimes.mpi import tabular as tabular_mpi
from mosaic.runtimes.mpi.launch import RankError
from mosaic.runtimes.mpi.tabular import MpiTraining
from mosaic.runtimes.parallel import ParallelTraining
from mosaic.workers.tabular.distributed import check_mpi_mode

GAME = find_twin(EnvironmentConfig(env_id="classic/tictactoe_v3"))
FULL_SPEED = {"epsilon": 1.0, "epsilon_schedule": "constant", "learning_rate": 1.0, "discount_factor": 1.0}
OPTIONS = TabularOptions(**FULL_SPEED)
EVERY = 200_000


def on_ranks(ranks, mode="allreduce"):
    return MpiTraining(GAME, "q_learning", OPTIONS, 7, ranks=ranks, merge_every=EVERY, mode=mode)


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
        if "mosaic.runtimes.mpi.rank_training" in command and "mpiexec" not in command[0]:
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
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_server_counts_every_step_once(ranks, tmp_path):
    with closing(on_ranks(ranks, "server")) as training:
        training.advance(0)
        training.advance(1)
        training.advance(1_500_000)
        assert training.agent_steps == training.env_steps == int(training.visits.sum()) == 1_500_001
        assert (training.tensors()["counts"][:, kernels.AGENT_STEPS] > 0).all()  # nobody was left out
        assert prove(GAME, training.values).unbeatable
        assert training.read_statistics().episodes == training.episodes

        training.save(tmp_path)
        values, goal = training.values.copy(), training.episodes + 1
        training.advance(50_000)
        training.restore(tmp_path, 0)  # what is restored is what counts from then on
        assert training.agent_steps == int(training.visits.sum()) == 1_500_001
        assert np.array_equal(training.values, values)
        training.advance(10**9, episodes=goal)
        assert training.episodes == goal
        training.advance(10**9, episodes=goal)  # reached already
        training.advance(10**9, episodes=goal + 10_000)
        assert training.episodes == goal + 10_000
        assert training.agent_steps == int(training.visits.sum())
    assert ranks_alive() == []


def worth_of_greedy(mdp, values):
    """Of the first state, exactly: the chance to reach the goal in the end."""
    at, acts = np.arange(len(values)), values.argmax(axis=1)
    chance = probabilities(mdp.threshold)[at, acts]
    onwards = np.zeros((len(values), len(values)))
    for outcome in range(chance.shape[1]):
        goes_on = chance[:, outcome] * (mdp.terminated[at, acts, outcome] == 0)
        np.add.at(onwards, (at, mdp.next_state[at, acts, outcome]), 0.999 * goes_on)
    reward = (chance * mdp.reward[at, acts]).sum(axis=1)
    return float(np.linalg.solve(np.eye(len(values)) - onwards, reward)[mdp.start_state[0]])


@pytest.mark.slow
def test_a_server_learns_as_well_as_one_learner():
    lake = find_twin(EnvironmentConfig(env_id="gym/FrozenLake-v1"))
    # So small a rate that chance no longer decides between near equal actions: 100 of 100 single learners and
    # 20 of 20 servers end at the optimum (with 0.05 it is 86 of 100).
    options = TabularOptions(
        epsilon=1.0, epsilon_schedule="constant", learning_rate=0.01, discount_factor=0.99, dtype="float64"
    )
    steps = 4_000_000

    def serially(seed):
        training = TwinTraining(lake, "q_learning", options, seed)
        training.advance(steps)
        return worth_of_greedy(lake, training.values)

    def on_a_server(seed):
        where = (lake, "q_learning", options, seed)
        with closing(MpiTraining(*where, ranks=2, merge_every=EVERY, mode="server")) as training:
            training.advance(steps)
            return worth_of_greedy(lake, training.values)

    one, many = [serially(seed) for seed in range(8)], [on_a_server(seed) for seed in range(3)]
    best = worth_of_greedy(lake, value_iteration(lake, 0.99).action_values)
    error = np.sqrt(np.var(one, ddof=1) / len(one) + np.var(many, ddof=1) / len(many))
    assert abs(np.mean(one) - np.mean(many)) <= 3 * error + 0.01, (one, many)
    assert np.mean(many) >= 0.95 * best, (many, best)


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize("mode", ["allreduce", "server"])
def test_a_killed_rank_ends_the_training_with_its_name(mode):
    training = on_ranks(2, mode)
    victim = ranks_alive()[-1]
    victim.send_signal(signal.SIGKILL)
    with pytest.raises(RankError, match=r"Rank \d of 2 failed: .*The other ranks were ended"):
        training.advance(10 * EVERY)
    assert ranks_alive() == []
    training.close()


def test_no_rank_at_all_is_refused():
    with pytest.raises(InputError, match="at least 1 rank, not 0"):
        on_ranks(0)


def test_a_missing_installation_is_said_before_anything_starts(monkeypatch):
    def missing(name):
        raise mpi.PackageNotFoundError(name)

    monkeypatch.setattr(tabular_mpi, "run_ranks", lambda *_: pytest.fail("ranks were started"))
    monkeypatch.setattr(mpi, "distribution", missing)
    with pytest.raises(MissingExtraError, match=r"no package 'mpich'\. Type: pip install 'mosaic-rl\[mpi\]'"):
        on_ranks(2, "server")
    monkeypatch.setattr(mpi, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"no package 'mpi4py'\. Type: pip install 'mosaic-rl\[mpi\]'"):
        on_ranks(1, "server")


@pytest.mark.parametrize("runtime", ["single", "parallel", "ray"])
def test_a_mode_without_ranks_is_refused(runtime):
    config = RunConfig.model_validate(
        {
            "environment": {"env_id": "classic/tictactoe_v3"},
            "training": {"worker": "tabular", "total_timesteps": 1},
            "resources": {"runtime": runtime},
        }
    )
    with pytest.raises(InputError, match=rf"mpi_mode=server is for the runtime mpi, not {runtime}\. Type: --set"):
        check_mpi_mode(config, "server")


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize("mode", ["allreduce", "server"])
def test_a_run_on_ranks_is_stopped_resumed_and_finishes(tmp_path, mode):
    config = RunConfig.model_validate(
        {
            "environment": {"env_id": "classic/tictactoe_v3"},
            "training": {
                "worker": "tabular",
                "params": {**FULL_SPEED, "report_every_steps": 10_000, "mpi_mode": mode},
                "total_timesteps": 2_000_001,
            },
            "resources": {"runtime": "mpi", "num_env_runners": 2},
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
    assert f"2 MPI ranks, mode {mode}" in run.log()
