"""Schedules of PPO's learning rate and clip range."""

import pytest

from mosaic.learners.bc.options import BcOptions, DaggerOptions
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.ppo.algorithm import schedule_factor
from mosaic.learners.ppo.options import PpoOptions


@pytest.mark.parametrize(("left", "factor"), [(1.0, 1.0), (0.5, 0.5), (0.02, 0.02), (0.001, 0.02), (0.0, 0.02)])
def test_a_linear_schedule_falls_to_a_floor(left, factor):
    assert schedule_factor("linear", left) == factor
    assert schedule_factor("constant", left) == 1.0


@pytest.mark.parametrize("options", [PpoOptions, DqnOptions, BcOptions, DaggerOptions])
def test_the_help_of_schedules_names_the_floor(options):
    said = {name: field.description for name, field in options.model_fields.items() if name.endswith("_schedule")}
    assert said
    assert [
        name for name, text in said.items() if f"{schedule_factor('linear', 0.0):.0%}".replace("%", " %") not in text
    ] == []
