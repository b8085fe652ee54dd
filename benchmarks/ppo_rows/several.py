"""Multi-agent rows: a shared policy in simple_spread against RLlib and SB3 + SuperSuit, and connect four self-play."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
from ppo_rows.measure import Outcome, Plan, gate, in_turn, show_speed
from ppo_rows.ours import make_learner, train

SPREAD, AGENTS = "mpe/simple_spread_v3", 3
BATCH = 1600  # env steps per rollout, on every side
NETS: dict[str, Any] = {"hidden": (64, 64), "activation": "relu"}
COMMON: dict[str, Any] = {
    "batch_size": 1200, "n_epochs": 4, "gamma": 0.95, "gae_lambda": 0.95, "ent_coef": 0.01, "learning_rate": 1.5e-3,
}  # fmt: skip
CONNECT_FOUR: dict[str, Any] = {
    "hidden": (128, 128), "activation": "relu", "share_layers": True, "n_steps": 32, "batch_size": 512, "n_epochs": 1,
    "learning_rate": 2.5e-3, "learning_rate_schedule": "linear", "ent_coef": 0.2, "ent_coef_final": 0.05,
    "snapshot_every_steps": 200_000, "opponent_slip": 0.1,
}  # fmt: skip


def spread(plan: Plan) -> None:
    """Measure simple_spread, compiled. Gate: -9.5 for each agent (-18 with --quick); a random policy has -26."""
    total, goal = (600_000, -18.0) if plan.quick else (8_000_000, -9.5)

    def ours(seed: int, steps: int = 300_000) -> Outcome:
        params = {**COMMON, **NETS, "n_steps": BATCH // 64, "learning_rate_schedule": "linear"}
        learner = make_learner(SPREAD, 64, total, seed, params)
        outcome = train(learner, steps, goal if steps == total else None)
        learner.close()
        return outcome

    learned = ours(0, total)
    gate(learned.reward >= goal, f"simple_spread: ours reaches {learned.reward:.1f} of {goal}")
    _beside_peers(plan, "simple_spread, compiled twin, env steps/s", ours, 100, 20)


def python_spread(plan: Plan) -> None:
    """Measure simple_spread in Python. Gate: -20 for each agent; a random policy has -26."""
    total, goal = 400_000, -20.0

    def ours(seed: int, steps: int = 2 * BATCH) -> Outcome:
        params = {**COMMON, **NETS, "n_steps": BATCH // 8}
        learner = make_learner(SPREAD, 8, total, seed, params, python_envs=True)
        outcome = train(learner, steps, goal if steps == total else None)
        learner.close()
        return outcome

    learned = ours(0, total)
    gate(learned.reward >= goal, f"simple_spread in Python: ours reaches {learned.reward:.1f} of {goal}")
    _beside_peers(plan, "simple_spread, Python env, env steps/s", ours, 10, 1.5)


def _beside_peers(plan: Plan, what: str, ours: Any, over_rllib: float, over_sb3: float) -> None:
    from ppo_peers import sb3
    from ppo_peers.own_place import ask

    def rllib(seed: int, envs: int = 8) -> Outcome:
        asked = {
            "envs": envs, "batch": BATCH, "minibatch": COMMON["batch_size"], "epochs": COMMON["n_epochs"],
            "lr": COMMON["learning_rate"], "gamma": COMMON["gamma"], "seed": seed, "steps": 2 * BATCH,
        }  # fmt: skip
        return ask("rllib.py", "spread", json.dumps(asked))

    def supersuit(seed: int, rollouts: int = 2) -> Outcome:
        from torch import nn

        nets = {"policy_kwargs": {"net_arch": [64, 64], "activation_fn": nn.ReLU}}
        model = sb3.make_spread_model(8, seed, {**COMMON, **nets, "n_steps": BATCH // 8})
        return sb3.train(model, rollouts * BATCH, agents=AGENTS)

    supersuit(0, 1)
    repeats = min(plan.repeats, 3)  # RLlib starts Ray twice in each
    mine, eight, one, other = in_turn(repeats, ours, rllib, lambda seed: rllib(seed, 1), supersuit)
    show_speed(what, mine, one, "RLlib, one env as it comes", over_rllib)
    show_speed(what, mine, eight, "RLlib, 8 envs", None)
    show_speed(what, mine, other, "SB3 + SuperSuit", over_sb3)


def connect_four(plan: Plan) -> None:
    """Measure self-play. Gate: wins against random (99 of 100 games, 90 with --quick)."""
    steps, wins_needed = (2_000_000, 90) if plan.quick else (8_000_000, 99)

    def ours(seed: int, moves: int = steps) -> Outcome:
        learner = make_learner("classic/connect_four_v3", 256, steps, seed, CONNECT_FOUR, policies="self_play")
        outcome = train(learner, moves)
        weights, shape = learner.weights(0), learner.vector.shape
        learner.close()
        if moves == steps:
            wins = _wins(weights, shape)
            gate(wins >= wins_needed, f"seed {seed}: {wins} of 100 games won against random, {wins_needed} needed")
        return outcome

    ours(0, 50_000)
    show_speed(
        "connect four self-play, 128×128, with learning",
        in_turn(plan.repeats, ours)[0],
        at_least=250_000,
        unit="moves/s",
    )


def _wins(weights: Any, shape: Any, games: int = 100) -> int:
    """Return the wins of the greedy net against random moves, playing first and second in turn."""
    from mosaic import make_env
    from mosaic.envs.vector.encoding import action_code, row_code
    from mosaic.models.architecture import Architecture
    from mosaic.policies.network import NetworkPolicyController

    env, random, won = make_env("classic/connect_four_v3"), Random(0), 0
    spaces, agents = env.spec, env.spec.possible_agents
    net = NetworkPolicyController(
        Architecture(shape.width, shape.heads[0], CONNECT_FOUR["hidden"], "relu", shared=True),
        weights,
        {agent: row_code(spaces.observation_spaces[agent]) for agent in agents},
        {agent: action_code(spaces.action_spaces[agent]) for agent in agents},
    )
    for game in range(games):
        mine, turn, total = agents[game % 2], env.reset(game), 0.0
        while not turn.over:
            agent = next(iter(turn.observations))
            if agent == mine:
                turn = env.step(net.act(turn))
            else:
                turn = env.step({agent: random.choice(np.flatnonzero(turn.action_masks[agent]).tolist())})
            total += turn.rewards.get(mine, 0.0)
        won += total > 0
    env.close()
    return won
