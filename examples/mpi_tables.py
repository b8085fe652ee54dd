"""A table trained by several MPI ranks, which merge what they have learned: the same table as with threads.

python examples/mpi_tables.py       # pip install 'mosaic-rl[mpi]'
"""

from __future__ import annotations

import mosaic

ENV = "gym/Taxi-v3"


def main(steps: int = 20_000_000, ranks: int = 2) -> float:
    """Return the mean return of the trained table."""
    run = mosaic.train(ENV, worker="tabular", runtime="mpi", num_env_runners=ranks, total_timesteps=steps, seed=1)
    result = mosaic.evaluate(ENV, {"*": f"run:{run.id}"}, episodes=100, seed=7, max_steps=200)
    mean = result.agents["agent_0"].returns.mean or 0.0
    print(f"{run.metrics()['env_steps'][-1]:,} env steps by {ranks} ranks; mean return {mean:.1f}")
    return mean


if __name__ == "__main__":
    main()
