"""Random actions in VMAS's simple_spread on one thread: python vmas_spread.py JSON-options."""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time

import torch
import vmas

torch.set_num_threads(1)


def main() -> None:
    asked = json.loads(sys.argv[1])
    env = vmas.make_env(
        "simple_spread", num_envs=asked["envs"], device="cpu", continuous_actions=False, seed=asked["seed"], n_agents=3
    )
    env.reset()
    drawn = [[torch.randint(5, (asked["envs"], 1)) for _ in range(3)] for _ in range(50)]

    def play(steps: int) -> None:
        with torch.no_grad():
            for number in range(steps):
                if number % 25 == 0:
                    env.reset()
                env.step(drawn[number % 50])

    play(20)
    wall, cpu = perf_counter(), process_time()
    play(asked["steps"])
    took = {"wall_s": perf_counter() - wall, "cpu_s": process_time() - cpu}
    print(json.dumps({"steps": asked["steps"] * asked["envs"], **took}), flush=True)


if __name__ == "__main__":
    main()
