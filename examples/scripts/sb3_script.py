"""A script of Stable-Baselines3 that reports to Mosaic with one line more: a callback.

    mosaic train gym/CartPole-v1 --worker script \\
        --set 'training.params.command=python examples/scripts/sb3_script.py --steps 20000'
    mosaic evaluate gym/CartPole-v1 --agent '*=run:latest'      # the model that it saved
"""

from __future__ import annotations

import argparse
import os

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from mosaic import MosaicCallback


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=20_000, help="env steps, of all attempts together")
    parser.add_argument("--save-every", type=int, default=5_000, help="env steps between two checkpoints")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MOSAIC_SEED", 0)))
    args = parser.parse_args()
    env = make_vec_env(args.env, seed=args.seed)
    start = os.environ.get("MOSAIC_RESUME_FROM")
    if start:
        model = PPO.load(f"{start}/policy.zip", env=env, device="cpu")
    else:
        model = PPO("MlpPolicy", env, n_steps=512, seed=args.seed, device="cpu")
    model.learn(
        max(0, args.steps - model.num_timesteps),
        callback=MosaicCallback(every_s=0.5, checkpoint_every=args.save_every),
        reset_num_timesteps=not start,
    )


if __name__ == "__main__":
    main()
