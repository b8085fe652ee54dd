"""Benchmark of training entirely on a GPU: envs, networks and updates as tensors, in one CUDA graph.

python benchmarks/gpu.py [cartpole] [connect_four] [--envs 65536] [--compile]     on a CUDA device
python benchmarks/gpu.py cartpole --device cpu --envs 64 --steps 300000           the same runs, small, without one

Each row is a run of the product (`mosaic train`, env_device=learner). The gates: CartPole's mean return is 475 at the
end; connect four wins 90 % of 200 games against random play. Without them no speed is printed. The speed counts from
the second iteration on: the first one captures the graph.

One NVIDIA H200, 16 cores, torch 2.11.0+cu130, the gates passed:

    cartpole                         118.8 M steps/s; 126.0 M with --compile
    connect_four                      23.3 M moves/s, 98 % wins against random play

The same CartPole run to a mean return of 475: 53 M steps. simple_spread (16,384 envs, 3 agents) makes 24 M env steps/s;
it has no row, since no gate was set. With envs on the CPU (env_device=cpu), 16,384 to 65,536 CartPoles make 4.3 to
6.6 M steps/s.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from functools import partial
from typing import Any, NamedTuple

import torch
from figures import note_figure, note_skipped
from ppo_rows.measure import gate
from row_table import run_row

import mosaic


class Row(NamedTuple):
    env_id: str
    envs: int
    steps: int
    params: dict[str, Any]
    policies: str = "parameter_sharing"


COMMON = {"n_steps": 16, "n_epochs": 1, "learning_rate": 2.5e-3, "share_layers": True, "engine": "torch"}
ROWS = {
    "cartpole": Row(
        "gym/CartPole-v1",
        65536,
        2_000_000_000,
        {"n_steps": 32, "vf_coef": 0.01, "gamma": 0.98, "gae_lambda": 0.9, "hidden": [64, 64]},
    ),
    "connect_four": Row(
        "classic/connect_four_v3",
        32768,
        400_000_000,
        {"gamma": 1.0, "ent_coef": 0.01, "hidden": [128, 128]},
        "self_play",
    ),
}
GATES = {"cartpole": 475.0, "connect_four": 0.9}
MINIBATCHES = 8


def measure(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    row = ROWS[name]
    envs, steps = asked.envs or row.envs, asked.steps or row.steps
    params = {**COMMON, **row.params, "device": asked.device, "env_device": "learner", "compile": asked.compile}
    params["batch_size"] = envs * int(params["n_steps"]) // MINIBATCHES
    config = {
        "environment": {"env_id": row.env_id, "num_envs": envs},
        "policy_configuration": row.policies,
        "training": {
            "worker": "native",
            "algorithm": "ppo",
            "preset": False,
            "total_timesteps": steps,
            "params": params,
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MOSAIC_HOME"] = folder  # evaluations look there too
        run = mosaic.train(config)
        events = [event for event in run.events() if event["kind"] == "iteration" and event.get("env_steps")]
        first, last = events[0], events[-1]
        speed = (last["env_steps"] - first["env_steps"]) / (last["timestamp"] - first["timestamp"])
        reached = last["episode_reward_mean"]
        if name == "connect_four":
            games = mosaic.evaluate(
                row.env_id, {"player_0": f"run:{run.id}", "player_1": "random"}, episodes=200, seed=1
            )
            reached = games.to_json()["agents"]["player_0"]["wins"] / 200
    found = {"row": name, "envs": envs, "env_steps_per_s": round(speed), "gate": GATES[name], "reached": reached}
    print(json.dumps(found), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--quick", action="store_true", help="the same: a row takes seconds, and has a gate only")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--envs", type=int, help="other than the row's")
    parser.add_argument("--steps", type=int, help="of the whole run, other than the row's")
    parser.add_argument("--compile", action="store_true", help="networks through torch.compile")
    asked = parser.parse_args()
    if unknown := set(asked.rows) - ROWS.keys():
        parser.error(f"There is no row {', '.join(sorted(unknown))}. Rows: {', '.join(ROWS)}.")
    if asked.device.startswith("cuda") and not torch.cuda.is_available():
        print("There is no CUDA device here: nothing is measured.")
        for name in asked.rows or ROWS:
            note_skipped(name, "there is no CUDA device here")
        return

    def row(name: str) -> None:
        found = measure(name, asked)
        reached = found["reached"]
        gate(reached is not None and reached >= GATES[name], f"{name} reaches {reached} of {GATES[name]}")
        note_figure(name, "M steps/s", [found["env_steps_per_s"] / 1e6])
        print(f"{name}: {found['env_steps_per_s'] / 1e6:,.1f} M steps/s with learning")

    failed = [name for name in asked.rows or ROWS if not run_row(name, partial(row, name))]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
