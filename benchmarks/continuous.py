"""Benchmark of continuous control against Stable-Baselines3: equal hyperparameters and networks, one thread each.

python benchmarks/continuous.py [ROW …] [--seeds 5] [--first-seed 0] [--steps N] [--quick] [--list]

Both train the same number of env steps from the same seeds, in turns; what has to be compiled is compiled before. Ours
steps MuJoCo and Pendulum in compiled code, and LunarLander in Python like SB3. Besides wall-clock time, processor time
is reported, which a busy machine changes less. Returns of SAC are those of its greedy policy in new episodes with the
same starts on both sides: ten training episodes of Pendulum have a standard error of 30. Those of PPO are the mean of
the last ten training episodes.
The gate: with several seeds our mean return is not below the 95 % interval of SB3's (bootstrap over seeds); with one,
not below SB3's return less the row's tolerance. Without it the speed is meaningless and the benchmark fails.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from statistics import mean, median
from time import perf_counter, process_time
from typing import Any, NamedTuple

from figures import at_least, loosen_goals, note_ratio, note_skipped
from ppo_rows.measure import gate
from row_table import run_row

for library in ("OPENBLAS", "OMP", "MKL"):  # read when numpy and torch are first imported
    os.environ[f"{library}_NUM_THREADS"] = "1"

PPO: dict[str, Any] = {
    "learning_rate": 3e-4,
    "n_steps": 2048,
    "batch_size": 64,
    "n_epochs": 10,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "ent_coef": 0.0,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
}
SAC: dict[str, Any] = {
    "learning_rate": 3e-4,
    "batch_size": 256,
    "buffer_size": 300_000,
    "tau": 0.005,
    "gamma": 0.99,
    "train_freq": 1,
    "gradient_steps": 1,
}
EPISODES = 10
TESTED_STEPS = 10_000  # of greedy play


class Row(NamedTuple):
    algorithm: str
    env: str  # of Gymnasium
    steps: int
    tolerance: float  # of the return with one seed: about two standard errors of the difference
    goal: float  # ratio of processor time
    hidden: tuple[int, ...]
    params: dict[str, Any]
    continuous: bool = False  # option of envs with both kinds of actions


ROWS = {
    "ppo-halfcheetah": Row("ppo", "HalfCheetah-v5", 1_000_000, 800.0, 8, (64, 64), PPO),
    "sac-pendulum": Row("sac", "Pendulum-v1", 20_000, 60.0, 1.5, (256, 256), {**SAC, "learning_starts": 100}),
    "sac-halfcheetah": Row(
        "sac", "HalfCheetah-v5", 200_000, 1500.0, 1.5, (256, 256), {**SAC, "learning_starts": 10_000}
    ),
    "sac-lunarlander": Row(
        "sac",
        "LunarLander-v3",
        100_000,
        60.0,
        1.5,
        (256, 256),
        {**SAC, "learning_starts": 10_000},
        continuous=True,
    ),
}
QUICK_STEPS = {"ppo-halfcheetah": 100_000, "sac-pendulum": 6_000}


def env_options(row: Row) -> dict[str, Any]:
    return {"continuous": True} if row.continuous else {}


class Trained(NamedTuple):
    wall_s: float
    cpu_s: float
    result: float  # return


def timed(work: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = perf_counter(), process_time()
    work()
    return perf_counter() - wall, process_time() - cpu


def greedy_return(row: Row, decide: Callable[[Any], Any]) -> float:
    """Return the mean return of the new episodes that begin within that many steps; they start alike for everyone."""
    import gymnasium

    env, played = gymnasium.make(row.env, **env_options(row)), 0
    returns: list[float] = []
    while played < TESTED_STEPS:
        observation, _ = env.reset(seed=100_000 + len(returns))
        over, total = False, 0.0
        while not over:
            observation, reward, terminated, truncated, _ = env.step(decide(observation))
            over, total, played = terminated or truncated, total + float(reward), played + 1
        returns.append(total)
    env.close()
    return mean(returns)


def our_policy(row: Row, architecture: Any, weights: Any) -> Callable[[Any], Any]:
    import gymnasium
    import numpy as np

    from mosaic.envs.vector.encoding import action_range
    from mosaic.models.fused import build_model, greedy_rows, make_scratch

    bounds = action_range(gymnasium.make(row.env, **env_options(row)).action_space)
    assert bounds is not None
    model, act = build_model(architecture), np.zeros((1, len(bounds.scale)), np.float32)
    scratch, mask = make_scratch(model, 1), np.zeros((0, architecture.head.width), np.uint8)

    def decide(observation: Any) -> Any:
        greedy_rows(weights, model, np.asarray(observation, np.float32)[None], mask, scratch, act)
        return bounds.shift + bounds.scale * act[0]

    return decide


def ours(row: Row, steps: int, seed: int) -> Trained:
    from mosaic.config.run import RunConfig
    from mosaic.learners.actor_critic.build import assemble_actor_critic
    from mosaic.learners.actor_critic.options import SacOptions
    from mosaic.learners.ppo.build import assemble
    from mosaic.learners.ppo.options import PpoOptions
    from mosaic.learners.rollout.arrays import WINDOW

    environment = {"env_id": f"gym/{row.env}", "num_envs": 1, "options": env_options(row)}
    document = {"seed": seed, "environment": environment, "training": {"worker": "native", "total_timesteps": steps}}
    config = RunConfig.model_validate(document)
    if row.algorithm == "ppo":
        scaled = {"normalize_observations": True, "normalize_rewards": True}
        assembled = assemble(config, PpoOptions(hidden=row.hidden, **scaled, **row.params))
    else:
        assembled = assemble_actor_critic(config, SacOptions(hidden=row.hidden, **row.params))
    learner = assembled.learner

    def train() -> None:
        while learner.env_steps < steps:
            learner.iterate()

    wall, cpu = timed(train)
    tally = learner.tally
    ended = int(tally.finished[0])
    last = [float(tally.recent[0, number % WINDOW]) for number in range(max(0, ended - EPISODES), ended)]
    learner.close()
    if row.algorithm == "sac":
        return Trained(wall, cpu, greedy_return(row, our_policy(row, assembled.architectures[0], learner.weights(0))))
    return Trained(wall, cpu, mean(last) if last else float("nan"))


def peer(row: Row, steps: int, seed: int) -> Trained:
    import stable_baselines3
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    env: Any = make_vec_env(row.env, 1, seed=seed, env_kwargs=env_options(row))
    if row.algorithm == "ppo":
        env = VecNormalize(env, gamma=row.params["gamma"])
    kind: Any = getattr(stable_baselines3, row.algorithm.upper())
    net = {"net_arch": list(row.hidden)}
    model = kind("MlpPolicy", env, seed=seed, device="cpu", policy_kwargs=net, **row.params)
    wall, cpu = timed(lambda: model.learn(steps))
    last = [episode["r"] for episode in model.ep_info_buffer or ()][-EPISODES:]
    env.close()
    if row.algorithm == "sac":
        return Trained(wall, cpu, greedy_return(row, lambda seen: model.predict(seen, deterministic=True)[0]))
    return Trained(wall, cpu, mean(last) if last else float("nan"))


def lowest(row: Row, results: list[float]) -> float:
    """Return the return that ours must reach."""
    import numpy as np

    if len(results) < 2:
        return results[0] - row.tolerance
    drawn = np.random.default_rng(0).choice(results, (10_000, len(results)))
    return float(np.quantile(drawn.mean(1), 0.025))


def measure(name: str, row: Row, steps: int, seeds: range) -> None:
    """Train both sides and print the row. Gate: ours learned."""
    warm = min(steps, row.params.get("learning_starts", row.params.get("n_steps", 0)) + 64)
    ours(row, warm, seed=99)
    print(f"{name}: {steps:,} env steps, {len(seeds)} seeds, load {os.getloadavg()[0]:.1f}", flush=True)
    pairs = []
    for seed in seeds:
        mine, theirs = ours(row, steps, seed), peer(row, steps, seed)
        pairs.append((mine, theirs))
        print(
            f"  seed {seed}: mosaic {steps / mine.wall_s:,.0f} steps/s ({steps / mine.cpu_s:,.0f} of processor time), "
            f"sb3 {steps / theirs.wall_s:,.0f} ({steps / theirs.cpu_s:,.0f});  returns {mine.result:.1f}, "
            f"{theirs.result:.1f};  "
            f"ratio {theirs.wall_s / mine.wall_s:5.2f} wall, {theirs.cpu_s / mine.cpu_s:5.2f} processor",
            flush=True,
        )
    least = lowest(row, [theirs.result for _, theirs in pairs])
    reached = mean(mine.result for mine, _ in pairs)
    ratio = median(theirs.cpu_s / mine.cpu_s for mine, theirs in pairs)
    gate(reached >= least, f"a return of {reached:.1f}, and {least:.1f} is the least")
    sides = ([steps / outcome.cpu_s for outcome in side] for side in zip(*pairs, strict=True))
    verdict = note_ratio(f"{name}, by processor time", "steps/s", *sides, "SB3", at_least(row.goal))
    print(f"  learned: {reached:.1f} (at least {least:.1f}); ratio {ratio:.2f}, {verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="those of --list; none: all")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="env steps of every row; default: the row's")
    parser.add_argument(
        "--quick", action="store_true", help="one seed, fewer steps, no row that learns too slowly for it"
    )
    parser.add_argument("--list", action="store_true", help="name the rows and leave")
    arguments = parser.parse_args()
    if arguments.quick and arguments.steps:
        parser.error("--quick has steps of its own: leave out --steps")
    unknown = [name for name in arguments.rows if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}. Rows: {', '.join(ROWS)}")
    if arguments.list:
        print("\n".join(f"{name:18}{row.steps:>10,} steps of {row.env}" for name, row in ROWS.items()))
        return
    if arguments.quick:
        loosen_goals()
    names = arguments.rows or list(ROWS)
    seeds = range(arguments.first_seed, arguments.first_seed + (1 if arguments.quick else arguments.seeds))
    failed = []
    for name in names:
        if arguments.quick and name not in QUICK_STEPS:
            note_skipped(name, reason := "it needs longer to learn than --quick takes")
            print(f"{name}: {reason}", flush=True)
            continue
        steps = QUICK_STEPS[name] if arguments.quick else arguments.steps or ROWS[name].steps
        failed += [] if run_row(name, partial(measure, name, ROWS[name], steps, seeds)) else [name]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
