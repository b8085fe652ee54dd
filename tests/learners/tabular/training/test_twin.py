"""The compiled loops make the same decisions and updates as the learner, step by step."""

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.kernels.small_games import pack_game
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.optimal import prove
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.random import below, draw, stream, uniform
from mosaic.learners.tabular.training.twin import TwinTraining
from mosaic.runtimes.parallel import ParallelTraining, shares


def twin_of(env_id, **options):
    return find_twin(EnvironmentConfig(env_id=env_id, options=options))


class Dice:
    """The env's own stream, in plain Python."""

    def __init__(self, seed):
        self.key, self.count = stream(seed, "env"), 0

    def bits(self):
        self.count += 1
        return draw(self.key, self.count - 1)


def reference_on_mdp(mdp, learner, steps, seed):
    dice, state, length = Dice(seed), None, 0
    for _ in range(steps):
        if state is None:
            chance = uniform(dice.bits())
            state = int(mdp.start_state[np.argmax(mdp.start_threshold > chance)])
        action = learner.select_action(state, mdp.legal[state].astype(bool))
        chance = uniform(dice.bits())
        outcome = int(np.argmax(mdp.threshold[state, action] > chance))
        after = int(mdp.next_state[state, action, outcome])
        terminated = bool(mdp.terminated[state, action, outcome])
        length += 1
        truncated = bool(mdp.time_limit) and length >= mdp.time_limit and not terminated
        reward = float(mdp.reward[state, action, outcome])
        mask = mdp.legal[after].astype(bool)
        learner.update(state, action, reward, after, terminated, mask, truncated=truncated)
        state = after
        if terminated or truncated:
            state, length = None, 0


@pytest.mark.parametrize("env_id", ["gym/FrozenLake-v1", "gym/Taxi-v3"])
@pytest.mark.parametrize("algorithm", ["q_learning", "sarsa", "expected_sarsa"])
@pytest.mark.parametrize(
    "settings",
    [
        {"dtype": "float64"},
        {"dtype": "float32", "epsilon": 0.5, "epsilon_schedule": "linear", "epsilon_episodes": 7},
        {"dtype": "float64", "learning_rate_schedule": "visits", "initial_value": 1.0, "epsilon_schedule": "constant"},
    ],
    ids=["plain", "float32 linear", "visits optimistic"],
)
def test_the_loop_over_an_mdp_equals_the_learner(env_id, algorithm, settings):
    mdp, options = twin_of(env_id), TabularOptions(**settings)
    learner = TabularLearner(*mdp.legal.shape, algorithm, options, seed=5)
    reference_on_mdp(mdp, learner, 600, seed=5)
    training = TwinTraining(mdp, algorithm, options, seed=5)
    for part in (1, 250, 349):  # left and taken up again at any step
        training.advance(part)
    assert training.env_steps == 600
    assert (training.visits == learner.visits).all()
    assert np.array_equal(training.values, learner.values)
    assert training.read_statistics().epsilon == learner.epsilon


def test_the_loop_against_random_equals_the_learner():
    game, options, seed = twin_of("classic/tictactoe_v3"), TabularOptions(dtype="float64"), 3
    learner, dice, state = TabularLearner(*game.legal.shape, "q_learning", options, seed), Dice(seed), None

    def reply(position):
        legal = np.flatnonzero(game.legal[position])
        return int(legal[below(dice.bits(), len(legal))])

    for _ in range(500):
        if state is None:
            state = game.start
            if dice.bits() >> 63:
                state = int(game.next_state[state, reply(state)])
        action = learner.select_action(state, game.legal[state].astype(bool))
        reward, over = float(game.reward[state, action]), bool(game.over[state, action])
        after = int(game.next_state[state, action])
        if not over:
            move = reply(after)
            reward, over = reward - float(game.reward[after, move]), bool(game.over[after, move])
            after = int(game.next_state[after, move])
        learner.update(state, action, reward, after, over, game.legal[after].astype(bool) if not over else None)
        state = None if over else after
    training = TwinTraining(game, "q_learning", options, seed, "random")
    training.advance(500)
    assert np.array_equal(training.values, learner.values)


@pytest.mark.parametrize(
    "settings",
    [
        {"dtype": "float64"},
        {"epsilon": 0.5, "epsilon_schedule": "linear", "epsilon_episodes": 70, "initial_value": 1.0},
        {"learning_rate_schedule": "visits", "discount_factor": 1.0, "initial_value": -0.5},
        {"epsilon": 1.0, "learning_rate": 1.0, "epsilon_schedule": "constant"},
    ],
    ids=["float64", "linear optimistic", "visits pessimistic", "only exploring"],
)
@pytest.mark.parametrize("opponent", ["self", "random"])
def test_the_packed_loops_equal_the_general_ones(settings, opponent):
    game, options = twin_of("classic/tictactoe_v3"), TabularOptions(**settings)
    packed, general = (TwinTraining(game, "q_learning", options, 11, opponent) for _ in range(2))
    general.sole_writer = False
    for part in (1, 2, 3, 997, 30_000):
        packed.advance(part)
        general.advance(part)
        assert all(np.array_equal(packed.tensors()[name], general.tensors()[name]) for name in packed.tensors())
        packed.values[:] = general.values[:] = np.round(packed.values, 2)  # as a merge would; ties appear
    packed.advance(10**6, episodes=packed.episodes + 7)
    general.advance(10**6, episodes=general.episodes + 7)
    assert packed.read_statistics() == general.read_statistics()
    assert np.array_equal(packed.values, general.values)


def test_only_games_that_fit_are_packed():
    game, single = twin_of("classic/tictactoe_v3"), np.dtype(np.float32)
    assert pack_game(game, single) is not None
    assert pack_game(game._replace(reward=game.reward / 2), single) is None
    assert pack_game(game._replace(reward=game.reward * 32), single) is None
    eight = game._replace(legal=game.legal[:, :8], reward=game.reward[:, :8])
    assert pack_game(eight, single) is None


UNBEATABLE = TabularOptions(epsilon=1.0, epsilon_schedule="constant", learning_rate=1.0, discount_factor=1.0)


@pytest.mark.parametrize("seed", range(4))
def test_self_play_becomes_unbeatable_and_is_proven_so(seed):
    game = twin_of("classic/tictactoe_v3")
    training = TwinTraining(game, "q_learning", UNBEATABLE, seed)
    training.advance(5_000)
    assert not prove(game, training.values).unbeatable  # the proof can fail
    training.advance(1_500_000)
    proof = prove(game, training.values)
    assert proof.unbeatable
    assert proof.positions > 1000


@pytest.mark.parametrize(("env_id", "optimum"), [("gym/CliffWalking-v1", -13.0), ("gym/Taxi-v3", 7.0)])
def test_known_optima_are_reached(env_id, optimum):
    mdp = twin_of(env_id)
    training = TwinTraining(mdp, "q_learning", TabularOptions(epsilon=0.3, epsilon_decay=0.9995, epsilon_min=0.0), 1)
    training.advance(3_000_000)
    training.read_statistics()
    training.advance(300_000)
    assert training.read_statistics().return_mean >= optimum


def test_what_is_saved_continues_bit_for_bit(tmp_path):
    mdp = twin_of("gym/FrozenLake-v1")
    one, other = (TwinTraining(mdp, "sarsa", TabularOptions(), 2) for _ in range(2))
    one.advance(1234)
    one.save(tmp_path)
    other.restore(tmp_path, one.env_steps)
    one.advance(777)
    other.advance(777)
    assert all((one.tensors()[name] == other.tensors()[name]).all() for name in one.tensors())


def test_a_table_of_another_shape_is_refused():
    one, other = (
        TwinTraining(twin_of(env), "sarsa", TabularOptions(), 2) for env in ("gym/FrozenLake-v1", "gym/Taxi-v3")
    )
    with pytest.raises(
        InputError, match=r"The saved 'values' is float32 \(16, 4\), but this run's is float32 \(500, 6\)"
    ):
        other.load(one.tensors())


@pytest.mark.parametrize("shared", [False, True])
def test_parallel_learners_account_for_every_step_and_learn(shared):
    game = twin_of("classic/tictactoe_v3")
    training = ParallelTraining(lambda n: TwinTraining(game, "q_learning", UNBEATABLE, n), 3, 10_000, shared)
    training.advance(1_000_001)
    assert training.agent_steps == training.env_steps == 1_000_001
    if not shared:
        assert int(training.visits.sum()) == 1_000_001  # no visit lost in a merge, none counted twice
    training.advance(1_000_000)
    assert prove(game, training.values).unbeatable


def test_parallel_episodes_are_counted_in_all():
    training = ParallelTraining(
        lambda n: TwinTraining(twin_of("gym/Taxi-v3"), "q_learning", TabularOptions(), n), 2, 500
    )
    training.advance(10**6, episodes=101)
    assert training.episodes == 101


def test_shares_drop_nothing():
    assert shares(10, 3) == [4, 3, 3]
    assert shares(2, 3) == [1, 1, 0]


def test_what_the_loop_does_not_know_is_said():
    with pytest.raises(InputError, match="The compiled loop supports q_learning, sarsa, expected_sarsa"):
        TwinTraining(twin_of("gym/Taxi-v3"), "monte_carlo", TabularOptions(), 0)
    with pytest.raises(InputError, match="Games are trained with q_learning"):
        TwinTraining(twin_of("classic/tictactoe_v3"), "sarsa", TabularOptions(), 0)
