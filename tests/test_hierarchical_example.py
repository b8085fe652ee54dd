"""The example of hierarchical control: a manager and workers of one env, with a policy for each level."""

import numpy as np
import pytest
from examples.hierarchical import MANAGER, Treasure

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.contract.check import check_env
from mosaic.runs.trainer import Trainer
from mosaic.store.state import State
from tests.workers.hosting import run_config
from tests.workers.watching import EagerContext, train_here

ENV = "python:examples.hierarchical:Treasure"
AGENTS = {MANAGER: "manager", "worker_*": "walkers"}
SMALL = {"hidden": [8], "n_steps": 64, "n_epochs": 1, "batch_size": 64}


def returns_of(env, manager, worker):
    """Returns of an episode in which policies see what their level sees."""
    env.reset(seed=3)
    total = dict.fromkeys(env.possible_agents, 0.0)
    order = []
    for agent in env.agent_iter():
        seen, reward, over, _, _ = env.last()
        total[agent] += reward
        order.append(agent)
        env.step(None if over else (manager if agent == MANAGER else worker)(seen))
    return total, order


def test_a_perfect_pair_of_policies_gets_all_there_is():
    env = Treasure()
    total, order = returns_of(env, np.argmax, lambda seen: 1 + int(np.sign(seen[1] - seen[0])))
    assert total == pytest.approx({MANAGER: 4.0, "worker_0": 2.4, "worker_1": 2.4})
    assert order[:4] == [MANAGER, "worker_0", "worker_1", "worker_0"]
    assert order.count(MANAGER) == 4 + 1  # a decision per period, and the end


def test_workers_that_ignore_the_goal_cost_the_manager_its_reward():
    total, _ = returns_of(Treasure(), np.argmax, lambda seen: 0)  # always to the left
    assert total[MANAGER] < 4.0
    assert total["worker_0"] < 2.4


def test_it_keeps_the_contract_of_envs():
    check_env(lambda: make_env(EnvironmentConfig(env_id=ENV)))


def test_two_policies_are_trained_with_native(tmp_path):
    config = run_config(
        "native",
        SMALL,
        environment={"env_id": ENV, "num_envs": 4},
        agents=AGENTS,
        training={"total_timesteps": 1024, "algorithm": "ppo", "preset": False},
        evaluation={"episodes": 1},
    )
    context = train_here(tmp_path, config, EagerContext)
    assert {each.name for each in context.folder.checkpoints.iterdir()} >= {"1024"}
    assert {facts["agent"].split("=")[0] for _, facts in context.shown} == {MANAGER}  # the first agent of the picture


GATE = {"manager": 3.2, "walkers": 1.9}  # of 4 and 2.4; policies that draw actions at random get 0.6 and -0.8


def learned(run):
    assert run.wait() is State.FINISHED, run.log()
    policies = [event["policies"] for event in run.events() if event["kind"] == "iteration" and "policies" in event][-1]
    return {name: policies[name]["reward_mean"] for name in GATE}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("worker", "steps", "params"),
    [
        ("native", 200_000, {}),
        ("rllib", 150_000, {"num_env_runners": 1, "num_envs_per_env_runner": 8, "fcnet_hiddens": [64, 64], "lr": 1e-3}),
    ],
)
@pytest.mark.timeout(1200)
def test_both_levels_learn(tmp_path, worker, steps, params):
    run = Trainer(tmp_path).submit(
        {
            "environment": {"env_id": ENV},
            "agents": AGENTS,
            "training": {"worker": worker, "algorithm": "ppo", "total_timesteps": steps, "params": params},
        }
    )
    found = learned(run)
    assert all(found[name] >= least for name, least in GATE.items()), found
