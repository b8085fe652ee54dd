"""Single-agent rows: PPO and A2C against SB3, a single file of torch, RLlib and JAX."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ppo_rows.measure import (
    Outcome,
    Plan,
    gate,
    in_turn,
    keep_on,
    show_limit,
    show_speed,
    show_time,
    timed,
    usable_cores,
)
from ppo_rows.ours import make_learner, train

CARTPOLE, GOAL = "gym/CartPole-v1", 475.0
ZOO: dict[str, Any] = {"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8}
ZOO_TOTAL, ZOO_RATE, ZOO_ENVS = 100_000, 1e-3, 8
LINEAR = {"learning_rate_schedule": "linear", "clip_range_schedule": "linear"}
CLEANRL: dict[str, Any] = {
    "n_steps": 128, "batch_size": 128, "n_epochs": 4, "gamma": 0.99, "gae_lambda": 0.95, "ent_coef": 0.01,
    "learning_rate": 2.5e-4, "learning_rate_schedule": "linear", "clip_range_vf": 0.2,
}  # fmt: skip
CLEANRL_TOTAL, CLEANRL_ENVS = 500_000, 4
MANY: dict[str, Any] = {
    "n_steps": 16, "batch_size": 2048, "n_epochs": 1, "gamma": 0.98, "gae_lambda": 0.9, "ent_coef": 0.0,
    "learning_rate": 3e-3, "clip_range": 0.2, "vf_coef": 0.5, "max_grad_norm": 0.5,
}  # fmt: skip
MANY_ENVS, MANY_TOTAL = 1024, 6_000_000
LANDER: dict[str, Any] = {
    "n_steps": 512, "batch_size": 64, "n_epochs": 4, "gamma": 0.999, "gae_lambda": 0.98, "ent_coef": 0.01,
}  # fmt: skip
BESIDE = Path(__file__).parent


def zoo(plan: Plan) -> None:
    _cartpole_zoo(plan, "CartPole, rl-zoo hyper-parameters", False, 10)


def python_cartpole(plan: Plan) -> None:
    _cartpole_zoo(plan, "8 CartPoles in Python, rl-zoo hyper-parameters", True, 6)


def _cartpole_zoo(plan: Plan, what: str, python_envs: bool, at_least: float) -> None:
    from ppo_peers import sb3

    def ours(seed: int, steps: int = ZOO_TOTAL) -> Outcome:
        params = {**ZOO, **LINEAR, "learning_rate": ZOO_RATE}
        learner = make_learner(CARTPOLE, ZOO_ENVS, ZOO_TOTAL, seed, params, python_envs=python_envs)
        outcome = train(learner, steps, GOAL)
        learner.close()
        gate(steps < ZOO_TOTAL or outcome.reward >= GOAL, f"seed {seed}: ours reaches {outcome.reward:.0f} of {GOAL}")
        return outcome

    def peer(seed: int, steps: int = ZOO_TOTAL) -> Outcome:
        falling = {"learning_rate": lambda left: left * ZOO_RATE, "clip_range": lambda left: left * 0.2}
        model = sb3.make_model("CartPole-v1", ZOO_ENVS, seed, {**ZOO, **falling})
        outcome = sb3.train(model, steps, GOAL)
        if steps == ZOO_TOTAL and outcome.reward < GOAL:
            print(f"  seed {seed}: SB3 ends at {outcome.reward:.0f}; its whole time counts", flush=True)
        return outcome

    ours(0, 512)
    peer(0, 512)
    mine, other = in_turn(plan.repeats, ours, peer)
    show_speed(what, mine, other, "SB3", at_least)
    if not python_envs:
        show_time(f"{what}, to {GOAL:.0f}", mine, other, "SB3", at_least)


def cleanrl(plan: Plan) -> None:
    """Measure speed over fewer steps in every repeat; the peer trains to the goal only once."""
    from ppo_peers import cleanrl_style

    def ours(seed: int, steps: int = CLEANRL_TOTAL) -> Outcome:
        learner = make_learner(CARTPOLE, CLEANRL_ENVS, CLEANRL_TOTAL, seed, CLEANRL)
        outcome = train(learner, steps, GOAL)
        learner.close()
        gate(steps < CLEANRL_TOTAL or outcome.reward >= GOAL, f"seed {seed}: ours reaches {outcome.reward:.0f}")
        return outcome

    def peer(seed: int) -> Outcome:
        return cleanrl_style.train(seed, CLEANRL_TOTAL, 10_240)

    ours(0, 1024)
    cleanrl_style.train(0, CLEANRL_TOTAL, 1024)
    mine, other = in_turn(plan.repeats, ours, peer)
    show_speed("CartPole, CleanRL hyper-parameters", mine, other, "one file of torch", 30)
    if not plan.quick:
        learned = cleanrl_style.train(0, CLEANRL_TOTAL, CLEANRL_TOTAL, GOAL)
        gate(learned.reward >= GOAL, f"the peer reaches {learned.reward:.0f} of {GOAL}")
        show_time(f"the same, to {GOAL:.0f}, seed 0", mine[:1], [learned], "one file of torch", None)


def start(plan: Plan) -> None:
    """Measure the time from the start of the process: ours until its end, RLlib until it reports the goal."""
    from ppo_peers.own_place import ask

    command, trained = str(Path(sys.executable).with_name("mosaic")), list[float]()

    def through_cli(seed: int) -> Outcome:
        with TemporaryDirectory() as home, timed() as clock:
            ended = subprocess.run(
                [command, "train", CARTPOLE, "--worker", "native", "--stop-reward", "475", "--seed", str(seed),
                 "--json"],
                env={**os.environ, "MOSAIC_HOME": home}, capture_output=True, text=True,
            )  # fmt: skip
        gate(ended.returncode == 0, f"mosaic train: {ended.stderr[-500:]}")
        told = json.loads(ended.stdout)
        gate(told["time_to_stop_s"] is not None, f"seed {seed}: mosaic train ends at {told['episode_reward_mean']:.0f}")
        trained.append(told["time_to_stop_s"])
        return Outcome(1, clock.wall_s, 1.0)

    def in_process(seed: int) -> Outcome:
        with timed() as clock:
            script = BESIDE / "whole_process.py"
            ended = subprocess.run([sys.executable, str(script), str(seed)], capture_output=True, text=True)
            gate(ended.returncode == 0, f"{script.name}: {ended.stdout}{ended.stderr[-500:]}")
        return Outcome(1, clock.wall_s, 1.0)

    def peer(seed: int) -> Outcome:
        outcome = ask("rllib.py", "cartpole", json.dumps({"seed": seed, "goal": GOAL, "most": 400_000}))
        gate(outcome.reward >= GOAL, f"seed {seed}: RLlib reaches {outcome.reward:.0f}")
        return outcome

    in_process(0)
    through_cli(0)
    trained.clear()
    mine, alone, other = in_turn(plan.repeats, through_cli, in_process, peer)
    show_time("CartPole to 475 from process start, through the CLI", mine, other, "RLlib's example", 8, cpu=False)
    show_time("CartPole to 475 from process start, in process", alone, other, "RLlib's example", 15, cpu=False)
    show_limit("CartPole to 475 through the CLI, training alone", trained, "s", None)


def many_envs(plan: Plan) -> None:
    """Measure many envs.

    PufferLib 3 is left out: its only package is a source archive that fetches raylib from GitHub as it builds.
    """
    from ppo_peers.own_place import ask, pinned, wanted

    def ours(seed: int, total: int = MANY_TOTAL) -> Outcome:
        learner = make_learner(CARTPOLE, MANY_ENVS, MANY_TOTAL, seed, {**MANY, "learning_rate_schedule": "linear"})
        outcome = train(learner, total)
        learner.close()
        gate(total < MANY_TOTAL or outcome.reward >= GOAL, f"seed {seed}: ours reaches {outcome.reward:.0f} of {GOAL}")
        return outcome

    def jax(seed: int) -> Outcome:
        asked = {**MANY, "envs": MANY_ENVS, "seed": seed, "total": MANY_TOTAL}
        outcome = ask("own/jax_style.py", json.dumps(asked), place="jax")
        gate(outcome.reward >= GOAL, f"seed {seed}: JAX reaches {outcome.reward:.0f} of {GOAL}")
        return outcome

    ours(0, 100_000)
    what = "CartPole, 1,024 envs, one epoch"
    if not wanted(plan, what, pinned("jax")):
        show_speed(what, in_turn(plan.repeats, ours)[0])
        return
    mine, other = in_turn(plan.repeats, ours, jax)
    show_speed(what, mine, other, pinned("jax"), 1.2)


def two_cores(plan: Plan) -> None:
    """Measure two cores, the only row with several; each learner takes half of the envs and of every minibatch."""

    def learn(threads: int) -> Callable[..., Outcome]:
        def ours(seed: int, steps: int = MANY_TOTAL) -> Outcome:
            params = {**MANY, "n_steps": 32, "n_epochs": 2, "learning_rate_schedule": "linear"}
            learner = make_learner(CARTPOLE, MANY_ENVS, MANY_TOTAL, seed, params, threads=threads)
            outcome = train(learner, steps, GOAL)
            learner.close()
            said = f"seed {seed}: {threads} threads reach {outcome.reward:.0f} of {GOAL}"
            gate(steps < MANY_TOTAL or outcome.reward >= GOAL, said)
            return outcome

        return ours

    pinned = usable_cores()
    keep_on(range(os.cpu_count() or 1))
    try:
        learn(2)(0, 100_000)
        learn(1)(0, 100_000)
        two, one = in_turn(plan.repeats, learn(2), learn(1))
    finally:
        keep_on(pinned)
    show_speed("CartPole, 1,024 envs, two epochs, on two cores", two, one, "on one", None)
    show_time(f"the same, to {GOAL:.0f}", two, one, "on one", None, cpu=False)


def python_lander(plan: Plan) -> None:
    """Measure speed in every repeat, and train once to the goal of 200 (0 after fewer steps with --quick)."""
    from ppo_peers import sb3

    total, goal = (300_000, 0.0) if plan.quick else (2_000_000, 200.0)

    def ours(seed: int, steps: int = 40_000) -> Outcome:
        learner = make_learner("gym/LunarLander-v3", 4, total, seed, LANDER)
        outcome = train(learner, steps, goal if steps == total else None)
        learner.close()
        return outcome

    def peer(seed: int, steps: int = 8_192) -> Outcome:
        return sb3.train(sb3.make_model("LunarLander-v3", 4, seed, LANDER), steps)

    ours(0, 2048)
    peer(0, 2048)
    mine, other = in_turn(plan.repeats, ours, peer)
    learned = ours(0, total)
    gate(learned.reward >= goal, f"ours reaches {learned.reward:.0f} of {goal:.0f} on LunarLander")
    show_speed("4 LunarLanders in Python", mine, other, "SB3", 6)


def a2c(plan: Plan) -> None:
    """Measure speed in every repeat, with Adam on both sides; ours trains once to the goal."""
    from ppo_peers import sb3

    total = 1_000_000

    def ours(seed: int, steps: int = 200_000, goal: float | None = None) -> Outcome:
        learner = make_learner(CARTPOLE, 8, total, seed, {"learning_rate_schedule": "linear"}, algorithm="a2c")
        outcome = train(learner, steps, goal)
        learner.close()
        return outcome

    def peer(seed: int, steps: int = 8_000) -> Outcome:
        return sb3.train(sb3.make_model("CartPole-v1", 8, seed, {"use_rms_prop": False}, "a2c"), steps)

    ours(0, 400)
    peer(0, 400)
    learned = ours(0, total, GOAL)
    gate(learned.reward >= GOAL, f"ours reaches {learned.reward:.0f} of {GOAL} with A2C")
    mine, other = in_turn(plan.repeats, ours, peer)
    show_speed("A2C, 8 CartPoles", mine, other, "SB3", 15)
