"""Callbacks for users' own scripts: what they print is what the worker `script` understands."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from mosaic import MosaicCallback, MosaicRllibCallback, MosaicTuneCallback, emit_checkpoint, emit_metric
from mosaic.core.errors import InputError
from mosaic.telemetry.events.info_numbers import InfoNumbers
from mosaic.telemetry.events.lines import parse_metric
from mosaic.workers.script.callbacks.tune import result_fields
from mosaic.workers.script.checkpoints import UnusableCheckpointError, read_announcement

RESULT: dict[str, Any] = {  # of RLlib's new API stack, shortened
    "training_iteration": 3,
    "num_env_steps_sampled_lifetime": 6000.0,
    "timestamp": 1,
    "env_runners": {
        "episode_return_mean": 21.5,
        "episode_return_min": 8.0,
        "episode_return_max": np.float64(60.0),
        "episode_len_mean": 21.5,
        "num_agent_steps_sampled_lifetime": {"left": 6000.0, "right": 5000},
        "module_episode_returns_mean": {"left": 10.0, "right": float("nan")},
    },
    "learners": {"__all_modules__": {"x": 1.0}, "left": {"vf_loss": 2.0, "mean_kl_loss": 0.5, "name": "text"}},
}


class Coins(gym.Env[Any, Any]):
    """Episodes of four steps, whose `info` tells of coins."""

    observation_space, action_space = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._step = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        info = {"coins": 3 * self._step, "won": True, "name": "x", "_hidden": 1, "speed": float("nan")}
        return np.zeros(2, np.float32), 1.0, self._step == 4, False, info


@pytest.fixture
def listened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOSAIC_METRICS", "1")
    monkeypatch.setenv("MOSAIC_CHECKPOINT_DIR", str(tmp_path))
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], list[Any]]:
    lines = capsys.readouterr().out.splitlines()
    metrics = [found for line in lines if (found := parse_metric(line)) is not None]
    return metrics, [found for line in lines if (found := read_announcement(line)) is not None]


def model(**options: Any) -> Any:
    from stable_baselines3 import PPO

    return PPO("MlpPolicy", Coins(), n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=1, **options)


def test_sb3_reports_iterations_losses_numbers_and_checkpoints(
    listened: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model().learn(64, callback=MosaicCallback(every_s=0, checkpoint_every=32))

    metrics, saved = printed(capsys)
    assert [event["env_steps"] for event in metrics] == [16, 32, 48, 64]
    assert [event["training_iteration"] for event in metrics] == [1, 2, 3, 4]
    last = metrics[-1]
    assert (last["episodes_total"], last["episode_reward_mean"], last["episode_len_mean"]) == (16, 4.0, 4.0)
    policy = last["policies"]["policy"]
    assert policy["reward_mean"] == 4.0
    assert policy["custom_metrics"] == {"coins": 12.0}  # of the last step alone; no truth values, no NaN
    assert {"policy_loss", "value_loss", "entropy", "approx_kl"} <= policy["learner"].keys()
    assert policy["learner"]["entropy"] > 0
    assert [(each.env_steps, each.reward, each.policy, each.stochastic) for each in saved] == [
        (32, 4.0, "policy.zip", True),
        (64, 4.0, "policy.zip", True),
    ]
    assert (listened / "policy.zip").is_file()


def test_sb3_says_nothing_without_the_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOSAIC_METRICS", "CONTROLLER_METRICS", "MOSAIC_CHECKPOINT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    model().learn(16, callback=MosaicCallback(every_s=0, checkpoint_every=1))
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_stop_ends_sb3_with_a_report_and_a_checkpoint(listened: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Stopped(MosaicCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps == 20:
                signal.raise_signal(signal.SIGINT)
            return super()._on_step()

    before = signal.getsignal(signal.SIGINT)
    model().learn(10_000, callback=Stopped())

    metrics, saved = printed(capsys)
    assert [event["env_steps"] for event in metrics] == [20]
    assert [each.env_steps for each in saved] == [20]
    assert signal.getsignal(signal.SIGINT) is before


def test_wrong_arguments_are_refused(listened: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="every_s is at least 0"):
        MosaicCallback(every_s=-1)
    with pytest.raises(UnusableCheckpointError, match="env_steps"):
        emit_checkpoint(env_steps=-1, policy="policy.zip")
    monkeypatch.delenv("MOSAIC_CHECKPOINT_DIR")
    assert emit_checkpoint(env_steps=1, policy="policy.zip") is False


def test_results_of_rllib_become_metric_lines(listened: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MosaicRllibCallback().on_train_result(algorithm=None, result=RESULT)

    ((event,), saved) = printed(capsys)
    assert saved == []
    assert event == {
        "kind": "iteration",
        "training_iteration": 3,
        "env_steps": 6000,
        "agent_steps": 11000,
        "episode_reward_mean": 21.5,
        "episode_reward_min": 8.0,
        "episode_reward_max": 60.0,
        "episode_len_mean": 21.5,
        "policies": {"left": {"reward_mean": 10.0, "learner": {"value_loss": 2.0, "approx_kl": 0.5}}},
    }


def test_rllib_saves_what_a_script_resumes_from(listened: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Algorithm:
        def save_to_path(self, path: str) -> None:
            Path(path).mkdir()

    class Saving(MosaicRllibCallback):
        checkpoint_every = 3

    Saving().on_train_result(algorithm=Algorithm(), result=RESULT)
    Saving().on_train_result(algorithm=None, result={**RESULT, "training_iteration": 4})

    _, (saved,) = printed(capsys)
    assert (saved.env_steps, saved.reward, saved.files) == (6000, 21.5, ("rllib",))
    assert (listened / "rllib").is_dir()


def test_a_result_before_the_first_episode_has_no_reward() -> None:
    fields = result_fields({"training_iteration": 1, "env_runners": {"episode_return_mean": float("nan")}})
    assert fields == {"training_iteration": 1, "policies": {}}


def test_trials_of_tune_are_told_apart(listened: Path, capsys: pytest.CaptureFixture[str]) -> None:
    callback = MosaicTuneCallback()
    for name, steps, reward in (("a", 100, 1.0), ("b", 100, 5.0), ("a", 200, 2.0)):
        told = {"timesteps_total": steps, "episode_reward_mean": reward, "gap": 0.5, "trial_id": name, "config": {}}
        callback.on_trial_result(1, [], name, told)

    metrics, _ = printed(capsys)
    assert [event["env_steps"] for event in metrics] == [100, 200, 300]
    assert [event["episode_reward_mean"] for event in metrics] == [1.0, 5.0, 5.0]
    assert metrics[-1]["policies"] == {"a": {"reward_mean": 2.0, "custom_metrics": {"gap": 0.5}}}
    assert metrics[-1]["custom_metrics"] == {"trials": 2}


def test_more_trials_than_can_be_shown_are_told(listened: Path, capsys: pytest.CaptureFixture[str]) -> None:
    callback = MosaicTuneCallback()
    for number in range(53):
        callback.on_trial_result(1, [], f"trial{number}", {"episode_reward_mean": 1.0})

    metrics, _ = printed(capsys)
    assert [event["message"] for event in metrics if event["kind"] == "alert"] == [
        "Curves of the first 50 trials are kept; 'trial50' is a further one."
    ]


def test_the_line_of_the_published_scripts_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    line = (
        '@METRIC {"timestamp": "2025-11-03T14:05:09.123456", "training_iteration": 7, "timesteps_total": 28000, '
        '"episodes_total": 410, "episode_reward_mean": 61.5, "episode_reward_min": 9.0, "episode_reward_max": 200.0, '
        '"episode_len_mean": 61.5, "policies": {"shared_policy": {"reward_mean": 61.5, "learner": {"vf_loss": 3.5}}}, '
        '"custom_metrics": {"goals": 2}}'
    )
    event = parse_metric(line)
    assert event is not None
    assert isinstance(event["timestamp"], float)
    assert (event["env_steps"], event["episodes_total"]) == (28000, 410)
    assert event["custom_metrics"] == {"goals": 2}
    zoned = parse_metric(json.dumps({"timestamp": "2025-11-03T14:05:09+00:00"}).join(("@METRIC ", "")))
    assert zoned is not None
    assert zoned["timestamp"] == 1762178709.0
    monkeypatch.setenv("CONTROLLER_METRICS", "1")
    assert emit_metric(timestamp="2025-11-03T14:05:09", env_steps=1)


def test_numbers_of_an_env_are_bounded_and_the_excess_is_told_once() -> None:
    numbers = InfoNumbers(most=2)
    numbers.add(
        {"a": 1, "b": np.float32(2.5), "custom_metrics": {"c": 3}, "episode": {"r": 1}, "TimeLimit.truncated": 1}
    )
    numbers.add({"a": 3, "flag": False, "text": "x", "array": np.zeros(2), "_x": 1.0, "bad": float("inf")})
    means, alert = numbers.take()
    assert means == {"a": 2.0, "b": 2.5}
    assert alert is not None
    assert "more than 2 numbers" in alert
    assert "'c'" in alert
    numbers.add({"z": 1})
    assert numbers.take() == ({}, None)
