"""Numbers in infos, told by real runners of RLlib, in this process, without Ray."""

import importlib
import warnings
from functools import partial

import pytest

from mosaic.runs.trainer import Trainer
from mosaic.workers.rllib.reporting.episodes import records_of
from mosaic.workers.rllib.reporting.metrics import Interval, RllibProgress, fields
from tests.workers.hosting import Hosted, run_config

ENVS = "python:tests.workers.info_envs:"
FRAGMENT = 2  # shorter than an episode, so that RLlib cuts it
PAIR = {"left": "one", "right": "two"}
LEFT, RIGHT = {"coins": 10.0, "gems": 11.0}, {"coins": 20.0, "gems": 21.0}

pytestmark = pytest.mark.filterwarnings("ignore:.*Overriding environment")


@pytest.fixture(scope="module", autouse=True)
def _rllib():
    with warnings.catch_warnings():  # RLlib's own, at its import
        warnings.simplefilter("ignore")
        importlib.import_module("ray.rllib.algorithms.ppo")


def records(folder, env, policies, **settings):
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from mosaic.workers.rllib.env.env import make_rllib_env
    from mosaic.workers.rllib.reporting.callbacks import MosaicCallback, callback_facts

    several = len(policies) > 1
    env_config = {"environment": {"env_id": f"{ENVS}{env}"}, "learners": list(policies), **settings}
    config = (
        PPOConfig()
        .environment("infos", env_config=env_config)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=1, rollout_fragment_length=FRAGMENT)
        .callbacks(partial(MosaicCallback, facts=callback_facts(folder, policies, frames=False)))
        .debugging(seed=3)
    )
    from ray.tune.registry import register_env

    register_env("infos", make_rllib_env)
    if several:
        config.multi_agent(policies=set(policies.values()), policy_mapping_fn=lambda agent, *_, **__: policies[agent])
    made = (MultiAgentEnvRunner if several else SingleAgentEnvRunner)(config=config)
    for _ in range(4):
        made.sample()
    told = {key: value.peek() for key, value in made.get_metrics().items() if key.startswith("mosaic")}
    made.stop()
    return records_of({"env_runners": told})


@pytest.mark.parametrize(
    ("env", "policies", "settings", "expected"),
    [
        ("Coins", {"agent_0": "main"}, {}, {"agent_0": {"coins": 4.0, "gems": 5.0}}),  # the env as it is
        ("Pair", {"right": "two"}, {"played": {"left": "random"}}, {"right": RIGHT}),
        ("Pair", PAIR, {}, {"left": LEFT, "right": RIGHT}),
    ],
)
def test_a_runner_tells_the_numbers_of_last_steps(tmp_path, env, policies, settings, expected):
    found = records(tmp_path, env, policies, **settings)
    assert len(found) >= 2
    assert [record["numbers"] for record in found] == [expected] * len(found)


def test_numbers_stand_with_their_policy():
    numbers = {"one": {"custom_metrics": LEFT}, "frozen": {"custom_metrics": RIGHT}}
    policies = fields(Interval(), RllibProgress(), {"one": "one", "two": "two"}, numbers=numbers)["policies"]
    assert policies == {"one": {"learner": {}, "custom_metrics": LEFT}, "two": {"learner": {}}}


@pytest.mark.slow
def test_a_run_reports_them_for_each_policy(tmp_path):
    config = run_config(
        "rllib",
        {"train_batch_size_per_learner": 60, "minibatch_size": 30, "num_epochs": 1},
        environment={"env_id": f"{ENVS}Pair"},
        agents=PAIR,
        training={"total_timesteps": 120, "algorithm": "ppo", "preset": False},
        evaluation={"episodes": 1},
    )
    with Hosted(Trainer(tmp_path).submit(config, start=False).folder) as host:  # Ray may be running in this process
        host.hear("finished")
    last = host.events("iteration")[-1]["policies"]
    assert (last["one"]["custom_metrics"], last["two"]["custom_metrics"]) == (LEFT, RIGHT)
