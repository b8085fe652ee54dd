"""A search whose trials are only written down, for tests of what is shown about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mosaic.config.loading import parse_run_config
from mosaic.runs.tuning.folder import SearchFolder, create_search
from mosaic.runs.tuning.plan import SearchPlan, TuneSettings
from mosaic.store.store import Store

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


def written_search(home: Path, runs: Sequence[str] = (), planned: int = 5) -> SearchFolder:
    """Write a search in which a greater learning rate has a greater score, and the activation does not matter."""
    config = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "native", "algorithm": "ppo"}}
    settings = TuneSettings(search={"learning_rate": "log:1e-4..1e-2", "activation": "tanh|relu"}, trials=planned)
    plan = SearchPlan(
        search_id="cartpole-search",
        config=parse_run_config(config),
        settings=settings,
        concurrent=1,
        working_folder=str(home),
    )
    folder = create_search(Store(home), plan)
    trials = [
        {
            "trial": number,
            "state": "done",
            "options": {"learning_rate": rate, "activation": ("tanh", "relu")[number % 2]},
            "env_steps": 1000,
            "run_id": runs[number] if number < len(runs) else None,
            "reason": "",
            "episode_reward_mean": 10.0 * number,
        }
        for number, rate in enumerate(RATES)
    ]
    folder.result.write_text(json.dumps({"trials": trials}))
    return folder
