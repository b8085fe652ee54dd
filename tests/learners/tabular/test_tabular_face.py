"""TabularLearner as people use it: made for an env, set by keywords, trained in objects, played as a policy."""

import gymnasium
import numpy as np
import pytest

import mosaic
from mosaic import TabularLearner
from mosaic.core.errors import InputError
from mosaic.learners.tabular.options import TabularOptions


class Corridor(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        self.at = max(0, self.at + (1 if action else -1))
        return self.at, float(self.at == 4), self.at == 4, False, {}


@pytest.mark.parametrize(
    "env", ["FrozenLake-v1", "gym/FrozenLake-v1", gymnasium.make("FrozenLake-v1"), Corridor, Corridor()]
)
def test_a_table_is_made_for_an_env_and_trained_in_it(env):
    learner = TabularLearner.for_env(env, epsilon=0.5, seed=3)
    sizes = (5, 2) if "Corridor" in str(env) else (16, 4)
    assert (learner.states, learner.actions, learner.options.epsilon, learner.seed) == (*sizes, 0.5, 3)
    assert learner.train(env, episodes=5).total_episodes == 5
    assert learner.train(env, episodes=5).total_episodes == 5  # the caller's object is still open


def test_keyword_options_are_checked():
    assert TabularLearner(3, 2, learning_rate=0.7).options == TabularOptions(learning_rate=0.7)
    with pytest.raises(InputError, match=r"there is no option 'learning_rat'\. Did you mean 'learning_rate'"):
        TabularLearner(3, 2, learning_rat=0.7)
    with pytest.raises(InputError, match="learning_rate: "):
        TabularLearner(3, 2, learning_rate=7)
    with pytest.raises(InputError, match="Give options or epsilon, not both"):
        TabularLearner(3, 2, options=TabularOptions(), epsilon=0.1)
    with pytest.raises(InputError, match=r"has 2 agents; TabularLearner\.for_env is for envs of one"):
        TabularLearner.for_env("classic/tictactoe_v3")


def test_statistics_keep_every_episode_and_own_metrics():
    learner = TabularLearner.for_env(Corridor, epsilon=0.5)
    found = learner.train(Corridor, episodes=30)
    assert list(found.episode_rewards) == [1.0] * 30
    assert len(found.episode_lengths) == 30
    assert sum(found.episode_lengths) == found.total_steps
    assert np.mean(found.episode_lengths) == pytest.approx(found.mean_episode_length)
    found.add_metric("crashes", 2)
    found.add_metric("crashes", 4)
    assert (found.custom_metrics, found.summary()["crashes"]) == ({"crashes": [2.0, 4.0]}, 3.0)


@pytest.mark.parametrize("engine", ["fused", "numpy", "list"])
@pytest.mark.parametrize("algorithm", ["q_learning", "double_q_learning", "sarsa"])
def test_values_are_written_as_a_whole_or_not_at_all(engine, algorithm):
    learner = TabularLearner(4, 2, algorithm, table_engine=engine, seed=1)
    learner.update(0, 1, 1.0, 1, False)
    learner.epsilon = 0.25
    with pytest.raises(ValueError, match="read-only"):
        learner.values[0, 0] = 5.0
    wanted = np.arange(8, dtype=np.float32).reshape(4, 2)[:, ::-1]
    learner.values = wanted
    assert np.array_equal(learner.values, wanted)
    assert [learner.greedy(state) for state in range(4)] == [0] * 4
    assert (learner.epsilon, int(learner.visits.sum())) == (0.25, 1)
    learner.update(1, 0, 9.0, 1, True)
    assert learner.values[1, 0] > wanted[1, 0]
    assert wanted[1, 0] == 3.0  # the caller's array is not the table's
    for bad, text in ((np.zeros((2, 4)), "the shape"), (np.full((4, 2), np.nan), "finite")):
        with pytest.raises(InputError, match=text):
            learner.values = bad


def test_a_learner_and_its_saved_table_are_policies(tmp_path):
    learner = TabularLearner.for_env(Corridor, epsilon=0.3, learning_rate=0.5)
    learner.train(Corridor, episodes=200)
    found = mosaic.evaluate(Corridor, {"*": learner}, episodes=3).to_json()
    assert found["agents"]["agent_0"]["policy"] == "TabularLearner"
    assert (found["length_mean"], found["reproducible"]) == (4.0, True)
    path = tmp_path / "corridor.safetensors"
    learner.save(path)
    for policy in (path, str(path), f"{path},epsilon=0.0"):
        assert mosaic.evaluate(Corridor(), {"agent_0": policy}, episodes=2).to_json()["length_mean"] == 4.0
    assert mosaic.evaluate(Corridor, {"*": f"{path},temperature=1e6"}, episodes=5).to_json()["length_mean"] > 4.0
    with mosaic.load_policy(str(path), Corridor) as policy:
        assert policy.predict(2) == 1
    with pytest.raises(InputError, match=r"has 5 states and 2 actions; agent_0 of gym/FrozenLake-v1 has 16 and 4"):
        mosaic.evaluate("FrozenLake-v1", {"*": path})
    with pytest.raises(InputError, match=r"There is no file .*none\.safetensors"):
        mosaic.evaluate(Corridor, {"*": tmp_path / "none.safetensors"})
    with pytest.raises(InputError, match=r"a list is not a policy\. Give a reference"):
        mosaic.evaluate(Corridor, {"*": [1, 2]})


def test_objects_are_evaluated_in_several_processes():
    learner = TabularLearner.for_env(Corridor)
    learner.values = np.tile([0.0, 1.0], (5, 1))
    found = mosaic.evaluate(Corridor, {"*": learner}, episodes=4, num_workers=2).to_json()
    assert found["length_mean"] == 4.0
