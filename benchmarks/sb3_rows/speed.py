"""Steps per second through Mosaic's worker, against the same SB3 calls by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ppo_rows.measure import Outcome, Plan, gate, in_turn, show_speed, usable_cores
from rllib_rows.asking import ask_speed

_SCRIPTS = Path(__file__).parent
PPO: dict[str, Any] = {  # rl-zoo's options
    "env": "CartPole-v1",
    "algorithm": "ppo",
    "envs": 8,
    "params": {"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8,
               "learning_rate": "linear_0.001", "clip_range": "linear_0.2"},
}  # fmt: skip
DQN: dict[str, Any] = {
    "env": "CartPole-v1",
    "algorithm": "dqn",
    "envs": 1,
    "params": {"learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000,
               "gamma": 0.99, "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128,
               "exploration_fraction": 0.16, "exploration_final_eps": 0.04, "net_arch": [256, 256]},
}  # fmt: skip
SAC: dict[str, Any] = {"env": "Pendulum-v1", "algorithm": "sac", "envs": 1, "params": {"learning_rate": 1e-3}}
MANY: dict[str, Any] = {
    "env": "CartPole-v1",
    "algorithm": "ppo",
    "envs": 512,
    "params": {"n_steps": 16, "batch_size": 2048, "n_epochs": 4, "gamma": 0.98, "gae_lambda": 0.8,
               "learning_rate": 3e-3},
}  # fmt: skip
FREE = "  an env that costs nothing: the most that is possible"
UNTRAINED = {"CartPole-v1": 20.0, "Acrobot-v1": -500.0, "Pendulum-v1": -1600.0}  # mean returns of random actions
TWICE_FROM = 32  # Acrobot envs: its steps cost as much as SB3's learning


def ppo(plan: Plan) -> None:
    _compare(plan, "PPO CartPole, 8 envs, env steps/s", PPO, 50_000, goal=150, at_least=0.97)


def dqn(plan: Plan) -> None:
    _compare(plan, "DQN CartPole, 1 env, env steps/s", DQN, 40_000, goal=60, at_least=0.97)


def sac(plan: Plan) -> None:
    _compare(plan, "SAC Pendulum, 1 env, env steps/s", SAC, 5_000, goal=-800, at_least=0.97)


def twin(plan: Plan) -> None:
    """Measure 512 envs. The goal is below the published 1.65 and 1.82; an env that costs nothing limits both."""
    question = {**MANY, "compiled": True}
    _compare(plan, "PPO CartPole, 512 compiled envs, env steps/s", question, 300_000, goal=150, at_least=1.5)


def twins(plan: Plan) -> None:
    """Print a table over envs and their number: SB3's PPO on compiled twins, its own vector envs, and a free one.

    A few iterations hardly learn. Gate: returns are not below those of random actions; `twin` shows that it learns.
    """
    steps = 8192 * (2 if plan.quick else 6)
    options = {"batch_size": 2048, "n_epochs": 4, "learning_rate": 3e-3}
    core = _core()
    for env in ("CartPole-v1", "Acrobot-v1", "Pendulum-v1"):
        for envs in (8, 128) if plan.quick else (8, 16, 32, 128):
            params = {**options, "n_steps": 8192 // envs}
            asked = {"env": env, "algorithm": "ppo", "envs": envs, "params": params, "steps": steps}
            sides = [
                lambda seed, asked=asked: _ask("through_mosaic", {**asked, "compiled": True, "seed": seed}, core),
                lambda seed, asked=asked: _ask("by_hand", {**asked, "seed": seed}, core),
                lambda seed, asked=asked: _ask("by_hand", {**asked, "seed": seed, "free": True}, core),
            ]
            if envs <= 16:
                sides.append(
                    lambda seed, asked=asked: _ask("by_hand", {**asked, "seed": seed, "processes": True}, None)
                )
            ours, peer, free, *processes = in_turn(plan.repeats, *sides)
            for each in (*ours, *peer):  # no return where no episode has ended
                gate(not each.reward < UNTRAINED[env], f"{env}, {envs} envs: a return of {each.reward:.1f}")
            goal = 2.0 if env == "Acrobot-v1" and envs >= TWICE_FROM else None
            show_speed(f"PPO {env}, {envs} compiled envs, env steps/s", ours, peer, "DummyVecEnv", goal)
            show_speed(FREE, free, peer, "DummyVecEnv")
            for own in processes:
                show_speed("  the same beside processes, env steps/s", ours, own, "SubprocVecEnv")


def _core() -> set[int]:
    return {max(usable_cores())}


def _ask(script: str, question: dict[str, Any], cores: set[int] | None) -> Outcome:
    return ask_speed(str(_SCRIPTS / f"{script}.py"), question, cores)


def _compare(plan: Plan, what: str, question: dict[str, Any], steps: int, *, goal: float, at_least: float) -> None:
    """Print the speed beside the same call by hand; for compiled envs also the speed of an env that costs nothing."""
    asked = {**question, "steps": steps // 5 if plan.quick else steps}
    sides = [
        lambda seed: _ask("through_mosaic", {**asked, "seed": seed}, _core()),
        lambda seed: _ask("by_hand", {**asked, "seed": seed}, _core()),
    ]
    if question.get("compiled"):
        sides.append(lambda seed: _ask("by_hand", {**asked, "free": True, "seed": seed}, _core()))
    ours, peer, *possible = in_turn(plan.repeats, *sides)
    for seed, (one, other) in enumerate(zip(ours, peer, strict=True)):
        same = abs(one.reward - other.reward) < 1e-6 * max(1.0, abs(other.reward))
        gate(bool(question.get("compiled")) or same, f"seed {seed}: {one.reward} here and {other.reward} by hand")
        gate(plan.quick or one.reward >= goal, f"seed {seed}: {one.reward:.0f}, and {goal} is the goal")
    show_speed(what, ours, peer, "by hand", at_least)
    for free in possible:
        show_speed(FREE, free, peer, "by hand")
    print(f"  returns: {', '.join(f'{each.reward:.1f}' for each in ours)}; by hand: "
          f"{', '.join(f'{each.reward:.1f}' for each in peer)}", flush=True)  # fmt: skip
