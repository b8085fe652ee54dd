"""REINFORCE with a learned baseline on CartPole: one file, read from top to bottom, in the manner of CleanRL.

Alone, under Mosaic's care, and then in any place where a policy may stand:

    python examples/scripts/cleanrl_style.py --out cleanrl_style.npz
    mosaic train gym/CartPole-v1 --worker script \\
        --set 'training.params.command=python examples/scripts/cleanrl_style.py'
    CLEANRL_STYLE_WEIGHTS=cleanrl_style.npz \\
        mosaic evaluate gym/CartPole-v1 --agent '*=python:examples.scripts.cleanrl_style:play'
    mosaic evaluate gym/CartPole-v1 --agent '*=run:latest'      # what it announced with @CHECKPOINT
"""

from __future__ import annotations

import argparse
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mosaic import emit_metric, save_policy_network

Array = NDArray[np.float64]
Weights = dict[str, Array]
SCALE = np.array([1.0, 0.5, 5.0, 0.5])  # brings CartPole's four numbers to about the same size


def parse_args(arguments: list[str] | None = None) -> argparse.Namespace:
    folder = os.environ.get("MOSAIC_CHECKPOINT_DIR")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MOSAIC_SEED", 0)))
    parser.add_argument("--iterations", type=int, default=60, help="updates of the policy")
    parser.add_argument("--episodes", type=int, default=10, help="per iteration")
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--hidden", type=int, default=32, help="units of the hidden layer")
    parser.add_argument("--target", type=float, default=490.0, help="mean episode reward at which it is enough")
    parser.add_argument("--save-every", type=int, default=10, help="iterations between two checkpoints")
    parser.add_argument("--out", type=Path, default=Path(folder, "weights.npz") if folder else default_weights())
    return parser.parse_args(arguments)


def default_weights() -> Path:
    return Path(os.environ.get("CLEANRL_STYLE_WEIGHTS", "cleanrl_style.npz"))


def new_weights(hidden: int, random: np.random.Generator) -> Weights:
    return {
        "w1": random.normal(0, 0.5, (4, hidden)),
        "b1": np.zeros(hidden),
        "w2": random.normal(0, 0.01, (hidden, 2)),
        "value": np.zeros(hidden),
    }


def forward(weights: Weights, observations: Array) -> tuple[Array, Array]:
    """Hidden layer and action probabilities; one observation or many."""
    hidden = np.tanh(observations * SCALE @ weights["w1"] + weights["b1"])
    logits = hidden @ weights["w2"]
    odds = np.exp(logits - logits.max(-1, keepdims=True))
    return hidden, odds / odds.sum(-1, keepdims=True)


def episode(env: Any, weights: Weights, random: np.random.Generator) -> tuple[Array, NDArray[np.int64], Array]:
    observations, actions, rewards = [], [], []
    seen, _ = env.reset(seed=int(random.integers(2**31)))
    over = False
    while not over:
        action = int(random.random() < forward(weights, seen)[1][1])
        observations.append(seen)
        actions.append(action)
        seen, reward, terminated, truncated, _ = env.step(action)
        rewards.append(float(reward))
        over = terminated or truncated
    return np.array(observations, float), np.array(actions), np.array(rewards)


def returns(rewards: Array, discount: float) -> Array:
    """What came after each step, discounted."""
    after = np.zeros(len(rewards) + 1)
    for t in reversed(range(len(rewards))):
        after[t] = rewards[t] + discount * after[t + 1]
    return after[:-1]


def gradient(weights: Weights, observations: Array, actions: NDArray[np.int64], gains: Array) -> Weights:
    """Of the loss: -log π(action) · advantage + ½ (baseline - gain)², averaged."""
    hidden, chances = forward(weights, observations)
    error = hidden @ weights["value"] - gains
    advantage = -error
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    logits = (chances - np.eye(2)[actions]) * advantage[:, None] / len(gains)
    below = (logits @ weights["w2"].T) * (1 - hidden**2)  # the baseline only reads the hidden layer
    return {
        "w1": (observations * SCALE).T @ below,
        "b1": below.sum(0),
        "w2": hidden.T @ logits,
        "value": hidden.T @ error / len(gains),
    }


def save_checkpoint(weights: Weights, env_steps: int, reward: float) -> None:
    """Leave weights that `run:` can play and this program can resume from, and announce them to Mosaic."""
    if "MOSAIC_CHECKPOINT_DIR" not in os.environ:
        return
    folder = Path(os.environ["MOSAIC_CHECKPOINT_DIR"])
    layers = ((SCALE[:, None] * weights["w1"], weights["b1"]), (weights["w2"], np.zeros(2)))
    save_policy_network(folder / "policy.safetensors", layers)
    np.savez(folder / "weights.npz", **weights)  # type: ignore[arg-type]
    saved = {"env_steps": env_steps, "reward": reward, "policy": "policy.safetensors", "files": ["weights.npz"]}
    print("@CHECKPOINT", json.dumps(saved), flush=True)


def train(args: argparse.Namespace) -> Weights:
    random, env = np.random.default_rng(args.seed), gym.make("CartPole-v1")
    start = os.environ.get("MOSAIC_RESUME_FROM")
    weights = dict(load(Path(start, "weights.npz"))) if start else new_weights(args.hidden, random)
    mean = {name: np.zeros_like(value) for name, value in weights.items()}  # Adam's two moments
    square = {name: np.zeros_like(value) for name, value in weights.items()}
    env_steps, reward = int(os.environ.get("MOSAIC_RESUME_ENV_STEPS", 0)), 0.0
    try:
        for iteration in range(1, args.iterations + 1):
            batch = [episode(env, weights, random) for _ in range(args.episodes)]
            lengths = [float(rewards.sum()) for _, _, rewards in batch]
            reward = float(np.mean(lengths))
            env_steps += sum(len(rewards) for _, _, rewards in batch)
            emit_metric(
                kind="iteration",
                training_iteration=iteration,
                timesteps_total=env_steps,
                episode_reward_mean=float(np.mean(lengths)),
            )
            if np.mean(lengths) >= args.target:
                break
            seen, actions = (np.concatenate([each[part] for each in batch]) for part in (0, 1))
            gains = np.concatenate([returns(rewards, args.discount) for _, _, rewards in batch])
            for name, slope in gradient(weights, seen, actions, gains).items():
                mean[name] += 0.1 * (slope - mean[name])
                square[name] += 0.001 * (slope**2 - square[name])
                step = (mean[name] / (1 - 0.9**iteration)) / (np.sqrt(square[name] / (1 - 0.999**iteration)) + 1e-8)
                weights[name] -= args.learning_rate * step
            if iteration % args.save_every == 0:
                save_checkpoint(weights, env_steps, reward)
    except KeyboardInterrupt:
        print("asked to stop: what was learned so far is kept")
    save_checkpoint(weights, env_steps, reward)
    return weights


@cache
def load(path: Path) -> Weights:
    with np.load(path) as file:
        return dict(file)


def play(observation: Any, mask: Any) -> int:
    """The likelier action, by the weights that CLEANRL_STYLE_WEIGHTS names."""
    return int(forward(load(default_weights()), np.asarray(observation, float))[1].argmax())


if __name__ == "__main__":
    arguments = parse_args()
    np.savez(arguments.out, **train(arguments))  # type: ignore[arg-type]
    print(f"weights are in {arguments.out}")
