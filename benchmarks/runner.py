"""Overhead of LocalEnvRunner over a bare hand-written loop that draws the same random actions on the same env.

    python benchmarks/runner.py

Ours and the bare loop are alternated in slices; in each of five repeats the minimum over the slices of each is compared
(noise only adds). Both sides must see the same returns, or the comparison is worthless: that is checked first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from random import Random
from statistics import median
from time import perf_counter

from figures import at_least, at_most, loosen_goals, note_figure, note_ratio
from ppo_rows.measure import gate
from row_table import run_row

from mosaic import make_env
from mosaic.core.seeding import child_seed
from mosaic.runners.local import LocalEnvRunner

REPEATS = 5


def bare_gym(name: str) -> Callable[[int], tuple[int, float]]:
    import gymnasium

    env = gymnasium.make(name, disable_env_checker=True)
    count, random = int(env.action_space.n), Random()  # type: ignore[attr-defined]

    def episode(seed: int) -> tuple[int, float]:
        random.seed(child_seed(seed, "policy", "*", "random"))
        env.reset(seed=seed)
        steps, total, over = 0, 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(random.randrange(count))
            over = terminated or truncated
            total += float(reward)
            steps += 1
        return steps, total

    return episode


def bare_parallel(module_name: str) -> Callable[[int], tuple[int, float]]:
    import importlib

    env = importlib.import_module(module_name).parallel_env()
    counts, random = {agent: int(env.action_space(agent).n) for agent in env.possible_agents}, Random()

    def episode(seed: int) -> tuple[int, float]:
        random.seed(child_seed(seed, "policy", "*", "random"))
        env.reset(seed=seed)
        steps, total = 0, 0.0
        while env.agents:
            _, rewards, _, _, _ = env.step({agent: random.randrange(counts[agent]) for agent in env.agents})
            total += sum(rewards.values())
            steps += 1
        return steps, total

    return episode


def ours(env_id: str) -> Callable[[int], tuple[int, float]]:
    runner = LocalEnvRunner(make_env(env_id), {"*": "random"})

    def episode(seed: int) -> tuple[int, float]:
        record = runner.run(seed)
        return record.env_steps, sum(record.returns.values())

    return episode


def compare(env_id: str, bare: Callable[[int], tuple[int, float]], slices: int, steps: int) -> tuple[float, float]:
    """Return the seconds per env step of the bare loop and of ours."""
    mine = ours(env_id)
    for seed in range(5):
        one, other = bare(seed), mine(seed)
        same = one[0] == other[0] and abs(one[1] - other[1]) <= 1e-9 * max(1.0, abs(one[1]))
        gate(same, f"{env_id}: the loops play different games: {one} and {other}")
    best = [float("inf"), float("inf")]
    for index in range(slices):
        for side, episode in enumerate((bare, mine)):
            done, seed, start = 0, index * 1000, perf_counter()
            while done < steps:
                done += episode(seed)[0]
                seed += 1
            best[side] = min(best[side], (perf_counter() - start) / done)
    return best[0], best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=6, help="of each repeat")
    parser.add_argument("--quick", action="store_true", help="a third of the slices, loose goals")
    arguments = parser.parse_args()
    if arguments.quick:
        loosen_goals()
        arguments.slices = 2
    print(f"{'env':24}{'bare steps/s':>14}{'runner steps/s':>16}{'overhead':>12}{'ratio':>8}")

    def cartpole() -> None:
        plain, mine = measure("gym/CartPole-v1", bare_gym("CartPole-v1"), 3000)
        added = [(ours_s - bare_s) * 1e6 for bare_s, ours_s in zip(plain, mine, strict=True)]
        note_figure("runner, gym/CartPole-v1: overhead of a step", "µs", added, at_most(10))

    def spread() -> None:
        plain, mine = measure("mpe/simple_spread_v3", bare_parallel("mpe2.simple_spread_v3"), 250)
        speeds = ([1 / each for each in side] for side in (mine, plain))
        note_ratio("runner, mpe/simple_spread_v3", "steps/s", *speeds, "bare loop", at_least(1 / 1.15))

    def measure(env_id: str, bare: Callable[[int], tuple[int, float]], steps: int) -> tuple[list[float], list[float]]:
        pairs = [compare(env_id, bare, arguments.slices, steps) for _ in range(REPEATS)]
        plain, mine = ([pair[side] for pair in pairs] for side in (0, 1))
        bare_s, ours_s = median(plain), median(mine)
        print(
            f"{env_id:24}{1 / bare_s:14,.0f}{1 / ours_s:16,.0f}{(ours_s - bare_s) * 1e6:9.2f} µs{ours_s / bare_s:8.3f}",
            flush=True,
        )
        return plain, mine

    failed = [row.__name__ for row in (cartpole, spread) if not run_row(row.__name__, row)]
    print("limits: gym/CartPole-v1 at most 10 µs per step; mpe/simple_spread_v3 ratio at most 1.15")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
