"""Cost of one env runner to the driver and the learner, part by part: python scale_probe.py JSON-question.

Seconds are those of the processor, which other programs of the machine disturb less than those of the clock.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from by_hand import config_of

REPEATS = 7
MANY = 100  # copies of one runner's result, to estimate what a hundred runners would send


def figures(asked: dict[str, Any]) -> dict[str, float]:
    """Return seconds and bytes of one iteration with one runner, which samples a whole batch."""
    import ray
    from ray import cloudpickle as pickle  # multi-agent episodes hold functions

    algorithm = config_of(asked).build_algo()
    group, learners = algorithm.env_runner_group, algorithm.learner_group
    algorithm.train()
    (actor,) = group._worker_manager.actors().values()

    def sample() -> Any:
        return group.foreach_env_runner(_sample, local_env_runner=False)[0]

    episodes, metrics, _ = sample()
    sample_s = median(sample()[2] for _ in range(REPEATS))
    steps = sum(len(episode) for episode in episodes)
    message = pickle.dumps(episodes, protocol=5)
    weights = learners.get_state(components="learner/rl_module", inference_only=True)["learner"]["rl_module"]
    before = len(pickle.dumps(metrics, protocol=5))
    answer = {
        "steps": steps,
        "sample_s": sample_s,
        "message_bytes": len(message),
        "metrics_bytes": before,
        "weights_bytes": len(pickle.dumps(weights, protocol=5)),
        "unpack_s": _seconds(lambda: pickle.loads(message)),
        "update_s": _seconds(lambda: _update(algorithm, episodes), 3),
        "one_epoch_s": _seconds(lambda: _update(algorithm, episodes, 1), 3),
        "sync_s": _seconds(lambda: group.sync_weights(from_worker_or_learner_group=learners, inference_only=True)),
        "call_s": _seconds(lambda: ray.get([actor.apply.remote(_nothing) for _ in range(MANY)])) / MANY,
        "put_s": _seconds(lambda: ray.put(weights)),
        "aggregate_many_s": _seconds(lambda: _aggregate([pickle.loads(pickle.dumps(metrics)) for _ in range(MANY)]), 3),
        "copy_many_s": _seconds(lambda: [pickle.loads(pickle.dumps(metrics)) for _ in range(MANY)], 3),
        "resident_bytes": _resident(group),
    }  # fmt: skip
    algorithm.stop()
    return answer


def _aggregate(metrics: list[Any]) -> None:
    from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

    MetricsLogger(root=True).aggregate(metrics, key="env_runners")


def _update(algorithm: Any, episodes: Any, epochs: int | None = None) -> None:
    config = algorithm.config
    algorithm.learner_group.update(
        episodes=list(episodes),
        timesteps={"num_env_steps_sampled_lifetime": 0},
        num_epochs=epochs or config.num_epochs,
        minibatch_size=config.minibatch_size,
        shuffle_batch_per_epoch=True,
    )


def _sample(runner: Any) -> Any:
    began = process_time()
    return runner.sample(), runner.get_metrics(), process_time() - began


def _nothing(runner: Any) -> int:
    return 0


def _resident(group: Any) -> float:
    def look(runner: Any) -> int:
        import psutil

        return int(psutil.Process().memory_full_info().uss)

    return float(group.foreach_env_runner(look, local_env_runner=False)[0])


def _seconds(what: Callable[[], Any], repeats: int = REPEATS) -> float:
    seen = []
    for _ in range(repeats):
        began = process_time()
        what()
        seen.append(process_time() - began)
    return median(seen)


def main() -> None:
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", OMP_NUM_THREADS="1")
    import ray
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ray.init(
            num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
            object_store_memory=200 * 2**20, _temp_dir=folder,
        )  # fmt: skip
        try:
            print(json.dumps(figures(json.loads(sys.argv[1]))), flush=True)
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
