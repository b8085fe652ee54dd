"""From a result of RLlib to a metric event."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from mosaic.workers.rllib.reporting.metrics import (
    NO_EPISODE,
    Interval,
    RllibProgress,
    fields,
    learner_statistics,
    split,
)

RESULT = {
    "timers": {"learner_update_timer": 2.0},
    "num_training_step_calls_per_iteration": 3,
    "env_runners": {
        "num_env_steps_sampled": np.int64(400),
        "num_agent_steps_sampled": {"a": np.int64(400), "b": 300},
        "env_step_timer": np.float64(0.001),
        "rlmodule_inference_timer": 0.002,
        "env_to_module_connector": {"connector_pipeline_timer": 0.003},
        "module_to_env_connector": {"connector_pipeline_timer": 0.005},
    },
    "learners": {
        "red": {"policy_loss": np.float64(0.5), "num_trainable_parameters": math.nan, "throughput": {"x": 1.0}},
        "__all_modules__": {"num_env_steps_trained": 5},
    },
    "fault_tolerance": {"num_healthy_workers": 2, "num_remote_worker_restarts": 0},
}
MODULES = {"red": "red", "blue": "blue"}


def _episode(length, **returns):
    policies = {"a": "red", "b": "blue"}
    return {"length": length, "returns": returns, "played": {}, "policies": {k: policies[k] for k in returns}}


def _fields(progress, *results, ended=()):
    interval = Interval()
    for result in results or (RESULT,):
        interval.add(result, ended, 4)
    return fields(interval, progress, MODULES)


def test_counters_add_up():
    progress = RllibProgress(iteration=5, env_steps=1000, agent_steps=1500, episodes=7)
    progress.add(RESULT, [_episode(10, a=1.0, b=3.0)])
    counted = (progress.iteration, progress.env_steps, progress.agent_steps, progress.episodes)
    assert counted == (6, 1400, 2200, 8)
    assert RllibProgress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


def test_before_the_first_episode_a_reward_is_left_out_and_the_event_says_why():
    progress = RllibProgress()
    progress.add(RESULT, [])
    found = _fields(progress)
    assert found["note"] == NO_EPISODE
    assert not {"episode_reward_mean", "episode_len_mean"} & set(found)
    assert "reward_mean" not in found["policies"]["red"]
    assert progress.reward(MODULES) is None


def test_returns_are_told_per_policy_and_per_agent():
    progress = RllibProgress()
    progress.add(RESULT, [_episode(10, a=1.0, b=3.0), _episode(20, a=2.0, b=5.0)])
    found = _fields(progress)
    assert found["policies"]["red"]["reward_mean"] == 1.5
    assert found["policies"]["blue"]["reward_mean"] == 4.0
    assert found["custom_metrics"]["agents/b/reward_mean"] == 4.0
    assert (found["episode_reward_mean"], found["episode_reward_min"], found["episode_reward_max"]) == (2.75, 1.0, 5.0)
    assert found["episode_len_mean"] == 15
    assert progress.reward(MODULES) == 2.75
    assert "note" not in found


def test_what_frozen_snapshots_earn_is_not_the_learners_reward():
    episode = {"length": 3, "returns": {"a": 1.0, "b": -1.0}, "played": {}, "policies": {"a": "red", "b": "red@100"}}
    progress = RllibProgress()
    progress.add(RESULT, [episode])
    assert progress.reward({"red": "red"}) == 1.0


def test_only_the_last_hundred_episodes_count():
    progress = RllibProgress()
    progress.add(RESULT, [_episode(1, a=0.0)] * 50 + [_episode(1, a=1.0)] * 100)
    assert progress.reward(MODULES) == 1.0
    assert progress.episodes == 150


def test_an_event_never_holds_nan():
    progress = RllibProgress()
    progress.add({"env_runners": {"num_env_steps_sampled": math.nan}}, [])
    found = _fields(progress, {"env_runners": {"env_step_timer": math.nan}, "learners": {"red": {"loss": math.inf}}})
    json.dumps(found, allow_nan=False)
    assert found["policies"]["red"]["learner"] == {}
    assert found["env_steps"] == 0


def test_an_event_tells_of_every_iteration_since_the_last_one():
    results = [
        {
            **RESULT,
            "learners": {"red": {"policy_loss": loss, "num_module_steps_trained": 100, "num_steps_lifetime": total}},
        }
        for loss, total in ((1.0, 100), (2.0, 200), (6.0, 300))
    ]
    del results[1]["learners"]["red"]["policy_loss"]  # an iteration without an update
    progress = RllibProgress()
    episodes = [_episode(10, a=float(k), b=0.0) for k in range(60)]
    for result in results:
        progress.add(result, episodes)
    found = _fields(progress, *results, ended=episodes)
    statistics = {"policy_loss": 3.5, "num_module_steps_trained": 300, "num_steps_lifetime": 300}
    assert found["policies"]["red"]["learner"] == statistics
    assert found["time_split"] == pytest.approx({"env": 0.3, "inference": 3.0, "learning": 18.0})
    assert found["custom_metrics"]["interval/episodes"] == 180  # more than the hundred of episode_reward_mean
    assert found["custom_metrics"]["interval/reward_mean"] == pytest.approx(59 / 4)


def test_learner_statistics_are_all_finite_numbers():
    assert learner_statistics(RESULT["learners"]["red"]) == {"policy_loss": 0.5}
    assert learner_statistics({"mean_kl_loss": 0.01, "vf_loss": 2.0}) == {"approx_kl": 0.01, "value_loss": 2.0}


def test_time_is_split_into_envs_inference_and_learning():
    found = split(RESULT, envs_per_runner=4)
    assert found == pytest.approx({"env": 0.1, "inference": 1.0, "learning": 6.0})
    runners = RESULT["env_runners"] | {"num_env_steps_sampled": 500, "mosaic_others_steps": 100.0}
    assert split({**RESULT, "env_runners": runners}, envs_per_runner=4) == found  # those belong to the other 400


def test_a_learner_thread_is_measured_by_its_updates():
    learners = {
        "red": {"module_train_batch_size_mean": 500.0},
        "__all_modules__": {"learner_thread_update_timer": 0.5, "num_module_steps_trained": 2000},
    }
    assert split({"learners": learners}, 1)["learning"] == 2.0
    assert split({}, 1) == {}
