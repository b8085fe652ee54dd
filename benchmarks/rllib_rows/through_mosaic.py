"""The same through Mosaic's worker, metrics and callbacks included: python through_mosaic.py JSON-question."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

warnings.simplefilter("ignore")

from mosaic.config.loading import parse_run_config  # noqa: E402
from mosaic.store.store import Store  # noqa: E402
from mosaic.telemetry.events.writer import EventWriter  # noqa: E402
from mosaic.workers.context import WorkerContext  # noqa: E402
from mosaic.workers.inbox import Inbox  # noqa: E402
from mosaic.workers.registry import load_worker, parse_params  # noqa: E402


class TimedContext(WorkerContext):
    """Context that records when iterations were reported, and ends the training when its time is up."""

    def begin(self, most_s: float | None) -> None:
        self.marks: list[tuple[int, float, float, float]] = []
        self._ends_at = perf_counter() + (most_s or 1e9)

    def report(self, **fields: Any) -> int:
        if fields["kind"] == "iteration":
            reward = fields.get("episode_reward_mean")
            mean = float("nan") if reward is None else float(reward)
            self.marks.append((int(fields["env_steps"]), perf_counter(), process_time(), mean))
        return super().report(**fields)

    def done(self, env_steps: int, episodes: int = 0, reward: float | None = None) -> str | None:
        if perf_counter() >= self._ends_at:
            return "its time is up"
        return super().done(env_steps, episodes, reward)


def run(asked: dict[str, Any], home: Path) -> dict[str, Any]:
    config = parse_run_config(
        {
            "seed": asked["seed"],
            "environment": {"env_id": asked["env"], "num_envs": asked["envs"]},
            "policy_configuration": asked.get("policies", "parameter_sharing"),
            "training": {
                "worker": "rllib",
                "algorithm": asked.get("algorithm", "ppo"),
                "preset": False,
                "params": {**asked["training"], **asked["model"], **asked.get("params", {}), **_runners(asked)},
                "total_timesteps": asked.get("total"),
                "stop_reward": asked.get("goal"),
            },
            "evaluation": {"episodes": 1},
        }
    )
    worker = load_worker("rllib")
    folder = Store(home).create(config)
    began = perf_counter()
    with EventWriter(folder.metrics, 1) as writer:
        options = parse_params(worker, config.training.algorithm or "ppo", dict(config.training.params))
        context = TimedContext(config, options, folder, writer, Inbox())
        context.begin(asked.get("most_s"))
        worker.run(context)
        context.close_frames(finished=True)
    marks = context.marks
    (first, wall, cpu, _), (steps, end, end_cpu, reward) = marks[0], marks[-1]
    figures = {"steps": steps - first, "wall_s": end - wall, "cpu_s": end_cpu - cpu, "reward": reward}
    if asked.get("whole"):
        best = max((mark[3] for mark in marks if mark[3] == mark[3]), default=float("nan"))
        figures |= {"steps": steps, "wall_s": perf_counter() - began, "best": best, "run": folder.run_id}
    return figures


def _runners(asked: dict[str, Any]) -> dict[str, int]:
    """Return the number of runners; if it is not given, a run gets what fits the machine."""
    return {"num_env_runners": asked["runners"]} if "runners" in asked else {}


def main() -> None:
    asked = json.loads(sys.argv[1])
    import torch

    torch.set_num_threads(1)
    if "home" in asked:
        os.environ["MOSAIC_HOME"] = asked["home"]
        print(json.dumps(run(asked, Path(asked["home"]))), flush=True)
        return
    with tempfile.TemporaryDirectory(prefix="mosaic-benchmark-") as home:
        os.environ["MOSAIC_HOME"] = home
        print(json.dumps(run(asked, Path(home))), flush=True)


if __name__ == "__main__":
    main()
