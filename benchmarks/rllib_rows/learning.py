"""Learning tests of RLlib's algorithms through Mosaic: goals, budgets, and the returns of scripted policies."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from figures import Goal, note_figure
from ppo_rows.measure import Plan, gate
from rllib_rows.asking import ask

CARTPOLE = "gym/CartPole-v1"
SPREAD = "mpe/simple_spread_v3"
FOUR = "classic/connect_four_v3"
PENDULUM = "gym/Pendulum-v1"
TEN_MINUTES_S = 600.0
SMALL: dict[str, Any] = {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False}


def ppo(plan: Plan) -> None:
    training = {"train_batch_size_per_learner": 2000, "minibatch_size": 250, "num_epochs": 10, "lr": 1e-3}
    _reach(plan, "ppo", 450, 8, training | {"lambda_": 0.95, "vf_clip_param": 1e4})


def dqn(plan: Plan) -> None:
    training = {"lr": 5e-4, "target_network_update_freq": 500, "training_intensity": 16.0, "n_step": 3}
    schedule = {"epsilon": [[0, 1.0], [10_000, 0.02]], "rollout_fragment_length": 4}
    _reach(plan, "dqn", 400, 8, training | schedule)


def a2c(plan: Plan) -> None:
    _reach(plan, "a2c", 400, 8, {"lr": 1e-3, "lambda_": 0.95})


def impala(plan: Plan) -> None:
    _reach(plan, "impala", 400, 8, {"lr": 1e-3, "entropy_coeff": 0.005, "vf_loss_coeff": 0.05})


def appo(plan: Plan) -> None:
    _reach(plan, "appo", 400, 8, {"lr": 1e-3, "entropy_coeff": 0.005, "vf_loss_coeff": 0.05})


def sac(plan: Plan) -> None:
    """Train SAC for a number of env steps, with one update for each of them, and evaluate it beside RLlib by hand.

    The mean over 100 training episodes would lag by 20,000 steps.
    """
    question = {
        "env": PENDULUM, "envs": 4, "algorithm": "sac", "model": SMALL | {"fcnet_activation": "relu"}, "seed": 0,
        "runners": 0, "whole": True, "total": 3500 if plan.quick else 8000,
        "training": {
            "actor_lr": 1e-3, "critic_lr": 1e-3, "alpha_lr": 1e-3, "training_intensity": 128.0,
            "train_batch_size_per_learner": 128, "num_steps_sampled_before_learning_starts": 500,
        },
    }  # fmt: skip
    with TemporaryDirectory(prefix="mosaic-benchmark-") as home:
        answer = ask("through_mosaic.py", question | {"home": home})
        ours, low = (_mean_return(PENDULUM, policy, home) for policy in (f"run:{answer['run']}", "random"))
    _show("sac Pendulum", answer)
    hand = ask("by_hand.py", question)
    print(f"{'':54}random {low:.1f}, ours {ours:.1f}, RLlib by hand {hand['played']:.1f}", flush=True)
    gate(ours >= -400, f"sac reaches {ours:.1f} of -400, RLlib by hand {hand['played']:.1f}")
    _note(answer, "sac Pendulum, return of the likeliest actions", "", ours, -400.0)
    note_figure("  the same, RLlib by hand", "", [hand["played"]])


def _reach(plan: Plan, algorithm: str, goal: float, envs: int, training: dict[str, Any]) -> None:
    """Train to a mean return over 100 episodes, within twenty minutes: RLlib's DQN makes some 80 steps/s here."""
    aim = 0.4 * goal if plan.quick else goal
    question = {
        "env": CARTPOLE, "envs": envs, "algorithm": algorithm, "training": training, "model": SMALL, "seed": 0,
        "goal": aim, "most_s": 2 * TEN_MINUTES_S, "whole": True,
    }  # fmt: skip
    answer = ask("through_mosaic.py", question)
    _show(f"{algorithm} CartPole to {aim:g}", answer)
    gate(answer["reward"] >= aim, f"{algorithm} reaches {answer['reward']:.1f} of {aim:g} in {answer['wall_s']:.0f} s")
    _note(answer, f"{algorithm} CartPole, mean return", "", answer["reward"], aim)


def spread(plan: Plan) -> None:
    _spread(plan, "parameter_sharing")


def spread_central(plan: Plan) -> None:
    _spread(plan, "shared_value_function")


def _spread(plan: Plan, policies: str) -> None:
    """Measure how far the likeliest actions get from random actions to the scripted policy."""
    question = {
        "env": SPREAD, "envs": 32, "policies": policies, "seed": 0, "whole": True,
        "training": {
            "train_batch_size_per_learner": 3200, "minibatch_size": 2400, "num_epochs": 8, "lr": 1e-3, "gamma": 0.95,
            "lambda_": 0.95, "entropy_coeff": 0.01, "clip_param": 0.2, "use_kl_loss": False, "vf_clip_param": 1e4,
            "shared_actor": policies == "shared_value_function",
        },
        "model": {"fcnet_hiddens": [64, 64], "fcnet_activation": "relu", "vf_share_layers": False},
    }  # fmt: skip
    with TemporaryDirectory(prefix="mosaic-benchmark-") as home:
        answer = ask("through_mosaic.py", question | {"most_s": _time_s(plan), "home": home})
        ours, low, high = (
            _mean_return(SPREAD, policy, home) for policy in (f"run:{answer['run']}", "random", "nearest_landmark")
        )
    share = (ours - low) / (high - low)
    _show(f"simple_spread, {policies}", answer)
    print(f"{'':54}random {low:.1f}, ours {ours:.1f}, nearest_landmark {high:.1f}: {share:.0%} of the way", flush=True)
    least = 0.1 if plan.quick else 1 / 3
    gate(share >= least, f"{policies} goes {share:.0%} of the way from random to nearest_landmark, {least:.0%} needed")
    what = f"simple_spread, {policies}: of the way to the scripted policy"
    _note(answer, what, "%", 100 * share, 100 * least)


def connect_four(plan: Plan) -> None:
    question = {
        "env": FOUR, "envs": 32, "policies": "self_play", "seed": 0, "whole": True,
        "runners": 2,  # on two cores: learning alternates with sampling
        "training": {
            "train_batch_size_per_learner": 4000, "minibatch_size": 250, "num_epochs": 4, "lr": 1e-3, "lambda_": 0.95,
            "entropy_coeff": 0.02, "clip_param": 0.2, "use_kl_loss": False,
        },
        "model": {"fcnet_hiddens": [128, 128], "fcnet_activation": "relu", "vf_share_layers": True},
        "params": {"snapshot_every_steps": 20_000},
    }  # fmt: skip
    with TemporaryDirectory(prefix="mosaic-benchmark-") as home:
        answer = ask("through_mosaic.py", question | {"most_s": _time_s(plan), "home": home})
        won = _share_won(f"run:{answer['run']}", home)
    _show("connect four, self-play", answer)
    print(f"{'':54}{won:.0%} of 200 games won against random, as first and as second player", flush=True)
    least = 0.7 if plan.quick else 0.9
    gate(won >= least, f"{won:.0%} of the games won against random, {least:.0%} needed")
    _note(answer, "connect four, self-play: games won against random", "%", 100 * won, 100 * least)


def _mean_return(env: str, policy: str, home: str) -> float:
    from mosaic import evaluate

    _use(home)
    agents = evaluate(env, {"*": policy}, episodes=200, seed=1).agents
    return mean(float(summary.returns.mean or 0.0) for summary in agents.values())


def _share_won(policy: str, home: str) -> float:
    from mosaic import evaluate

    _use(home)
    first, second = "player_0", "player_1"
    won = 0
    for agent, other in ((first, second), (second, first)):
        games = evaluate(FOUR, {agent: policy, other: "random"}, episodes=100, seed=1).episode_results
        won += sum(game.winner == agent for game in games)
    return won / 200


def _use(home: str) -> None:
    os.environ["MOSAIC_HOME"] = str(Path(home))


def _time_s(plan: Plan) -> float:
    return TEN_MINUTES_S / 6 if plan.quick else TEN_MINUTES_S - 20  # the last iteration and checkpoint take a while


def _note(answer: dict[str, Any], what: str, unit: str, reached: float, least: float) -> None:
    """Write down what was learned, and the time and the env steps that it took."""
    note_figure(what, unit, [reached], Goal("at least", least, fixed=True))
    note_figure("  time until then", "s", [answer["wall_s"]])
    note_figure("  env steps until then", "env steps", [answer["steps"]])


def _show(what: str, answer: dict[str, Any]) -> None:
    speed = answer["steps"] / answer["wall_s"]
    text = (
        f"{answer['reward']:10.1f} after {answer['steps']:,} env steps, {answer['wall_s']:.0f} s ({speed:,.0f} steps/s)"
    )
    print(f"{what:54}{text}  [load {os.getloadavg()[0]:.1f}]", flush=True)
