"""Numbers in infos as custom metrics of policies, in every worker that steps envs."""

from contextlib import closing
from functools import partial

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.vector.in_process import PythonVector
from mosaic.envs.vector.layout import EndedInfo
from mosaic.envs.vector.multi_process import ProcessVector
from mosaic.learners.rollout.base import EpisodeInfos
from mosaic.telemetry.events.info_numbers import MOST, PolicyNumbers, numbers_in
from tests.in_process import trained_here
from tests.workers.hosting import run_config
from tests.workers.info_envs import info_at

ENVS = "python:tests.workers.info_envs:"
PPO = {"hidden": [8], "n_steps": 16, "n_epochs": 1, "batch_size": 16}
TWO = {"left": "one", "right": "two"}


def reports(home, worker, env, params, algorithm="ppo", **settings):
    config = run_config(
        worker,
        params,
        environment={"env_id": f"{ENVS}{env}", "num_envs": 1 if worker == "tabular" else 2},
        training={"total_timesteps": 64, "algorithm": algorithm, "preset": False},
        evaluation={"episodes": 1},
        **settings,
    )
    run = trained_here(home, config)
    assert run.state == "finished", run.log()
    return list(run.events())


def metrics_of(events, policy=None):
    """Return the last custom metrics of a policy; without a name, of the only one."""
    policies = [event["policies"] for event in events if event["kind"] == "iteration" and "policies" in event]
    found = [each[policy or next(iter(each))].get("custom_metrics") for each in policies]
    return next(each for each in reversed(found) if each)


def test_real_finite_numbers_of_an_info_count_under_their_names():
    assert numbers_in(info_at(3, 4)) == {"coins": 4.0, "gems": 5.0}
    assert (
        numbers_in({"episode": {"r": 1}, "huge": 10**400, "terminal_observation": 2.0, "array": np.zeros(2), 3: 4})
        == {}
    )


def test_further_names_are_left_out_for_each_policy_and_told_once():
    numbers = PolicyNumbers()
    for policy in ("a", "b"):
        numbers.add(policy, {f"n{each}": each for each in range(MOST + 1)})
    found, alert = numbers.take()
    assert [len(found[policy]["custom_metrics"]) for policy in ("a", "b")] == [MOST, MOST]
    assert alert is not None
    assert f"'n{MOST}'" in alert
    numbers.add("c", {f"n{each}": each for each in range(MOST + 1)})
    assert numbers.take()[1] is None
    assert numbers.take() == ({}, None)


@pytest.mark.parametrize(("env", "processes"), [("Coins", 1), ("Pair", 1), ("Pair", 2)])
def test_a_vector_env_tells_the_numbers_of_agents_that_ended(env, processes):
    make = partial(make_env, EnvironmentConfig(env_id=f"{ENVS}{env}"))
    vector = PythonVector([make(), make()]) if processes == 1 else ProcessVector(make, 2, processes)
    steps = {
        "Coins": [[], [], [(0, 4.0), (1, 4.0)], []],
        "Pair": [[], [(0, 10.0), (2, 10.0)], [(1, 20.0), (3, 20.0)], []],
    }[env]
    with closing(vector):
        vector.reset(1)
        for ended in steps:
            vector.step(np.zeros((vector.shape.slots, vector.shape.parts), np.float32))
            assert vector.ended_infos == [EndedInfo(row, {"coins": coins, "gems": coins + 1.0}) for row, coins in ended]


def test_numbers_belong_to_the_policy_that_played_and_opponents_do_not_count():
    vector = PythonVector([make_env(EnvironmentConfig(env_id=f"{ENVS}Pair"))])
    infos = EpisodeInfos(vector, learners=1)
    vector.ended_infos += [EndedInfo(0, {"x": 1.0}), EndedInfo(1, {"x": 2.0})]
    infos.add(np.array([[1, 0]]))
    assert infos.take() == [(0, {"x": 2.0})]
    assert infos.take() == []
    vector.close()


def test_native_ppo_reports_them_for_each_policy(tmp_path):
    events = reports(tmp_path, "native", "Pair", PPO, agents=TWO)
    assert metrics_of(events, "one") == {"coins": 10.0, "gems": 11.0}
    assert metrics_of(events, "two") == {"coins": 20.0, "gems": 21.0}


def test_native_dqn_reports_them(tmp_path):
    params = {"hidden": [8], "learning_starts": 16, "batch_size": 8, "buffer_size": 100}
    assert metrics_of(reports(tmp_path, "native", "Coins", params, "dqn")) == {"coins": 4.0, "gems": 5.0}


def test_a_native_run_alerts_to_more_names_than_are_reported(tmp_path):
    events = reports(tmp_path, "native", "ManyCoins", PPO)
    assert len(metrics_of(events)) == MOST
    assert len([event for event in events if event["kind"] == "alert" and "more than 50" in event["message"]]) == 1


TABLE = {"report_every_steps": 12, "bins": 2}


def test_tables_report_them_for_each_policy(tmp_path):
    assert metrics_of(reports(tmp_path, "tabular", "Coins", TABLE, "q_learning")) == {"coins": 4.0, "gems": 5.0}
    events = reports(tmp_path, "tabular", "Pair", TABLE, "q_learning", agents=TWO)
    assert metrics_of(events, "one") == {"coins": 10.0, "gems": 11.0}  # it ends before the other
    assert metrics_of(events, "two") == {"coins": 20.0, "gems": 21.0}


def test_a_table_alerts_to_more_names_than_are_reported(tmp_path):
    events = reports(tmp_path, "tabular", "ManyCoins", TABLE, "q_learning")
    assert len(metrics_of(events)) == MOST
    assert len([event for event in events if event["kind"] == "alert" and "more than 50" in event["message"]]) == 1


@pytest.mark.parametrize(
    ("env", "expected"), [("Coins", {"coins": 4.0, "gems": 5.0}), ("Pair", {"coins": 15.0, "gems": 16.0})]
)
def test_sb3_reports_them(tmp_path, env, expected):
    """Both vector envs: SB3's own, and that of several agents."""
    params = {"n_steps": 12, "n_epochs": 1, "batch_size": 12}
    assert metrics_of(reports(tmp_path, "sb3", env, params)) == expected


def test_an_sb3_run_alerts_to_more_names_than_are_reported(tmp_path):
    events = reports(tmp_path, "sb3", "ManyCoins", {"n_steps": 12, "n_epochs": 1, "batch_size": 12})
    assert len(metrics_of(events)) == MOST
    assert len([event for event in events if event["kind"] == "alert" and "more than 50" in event["message"]]) == 1
