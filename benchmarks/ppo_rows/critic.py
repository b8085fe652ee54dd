"""Gain from a critic that sees all agents' observations, compared with one that sees its own agent's."""

from __future__ import annotations

from typing import Any

from figures import note_figure
from ppo_rows.measure import Plan, gate
from ppo_rows.ours import make_learner, train
from ppo_rows.several import BATCH, COMMON, NETS, SPREAD

from mosaic.evaluation.statistics import estimate_mean

BLIND_PAIR = "mosaic/blind_pair"
OWN, CENTRAL = "parameter_sharing", "shared_value_function"


def critic(plan: Plan) -> None:
    """Compare both critics.

    Gate: where only the other agent sees what the reward depends on, the central critic is significantly better.
    """
    steps = 100_000 if plan.quick else 600_000
    seeds = range(max(2, plan.repeats))
    spread: dict[str, Any] = {**COMMON, **NETS, "n_steps": BATCH // 64, "learning_rate_schedule": "linear"}
    _difference("simple_spread, return of an agent", SPREAD, 64, steps, spread, seeds)
    mean, low = _difference("blind_pair", BLIND_PAIR, 8, 40_000, {"learning_rate": 2e-3, "hidden": (32, 32)}, seeds)
    surely = mean if plan.quick else low  # an interval of two seeds is too wide to say anything
    gate(surely > 0, "the central critic is not surely better in blind_pair")


def _difference(
    what: str, env: str, envs: int, steps: int, params: dict[str, Any], seeds: range
) -> tuple[float, float]:
    """Print the difference in mean return over 100 episodes, paired by seed; return it and its low end (95 %)."""
    reached = {
        policies: [_learn(env, envs, steps, seed, params, policies) for seed in seeds] for policies in (OWN, CENTRAL)
    }
    differences = [a - b for a, b in zip(reached[CENTRAL], reached[OWN], strict=True)]
    note_figure(f"{what}: what a central critic adds", "", differences)
    estimate = estimate_mean(differences)
    means = [sum(returns) / len(returns) for returns in (reached[CENTRAL], reached[OWN])]
    low, high = (float("nan") if end is None else end for end in estimate.ci95)
    print(
        f"{what:54}central critic {means[0]:.2f}, own {means[1]:.2f}: "
        f"difference {estimate.mean:+.2f} [{low:+.2f}, {high:+.2f}] of {len(seeds)} seeds",
        flush=True,
    )
    return means[0] - means[1], low


def _learn(env: str, envs: int, steps: int, seed: int, params: dict[str, Any], policies: str) -> float:
    params = {**params, "shared_actor": policies == CENTRAL}
    learner = make_learner(env, envs, steps, seed, params, policies=policies)
    outcome = train(learner, steps)
    learner.close()
    return outcome.reward
