"""A Ray cluster of two nodes, and a run that trains on it.

python examples/ray_cluster.py                  # two nodes on this machine, ended afterwards
python examples/ray_cluster.py HOST:6379        # a cluster that runs already
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mosaic

ENV = "gym/CartPole-v1"


@contextmanager
def two_nodes() -> Iterator[str]:
    """Start two Ray nodes on this machine, each with two CPUs as Ray counts them; yield their address."""
    os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 2, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster: Any = Cluster(initialize_head=True, head_node_args=node)
    try:
        cluster.add_node(num_cpus=2, object_store_memory=100_000_000)
        yield str(cluster.address)
    finally:
        cluster.shutdown()


def train_on(address: str, steps: int = 20_000) -> mosaic.Run:
    """Train with two env runners on the cluster; the run's folder stays on this machine."""
    run = mosaic.train(
        {
            "environment": {"env_id": ENV},
            "training": {"worker": "rllib", "algorithm": "ppo", "total_timesteps": steps},
            "resources": {"num_env_runners": 2, "ray_address": address},
        }
    )
    print(f"{run.id}: mean return {run.metrics()['episode_reward_mean'][-1]:.0f}")
    return run


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train_on(sys.argv[1])
    else:
        with two_nodes() as here:
            train_on(here)
