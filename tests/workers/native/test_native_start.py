"""Runs that start from other weights: what does not fit is refused before there is a run, with what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mosaic.core.errors import InputError
from mosaic.runs.trainer import Trainer
from tests.in_process import trained_here
from tests.workers.hosting import run_config

CART = {"env_id": "gym/CartPole-v1", "num_envs": 2}
PPO = {"hidden": [8], "n_steps": 32, "batch_size": 32, "n_epochs": 1}
DQN = {"hidden": [8], "learning_starts": 50, "test_every_steps": 0}
SPREAD = {"env_id": "mpe/simple_spread_v3", "num_envs": 2}


def asked(environment: dict[str, Any], algorithm: str, params: dict[str, Any], **more: Any) -> dict[str, Any]:
    worker = more.pop("worker", "native")
    training = {"algorithm": algorithm, "total_timesteps": 64, "preset": False, **more.pop("training", {})}
    return {
        "worker": worker,
        "params": params,
        "training": training,
        "environment": environment,
        "evaluation": {"episodes": 1},
        **more,
    }


def trained(home: Path, **settings: Any) -> Any:
    run = trained_here(home, run_config(settings.pop("worker"), settings.pop("params"), **settings))
    assert run.state == "finished", run.reason
    return run


def begun(home: Path, reference: str, **settings: Any) -> Any:
    training = {**settings.pop("training"), "init": reference}
    config = run_config(settings.pop("worker"), settings.pop("params"), training=training, **settings)
    return Trainer(home).submit(config, start=False)


@pytest.mark.parametrize(
    "settings",
    [
        asked(CART, "ppo", PPO),
        asked(CART, "ppo", {**PPO, "memory": "gru", "memory_size": 8, "normalize_observations": True}),
        asked(CART, "dqn", DQN),
        asked({"env_id": "gym/Pendulum-v1", "num_envs": 2}, "sac", {"hidden": [8], "learning_starts": 50}),
        asked(SPREAD, "ppo", PPO, policy_configuration="shared_value_function"),
        asked(
            {"env_id": "classic/tictactoe_v3", "num_envs": 2},
            "ppo",
            PPO,
            policy_configuration="independent",
            training={"policies": {"player_1": {"network": {"hidden": [4]}}}},
        ),
        asked({"env_id": "classic/tictactoe_v3", "num_envs": 4}, "alphazero", {"hidden": [8], "simulations": 2}),
        asked({"env_id": "mpe/simple_tag_v3", "num_envs": 2}, "ppo", PPO, agents={"agent_0": "random"}),
    ],
    ids=["ppo", "memory", "dqn", "sac", "central", "policies", "alphazero", "played"],
)
def test_weights_of_the_same_settings_fit(tmp_path: Path, settings: dict[str, Any]) -> None:
    first = trained(tmp_path, **settings)
    assert begun(tmp_path, f"run:{first.id}", **settings).state == "queued"


SPACES = r"it sees 4 numbers there and 6 here; it acts by categorical 2 there and by categorical 3 here"
REFUSED = {
    "hidden": (
        asked(CART, "ppo", {**PPO, "hidden": [4, 4]}),
        r"this run: hidden is \[8\] there and \[4,4\] here\. Type: --set training\.params\.hidden=\[8\]$",
    ),
    "another env": (
        asked({"env_id": "gym/Acrobot-v1", "num_envs": 2}, "ppo", PPO),
        rf"\(trained in .*CartPole-v1\) has another network than this run: {SPACES}\. Name a run with the same spaces",
    ),
    "another algorithm": (
        asked(CART, "dqn", DQN),
        r"share_layers is false there and true here.*\. Name a run with the same spaces and algorithm\.$",
    ),
    "normalised": (
        asked(CART, "ppo", {**PPO, "normalize_observations": True}),
        r"was trained with normalize_observations false, this run has true: set normalize_observations to false\.$",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_before_there_is_a_run(tmp_path: Path, name: str) -> None:
    settings, message = REFUSED[name]
    first = trained(tmp_path, **asked(CART, "ppo", PPO))
    with pytest.raises(InputError, match=message):
        begun(tmp_path, f"run:{first.id}", **settings)
    assert [each.id for each in Trainer(tmp_path).runs()] == [first.id]


def test_runs_of_other_workers_are_refused(tmp_path: Path) -> None:
    table = trained(tmp_path, **asked({"env_id": "gym/FrozenLake-v1"}, "q_learning", {}, worker="tabular"))
    with pytest.raises(
        InputError, match=r"was saved by a run of the worker tabular, and the worker native starts from its own runs"
    ):
        begun(tmp_path, f"run:{table.id}", **asked(CART, "ppo", PPO))
    small = {"n_steps": 32, "batch_size": 64, "n_epochs": 1, "net_arch": [8]}
    other = trained(tmp_path, **asked(CART, "ppo", small, worker="sb3"))
    with pytest.raises(InputError, match=r"worker sb3, and .* To start from it: --worker sb3$"):
        begun(tmp_path, f"run:{other.id}", **asked(CART, "ppo", PPO))
