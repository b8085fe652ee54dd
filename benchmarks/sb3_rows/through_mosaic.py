"""The same through Mosaic's worker, metrics and checkpoints included: python through_mosaic.py JSON-question."""

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
    """Context that remembers when the loop first asked whether training is over, and when its last work was done."""

    first: tuple[float, float] | None = None
    last = (0.0, 0.0)
    reward = float("nan")
    steps = 0

    def done(self, env_steps: int, episodes: int = 0, reward: float | None = None) -> str | None:
        self._worked()
        self.first = self.first or self.last
        self.steps, self.reward = env_steps, float("nan") if reward is None else reward
        return super().done(env_steps, episodes, reward)

    def report(self, **fields: object) -> int:
        number = super().report(**fields)
        if fields.get("kind", "iteration") == "iteration":
            self._worked()
        return number

    def checkpoint(self, *arguments: Any, **options: Any) -> Path:
        path = super().checkpoint(*arguments, **options)
        self._worked()
        return path

    def _worked(self) -> None:
        self.last = perf_counter(), process_time()


def run(asked: dict[str, Any], home: Path) -> dict[str, float]:
    params = {**asked["params"], "compiled_env": bool(asked.get("compiled"))}
    training = {"worker": "sb3", "algorithm": asked["algorithm"], "preset": False, "params": params,
                "total_timesteps": asked["steps"]}  # fmt: skip
    environment = {"env_id": f"gym/{asked['env']}", "num_envs": asked["envs"]}
    config = parse_run_config(
        {"seed": asked["seed"], "environment": environment, "training": training, "evaluation": {"episodes": 1}}
    )
    worker, folder = load_worker("sb3"), Store(home).create(config)
    with EventWriter(folder.metrics, 1) as writer:
        options = parse_params(worker, asked["algorithm"], params)
        context = TimedContext(config, options, folder, writer, Inbox())
        worker.run(context)
    assert context.first is not None
    wall_s, cpu_s = (after - before for after, before in zip(context.last, context.first, strict=True))
    return {"steps": context.steps, "wall_s": wall_s, "cpu_s": cpu_s, "reward": context.reward}


def main() -> None:
    asked = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="mosaic-benchmark-") as home:
        os.environ["MOSAIC_HOME"] = home
        print(json.dumps(run(asked, Path(home))), flush=True)


if __name__ == "__main__":
    main()
