"""Which worker trains where the configuration names none."""

import gymnasium
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from mosaic.config.run import RunConfig
from mosaic.workers.resolution import resolve


class Small(gymnasium.Env):
    observation_space, action_space = MultiDiscrete([7, 7]), Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


class Large(Small):
    observation_space = MultiDiscrete([200, 200])


class Measured(Small):
    observation_space = Box(0.0, 1.0, (2,))


class Counted(Small):
    """Counts its steps, over all envs of the class."""

    steps = 0

    def step(self, action):
        Counted.steps += 1
        return super().step(action)


@pytest.mark.parametrize("runtime", ["single", "parallel"])
def test_submitting_steps_no_env(runtime):
    config = {
        "environment": {"env_id": f"python:{__name__}:Counted"},
        "training": {"worker": "tabular", "total_timesteps": 100},
        "resources": {"runtime": runtime},
    }
    resolve(RunConfig.model_validate(config))
    assert Counted.steps == 0


def picked(env_id, **training):
    config = RunConfig.model_validate(
        {"environment": {"env_id": env_id}, "training": {"total_timesteps": 100, **training}}
    )
    return resolve(config).config.training.worker


@pytest.mark.parametrize(("name", "worker"), [("Small", "tabular"), ("Large", "native"), ("Measured", "native")])
def test_an_own_env_with_few_states_is_given_to_a_table(name, worker):
    assert picked(f"python:{__name__}:{name}") == worker


def test_who_asks_for_what_a_table_cannot_do_gets_a_network():
    assert picked("gym/FrozenLake-v1") == "tabular"
    assert picked("gym/FrozenLake-v1", algorithm="sarsa") == "tabular"
    assert picked("gym/FrozenLake-v1", algorithm="ppo") == "native"
    assert picked("gym/FrozenLake-v1", params={"n_steps": 64}) == "native"
