"""Workers, algorithms, APIs, runtimes and policy configurations, typed in upper and lower case."""

from __future__ import annotations

import pytest

from mosaic import TabularLearner
from mosaic.config.loading import parse_run_config
from mosaic.config.programs import named_programs
from mosaic.core.errors import InputError, UnknownNameError, known_spelling
from mosaic.runs.tuning.plan import TuneSettings
from mosaic.workers.registry import load_worker, options_model, options_schema
from mosaic.workers.resolution import resolve

BOARD = {"env_id": "classic/tictactoe_v3", "api_type": "AEC"}


def test_the_names_of_the_plug_ins_are_stored():
    asked = {
        "environment": BOARD,
        "policy_configuration": "Self_Play",
        "training": {"worker": "Native", "algorithm": "PPO"},
        "resources": {"runtime": "Single"},
    }
    config = resolve(parse_run_config(asked)).config
    stored = (config.training.worker, config.training.algorithm, config.environment.api_type, config.resources.runtime)
    assert (*stored, config.policy_configuration) == ("native", "ppo", "aec", "single", "self_play")


def test_a_worker_is_picked_for_an_algorithm_in_capitals():
    config = resolve(parse_run_config({"environment": BOARD, "training": {"algorithm": "Q_Learning"}})).config
    assert (config.training.worker, config.training.algorithm) == ("tabular", "q_learning")


def test_a_program_in_capitals_is_still_a_program():
    asked = {"environment": BOARD, "training": {"worker": "SCRIPT"}}
    assert named_programs(parse_run_config(asked)) == ["training.worker: script"]


def test_schemas_and_searches():
    worker = load_worker("NATIVE")
    assert options_schema(worker, "PPO") == options_schema(worker, "ppo")
    assert options_model(worker, "DQN") is worker.options("dqn")
    settings = TuneSettings.model_validate({"scheduler": "PBT", "mode": "Min"})
    assert (settings.scheduler, settings.mode) == ("pbt", "min")
    assert TabularLearner(3, 2, "Q_Learning").algorithm == "q_learning"


def test_what_does_not_exist_is_refused_with_the_choices_in_lower_case():
    with pytest.raises(UnknownNameError, match=r"'NATIV'. Did you mean 'native'\? Known: native"):
        load_worker("NATIV")
    with pytest.raises(InputError, match=r"'aec', 'parallel', 'gym' or 'auto'"):
        parse_run_config({"environment": {**BOARD, "api_type": "AECC"}})


def test_names_that_differ_only_in_case_stay_apart():
    assert known_spelling("PPO", ["ppo", "Ppo"]) == "PPO"
    assert known_spelling("Ppo", ["ppo", "Ppo"]) == "Ppo"
    assert known_spelling("python:module:Class", ["ppo"]) == "python:module:Class"
