"""PPO with a recurrent layer on an env that only memory solves, against sb3-contrib's RecurrentPPO."""

from __future__ import annotations

from typing import Any

from ppo_rows.measure import Outcome, Plan, gate, in_turn, show_speed
from ppo_rows.ours import make_learner, train

RECALL, GOAL, ENVS, TOTAL = "mosaic/recall", 0.95, 8, 100_000
BOTH: dict[str, Any] = {"n_steps": 128, "batch_size": 256, "n_epochs": 4, "learning_rate": 1e-3}


def memory(plan: Plan) -> None:
    """Measure speed in every repeat; ours trains once to the goal with each memory, the peer's LSTM to the same."""
    from ppo_peers import sb3

    def ours(seed: int, steps: int = 32_768, kind: str = "gru") -> Outcome:
        network = {"hidden": (64,), "memory": kind, "memory_size": 64}
        learner = make_learner(RECALL, ENVS, TOTAL, seed, BOTH | network)
        outcome = train(learner, steps, GOAL if steps == TOTAL else None)
        learner.close()
        return outcome

    def mingru(seed: int) -> Outcome:
        return ours(seed, kind="mingru")

    def peer(seed: int, steps: int = 4_096) -> Outcome:
        return sb3.train(sb3.make_recurrent_model(ENVS, seed, BOTH, 64), steps, GOAL if steps == TOTAL else None)

    ours(0, 2048)
    ours(0, 2048, "mingru")
    peer(0, 2048)
    for name, learned in (
        ("GRU", ours(0, TOTAL)),
        ("minGRU", ours(0, TOTAL, "mingru")),
        ("RecurrentPPO", peer(0, TOTAL // 4 if plan.quick else TOTAL)),
    ):
        print(f"  {name}: {learned.reward:.2f} after {learned.steps:,} steps, {learned.wall_s:.1f} s")
        gate(learned.reward >= GOAL or name == "RecurrentPPO", f"{name} reaches {learned.reward:.2f} of {GOAL}")
    mine, small, other = in_turn(plan.repeats, ours, mingru, peer)
    show_speed("GRU PPO, recall, 8 envs", mine, other, "RecurrentPPO", 10)
    show_speed("minGRU PPO, recall, 8 envs", small, other, "RecurrentPPO", 10)
