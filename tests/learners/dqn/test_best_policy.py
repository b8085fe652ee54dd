"""The best policy of a DQN run: found by tests of greedy play, saved, and kept when the run is resumed."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.learners.base import Counters
from mosaic.learners.dqn.best_policy import BestPolicy, mean_greedy_return
from mosaic.learners.dqn.build import assemble_dqn
from mosaic.learners.dqn.options import DqnOptions
from mosaic.workers.native.worker import NativeDqnOptions
from mosaic.workers.resolution import resolve

CARTPOLE = "gym/CartPole-v1"
SMALL = {
    "learning_rate": 1e-3, "buffer_size": 2000, "learning_starts": 100, "train_freq": 4, "gradient_steps": 2,
    "hidden": (16, 16), "target_update_interval": 40, "exploration_fraction": 0.5,
}  # fmt: skip


class Rule:
    """Plays CartPole by a rule: towards the side to which the pole leans and falls, or always to the left."""

    def __init__(self, number: int, *, balances: bool) -> None:
        self._number, self._balances = number, balances

    def decide(self, env, epsilon, act):
        assert epsilon == 0
        act[:, 0] = (env.obs[:, 2] + env.obs[:, 3] > 0) if self._balances else 0

    def weights(self):
        return np.array([self._number], np.float32)


def cartpoles(envs):
    return make_compiled_vector(EnvironmentConfig(env_id=CARTPOLE), envs)


def config(env=CARTPOLE, total=2000, **more):
    training = {"worker": "native", "algorithm": "dqn", "total_timesteps": total, "preset": False, **more}
    return RunConfig.model_validate({"environment": {"env_id": env}, "training": training})


def test_the_best_is_kept_and_of_equals_the_newest():
    with closing(BestPolicy(cartpoles(4), 100, 10, seed=0)) as best:
        for number, balances in enumerate((False, True, False, False)):
            best.test(Rule(number, balances=balances), 100 * number, lambda: False)
        assert (best.weights, best.env_steps) == ([1], 100)
        assert 100 < best.score <= 500
        best.score = 0.0
        for number in (4, 5):
            best.score = best.test(Rule(number, balances=False), 400, lambda: False)
        assert best.weights == [5]


def test_a_test_is_the_mean_of_so_many_first_episodes():
    """An env ends its episodes at different times, and those that follow in the same env do not count."""
    with closing(cartpoles(3)) as few, closing(cartpoles(7)) as many:
        assert mean_greedy_return(Rule(0, balances=False), few, 7, seed=1) == pytest.approx(9.4, abs=1)
        assert mean_greedy_return(Rule(0, balances=False), many, 7, seed=1) == pytest.approx(9.4, abs=1)
        assert mean_greedy_return(Rule(0, balances=True), many, 7, 1, lambda: True) is None


def test_tests_are_due_at_multiples_and_at_the_end():
    with closing(BestPolicy(cartpoles(1), 100, 1, seed=0)) as best:
        due = [now for now in range(30, 460, 30) if best.is_due(now - 30, now, 440)]
    assert due == [120, 210, 300, 420, 450]


def test_a_run_saves_its_best_net_and_continues_from_its_newest():
    options = DqnOptions(**SMALL, test_every_steps=500, test_episodes=5)
    with closing(assemble_dqn(config(), options).learner) as learner:
        scores = []
        while learner.env_steps < 2000:
            learner.iterate()
            scores.append(learner.progress().losses[0].get("test_return"))
        tested = [score for score in scores if score is not None]
        assert learner.progress().losses[0]["best_test_return"] == max(tested)
        state, weights = learner.training_state(), learner.weights(0)
        newest = learner.engine.weights()
    assert not np.array_equal(weights, newest) or tested[-1] == max(tested)
    with closing(assemble_dqn(config(), options).learner) as resumed:
        resumed.before = Counters(2000, 2000, 0)
        resumed.load_training_state([weights], state)
        np.testing.assert_array_equal(resumed.weights(0), weights)
        np.testing.assert_array_equal(resumed.engine.weights(), newest)
    with closing(assemble_dqn(config(), options).learner) as staged:  # the next stage of a curriculum
        staged.load_training_state([weights], {k: v for k, v in state.items() if not k.startswith("lane.")})
        np.testing.assert_array_equal(staged.weights(0), newest)


def test_tests_do_not_change_what_is_learned():
    def newest(every):
        options = DqnOptions(**SMALL, test_every_steps=every, test_episodes=3)
        with closing(assemble_dqn(config(), options).learner) as learner:
            while learner.env_steps < 2000:
                learner.iterate()
            return learner.engine.weights()

    np.testing.assert_array_equal(newest(0), newest(300))


@pytest.mark.parametrize(
    ("env", "total", "every"), [(CARTPOLE, 50_000, 2500), ("mosaic/tictactoe", 50_000, 0), (CARTPOLE, 5, 1)]
)
def test_a_run_is_tested_twenty_times_where_that_costs_little(env, total, every):
    document = config(env, total).model_dump()
    document["policy_configuration"] = "parameter_sharing"
    assert resolve(RunConfig.model_validate(document)).config.training.params["test_every_steps"] == every


def test_where_a_return_says_nothing_tests_are_refused():
    document = config("mosaic/tictactoe", params={"test_every_steps": 100}).model_dump()
    document["policy_configuration"] = "parameter_sharing"
    with pytest.raises(InputError, match=r"test_every_steps=100: what one of .* wins, another loses.* Set it to 0"):
        resolve(RunConfig.model_validate(document))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_run_of_cartpole_ends_with_a_policy_that_balances(seed):
    training = {"worker": "native", "algorithm": "dqn"}
    document = {"environment": {"env_id": CARTPOLE}, "training": training, "seed": seed}
    resolved = resolve(RunConfig.model_validate(document)).config  # with the preset
    options = NativeDqnOptions.model_validate(resolved.training.params)
    with closing(assemble_dqn(resolved, options).learner) as learner, closing(cartpoles(50)) as fresh:
        while learner.env_steps < resolved.training.total_timesteps:
            learner.iterate()
        learner.engine.load(learner.weights(0), learner.weights(0))
        assert mean_greedy_return(learner.engine, fresh, 100, seed=12345) >= 475
