"""Results of searches: order, state, and which options mattered."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.config.loading import parse_run_config
from mosaic.runs.tuning.results import SearchTrial, importance_of, list_searches, read_search
from mosaic.store.store import Store
from mosaic.telemetry.events.writer import EventWriter
from tests.runs.tuning.tuning_cases import RATES, written_search


def test_trials_are_ranked_and_options_weighed(tmp_path: Path) -> None:
    written_search(tmp_path)
    found = read_search(Store(tmp_path), "latest")
    assert found.state == "finished"
    assert [trial.trial for trial in found.trials] == [4, 3, 2, 1, 0]
    assert found.best is not None
    assert found.best.options["learning_rate"] == RATES[-1]
    assert list(found.importance) == ["learning_rate", "activation"]
    assert found.importance["learning_rate"] == pytest.approx(1.0)
    assert found.importance["activation"] < 0.2
    assert [each.search_id for each in list_searches(Store(tmp_path))] == ["cartpole-search"]


def test_a_search_without_a_result_is_read_from_its_runs(tmp_path: Path) -> None:
    written_search(tmp_path, planned=3).result.unlink()
    store = Store(tmp_path)
    for number, rate in enumerate((0.1, 0.2)):
        document = {
            "environment": {"env_id": "gym/CartPole-v1"},
            "training": {"worker": "native", "algorithm": "ppo", "params": {"learning_rate": rate}},
            "run_id": f"cartpole-search-{number:02}",
            "tags": ["cartpole-search"],
        }
        folder = store.create(parse_run_config(document))
        with EventWriter(folder.metrics, attempt=1) as writer:
            writer.report(kind="iteration", env_steps=10, episode_reward_mean=5.0 + number)
    found = read_search(store, "cartpole-search")
    assert found.state == "interrupted"
    assert [(trial.trial, trial.score, trial.options["learning_rate"]) for trial in found.trials] == [
        (1, 6.0, 0.2),
        (0, 5.0, 0.1),
    ]
    assert found.importance == {}


def test_equal_scores_say_nothing_about_options() -> None:
    trials = [SearchTrial(trial=n, state="done", options={"a": n, "b": "x"}, score=1.0) for n in range(5)]
    assert importance_of(trials, ("a", "b")) == {"a": 0.0, "b": 0.0}
