"""Algorithms that learn from a Minari dataset: what is refused, what they learn from, and that they learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from mosaic.config.loading import parse_run_config
from mosaic.core.errors import InputError
from mosaic.evaluation.evaluate import evaluate
from mosaic.policies.controller import PolicyRequest
from mosaic.workers.registry import load_worker, parse_params
from mosaic.workers.resolution import resolve
from mosaic.workers.rllib.checkpoint.controllers import load_policy
from mosaic.workers.rllib.checkpoint.export import export_policies
from mosaic.workers.rllib.config.build import configure
from mosaic.workers.rllib.config.offline_options import steps_of_dataset
from mosaic.workers.rllib.learner.offline_data import read_episodes
from tests.workers.rllib.rllib_setups import make_setup

minari = pytest.importorskip("minari", reason="the extra 'offline' is not installed")

CARTPOLE, PENDULUM = "gym/CartPole-v1", "gym/Pendulum-v1"
POLE, SWING = "minari:cartpole/expert-v0", "minari:pendulum/mixed-v0"


def balance(seen: Any) -> int:
    """Balance the pole for 500 steps."""
    return int(seen[2] + 0.3 * seen[3] + 0.02 * seen[0] + 0.05 * seen[1] > 0)


def swing(seen: Any) -> Any:
    cos, sin, speed = seen
    return np.array([np.clip(-(10 * sin + 2 * speed) if cos > 0.5 else np.sign(speed) * 2, -2, 2)], np.float32)


def record(name: str, env_id: str, act: Callable[[Any], Any], episodes: int) -> None:
    """Minari's own collector needs jax."""
    env, buffers = gymnasium.make(env_id), []
    for seed in range(episodes):
        seen, _ = env.reset(seed=seed)
        kept: dict[str, list[Any]] = {"observations": [seen]}
        for column in ("actions", "rewards", "terminations", "truncations"):
            kept[column] = []
        over = False
        while not over:
            action = act(seen)
            seen, reward, terminated, truncated, _ = env.step(action)
            for column, value in zip(kept, (seen, action, float(reward), terminated, truncated), strict=True):
                kept[column].append(value)
            over = terminated or truncated
        arrays = {column: np.asarray(values) for column, values in kept.items()}
        buffers.append(minari.data_collector.EpisodeBuffer(id=seed, seed=seed, **arrays))
    with warnings.catch_warnings(action="ignore"):  # about descriptions that are missing
        minari.create_dataset_from_buffers(name, buffer=buffers, env=env)


@pytest.fixture(scope="module", autouse=True)
def _datasets(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("minari")))
        record("cartpole/expert-v0", "CartPole-v1", balance, 6)
        record("pendulum/mixed-v0", "Pendulum-v1", swing, 6)
        yield


def asked(algorithm: str, env: str = CARTPOLE, dataset: str | None = POLE, **said: Any) -> Any:
    params = {"dataset": dataset, **said.pop("params", {})}
    training = {"worker": "rllib", "algorithm": algorithm, "params": params, **said.pop("training", {})}
    return parse_run_config({"environment": {"env_id": env}, "training": training, **said})


def refusal(*given: Any, **said: Any) -> str:
    with pytest.raises(InputError) as refused:
        resolve(asked(*given, **said))
    return str(refused.value)


def test_a_run_without_a_dataset_is_told_how_to_name_one():
    assert refusal("bc", dataset=None).startswith(
        "RLlib's bc learns from a dataset: add --set training.params.dataset=minari:NAME."
    )


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"dataset": "minari:cartpole/expert-v1"}, "Did you mean 'minari:cartpole/expert-v0'? Here: cartpole/expert"),
        ({"dataset": "d4rl:x"}, "dataset=d4rl:x is not minari:NAME"),
        ({"dataset": SWING}, "was recorded with observations Box([-1. -1. -8.]"),
        ({"env": "mpe/simple_spread_v3"}, "A Minari dataset holds the experience of one agent"),
        ({"resources": {"num_env_runners": 2}}, "learns from a dataset in the main process"),
        ({"training": {"stop_reward": 400}}, "plays no episode while it learns"),
        ({"params": {"rollout_fragment_length": 5}}, "'rollout_fragment_length' has no effect, since nothing is sampl"),
        ({"params": {"num_learners": 1}}, "'num_learners' has no effect, since one process learns from the dataset"),
        ({"params": {"observation_filter": "MeanStdFilter"}}, "'observation_filter' has no effect"),
    ],
)
def test_what_cannot_be_honoured_is_refused(said: dict[str, Any], told: str):
    assert told in refusal("bc", **said)


@pytest.mark.parametrize("algorithm", ["cql", "iql", "tqc"])
def test_algorithms_for_numbers_refuse_choices(algorithm: str):
    params = {} if algorithm == "tqc" else {"dataset": POLE}
    training = {"worker": "rllib", "algorithm": algorithm, "params": params}
    with pytest.raises(InputError, match=f"RLlib's {algorithm} acts with numbers"):
        resolve(parse_run_config({"environment": {"env_id": CARTPOLE}, "training": training}))


def test_a_resolved_run_learns_in_the_main_process():
    config = resolve(asked("bc")).config
    options = parse_params(load_worker("rllib"), "bc", dict(config.training.params))
    assert (options.num_env_runners, options.num_learners) == (0, 0)
    assert steps_of_dataset(options) == 100 * 2000


def test_episodes_are_those_of_the_dataset():
    dataset = minari.load_dataset("pendulum/mixed-v0")
    kept, read = next(iter(dataset.iterate_episodes())), read_episodes(SWING, 64, normalize=True)[0]
    np.testing.assert_allclose(read.get_observations(), kept.observations, atol=1e-6)
    np.testing.assert_allclose(read.get_actions(), kept.actions / 2, atol=1e-6)
    np.testing.assert_allclose(read.get_rewards(), kept.rewards, atol=1e-5)
    assert read.is_truncated
    assert not read.is_terminated


@pytest.mark.parametrize(
    ("algorithm", "env", "dataset"),
    [("bc", CARTPOLE, POLE), ("marwil", CARTPOLE, POLE), ("bc", PENDULUM, SWING), ("iql", PENDULUM, SWING)],
)
def test_an_algorithm_learns_and_its_policy_plays(tmp_path: Path, algorithm: str, env: str, dataset: str):
    setup = make_setup(tmp_path, env, algorithm, params={"dataset": dataset})
    algo = configure(setup).build_algo()
    try:
        before = algo.learner_group._learner.module["default_policy"].get_state()
        algo.train()
        after = algo.learner_group._learner.module["default_policy"].get_state()
        assert any(not np.array_equal(before[name], after[name]) for name in before)
        export_policies(tmp_path, setup, algo)
    finally:
        algo.stop()
    policy = next(iter(setup.modules))
    player = load_policy(tmp_path, policy, PolicyRequest("tested", setup.spec, ("agent_0",)))
    from mosaic.envs.catalog import make_env

    made = make_env(env)
    turn = made.reset(1)
    player.begin(("agent_0",), 0)
    action = player.act(turn)["agent_0"]
    made.close()
    assert setup.spec.action_spaces["agent_0"].contains(action)


@pytest.mark.slow
def test_cloning_an_expert_balances_the_pole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from mosaic import train

    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    params = {"dataset": POLE, "lr": 1e-3, "train_batch_size_per_learner": 500, "fcnet_hiddens": [64, 64]}
    run = train(CARTPOLE, worker="rllib", algorithm="bc", params=params, total_timesteps=1_000_000)
    result = evaluate(CARTPOLE, {"*": f"run:{run.id}"}, episodes=20)
    assert result.agents["agent_0"].returns.mean >= 475
