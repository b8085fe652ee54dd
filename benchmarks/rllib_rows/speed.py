"""Steps per second through Mosaic's worker, against the same RLlib configuration by hand."""

from __future__ import annotations

from typing import Any

from ppo_rows.measure import Plan, in_turn, show_speed, usable_cores
from rllib_rows.asking import ask_speed

CARTPOLE: dict[str, Any] = {
    "env": "gym/CartPole-v1",
    "envs": 8,
    "runners": 0,
    "training": {"train_batch_size_per_learner": 2000, "minibatch_size": 250, "num_epochs": 4, "lr": 3e-4},
    "model": {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False},
}
SPREAD: dict[str, Any] = {
    "env": "mpe/simple_spread_v3",
    "envs": 8,
    "runners": 0,
    "training": {
        "train_batch_size_per_learner": 1600, "minibatch_size": 1200, "num_epochs": 4, "lr": 1.5e-3, "gamma": 0.95,
        "lambda_": 0.95, "entropy_coeff": 0.01, "clip_param": 0.2, "use_kl_loss": False,
    },
    "model": {"fcnet_hiddens": [64, 64], "fcnet_activation": "relu", "vf_share_layers": False},
}  # fmt: skip


def cartpole(plan: Plan) -> None:
    _compare(plan, "PPO CartPole, 8 envs, env steps/s", CARTPOLE, 20_000, 0.97)


def spread(plan: Plan) -> None:
    _compare(plan, "PPO simple_spread, 8 envs, env steps/s", SPREAD, 8_000, 2.0)


def runner(plan: Plan) -> None:
    question = {**CARTPOLE, "runners": 1}
    _compare(plan, "PPO CartPole, 8 envs in a runner, env steps/s", question, 20_000, 0.97, one_core=False)


def _compare(
    plan: Plan, what: str, question: dict[str, Any], steps: int, at_least: float, *, one_core: bool = True
) -> None:
    core = {max(usable_cores())} if one_core else None
    asked = {**question, "steps": steps // 4 if plan.quick else steps}
    batch = question["training"]["train_batch_size_per_learner"]
    total = asked["steps"] + batch  # the first iteration is not counted
    ours, peer = in_turn(
        plan.repeats,
        lambda seed: ask_speed("through_mosaic.py", {**asked, "seed": seed, "total": total}, core),
        lambda seed: ask_speed("by_hand.py", {**asked, "seed": seed}, core),
    )
    show_speed(what, ours, peer, "by hand", at_least)
