"""Steps per second through Mosaic's worker, against the same RLlib configuration by hand."""

from __future__ import annotations

from typing import Any

from ppo_rows.measure import Plan, gate, in_turn, show_speed, usable_cores
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


LEARNED, HARDLY_LEARNED = (30.0, 500.0), (-34.0, -15.0)  # least and most mean return


def cartpole(plan: Plan) -> None:
    """Measure CartPole. Gate: a return of 30 on both sides, after 8,000 steps too; random actions have 22."""
    _compare(plan, "PPO CartPole, 8 envs, env steps/s", CARTPOLE, 20_000, 0.97, LEARNED)


def spread(plan: Plan) -> None:
    """Measure simple_spread. 8,000 steps are too few to learn it, which the row `spread` shows.

    Gate: the return of an agent is that of a policy that has hardly learned; random actions have -26. By hand, RLlib
    reports the sum of the agents.
    """
    _compare(plan, "PPO simple_spread, 8 envs, env steps/s", SPREAD, 8_000, 2.0, HARDLY_LEARNED, agents=3)


def runner(plan: Plan) -> None:
    question = {**CARTPOLE, "runners": 1}
    _compare(plan, "PPO CartPole, 8 envs in a runner, env steps/s", question, 20_000, 0.97, LEARNED, one_core=False)


def _compare(
    plan: Plan,
    what: str,
    question: dict[str, Any],
    steps: int,
    at_least: float,
    returns: tuple[float, float],
    *,
    agents: int = 1,
    one_core: bool = True,
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
    for mine, other in zip(ours, peer, strict=True):
        for side, reward in (("Mosaic", mine.reward), ("RLlib by hand", other.reward / agents)):
            gate(returns[0] <= reward <= returns[1], f"a mean return of {reward:.1f} in {side}")
    show_speed(what, ours, peer, "by hand", at_least)
