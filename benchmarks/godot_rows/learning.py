"""The Orchard learned by each worker: a stated return, reached from random play by the trained policies."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from figures import Goal, note_figure
from godot_rows.orchard import ENV, OPTIONS, engine, orchard_config
from ppo_rows.measure import Plan, gate

GOAL = 6.0  # mean return of each agent over 50 episodes; random play gets about -1.2, and 8 is the most
EPISODES = 50


def native(plan: Plan) -> None:
    _learn(plan, "native", "independent", {}, 40_000, quick_steps=40_000)  # one policy needs 30,000 to begin


def sb3(plan: Plan) -> None:
    _learn(plan, "sb3", "parameter_sharing", {"n_steps": 256, "learning_rate": 1e-3}, 60_000, quick_steps=30_000)


def rllib(plan: Plan) -> None:
    params = {
        "train_batch_size_per_learner": 2048, "minibatch_size": 256, "num_epochs": 8, "lr": 1e-3, "lambda_": 0.95,
        "entropy_coeff": 0.0, "use_kl_loss": False, "vf_clip_param": 1e4,
        "fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False,
    }  # fmt: skip
    _learn(plan, "rllib", "independent", params, 60_000, quick_steps=30_000)


def _learn(plan: Plan, worker: str, policies: str, params: dict[str, Any], steps: int, *, quick_steps: int) -> None:
    """Train for the given env steps and compare the likeliest actions with random ones."""
    from mosaic import evaluate, train

    engine()
    aim, steps = (1.0, quick_steps) if plan.quick else (GOAL, steps)
    with TemporaryDirectory(prefix="mosaic-benchmark-") as home:
        os.environ["MOSAIC_HOME"] = home
        began = perf_counter()
        run = train(
            ENV,
            options=dict(OPTIONS),
            worker=worker,
            algorithm="ppo",
            params=params,
            policies=policies,
            total_timesteps=steps,
            seed=0,
        )
        took_s = perf_counter() - began
        returns = {}
        for policy in ("random", f"run:{run.id}"):
            agents = evaluate(orchard_config(), {"*": policy}, episodes=EPISODES, seed=1).agents
            returns[policy] = {agent: float(summary.returns.mean or 0.0) for agent, summary in agents.items()}
        low, ours = returns.values()
    text = ", ".join(f"{agent} {ours[agent]:.2f} (random {low[agent]:.2f})" for agent in ours)
    print(f"{f'{worker}, {policies}':54}{text} after {steps:,} env steps, {took_s:.0f} s", flush=True)
    gate(min(ours.values()) >= aim, f"{worker} reaches {min(ours.values()):.2f} of {aim:g}: {text}")
    least = Goal("at least", aim, fixed=True)
    note_figure(f"orchard, {worker}: lower of the agents' mean returns", "", [min(ours.values())], least)
    note_figure(f"orchard, {worker}: {steps:,} env steps", "s", [took_s])
