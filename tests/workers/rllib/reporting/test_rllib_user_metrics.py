"""Metrics of a user's RLlib callbacks reach the events of the run, and RLlib's own are not taken for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ray.rllib.callbacks.callbacks import RLlibCallback

from mosaic.workers.rllib.reporting.user_metrics import user_metrics
from tests.workers.rllib.test_rllib_loop import Life

HERE = f"python:{__name__}:"


class Logging(RLlibCallback):
    """Log in an env runner, nested and not, and in the main process, where a result may also be written into."""

    def on_episode_end(self, *, episode: Any, metrics_logger: Any = None, **also: Any) -> None:
        metrics_logger.log_value("last_length", float(len(episode)), reduce="max")
        metrics_logger.log_value(("mine", "episodes"), 1, reduce="lifetime_sum")
        metrics_logger.log_value("words", "not a number", reduce="item_series")

    def on_train_result(self, *, algorithm: Any, metrics_logger: Any = None, result: Any, **also: Any) -> None:
        metrics_logger.log_value("logged_at_the_end", 5.0)
        result["written_into_it"] = 7


def test_what_is_not_rllibs_is_the_users():
    runners = {
        "num_env_steps_sampled": 400,
        "num_env_steps_sampled_lifetime_throughput": 9.0,
        "agent_episode_return_mean": {"a": 1.0},
        "mosaic_episodes": [1, 2],
        "goals": np.float32(2.5),
        "unknown_yet": math.nan,
        "deep": {"er": {"still": 3}},
        "list": [1, 2],
    }
    result = {"env_runners": runners, "time_total_s": 4.0, "timers": {"sample": 1.0}, "goals": 1.0, "own": np.int64(6)}
    assert user_metrics(result) == {"goals": 2.5, "deep/er/still": 3.0, "own": 6.0}
    assert user_metrics({}) == {}


@pytest.mark.usefixtures("ray")
def test_they_are_in_the_events(tmp_path):
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", steps=300, params={"callbacks": [HERE + "Logging"]})
    life.run()
    events = life.events("iteration")
    own = {"last_length", "mine/episodes", "logged_at_the_end", "written_into_it"}
    metrics = events[-1]["custom_metrics"]
    assert {name for name in metrics if not name.startswith("interval/")} == own
    assert metrics["mine/episodes"] == events[-1]["episodes_total"]
    assert metrics["last_length"] >= 8
    assert (metrics["logged_at_the_end"], metrics["written_into_it"]) == (5.0, 7.0)
