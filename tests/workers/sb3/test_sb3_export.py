"""Exported SB3 policies act as their controllers do, for every algorithm and every kind of network."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.exports.observations import draw
from mosaic.exports.tracing import ExportSettings, trace
from mosaic.workers.sb3.checkpoint.controllers import load_controller
from mosaic.workers.sb3.checkpoint.exportable import load_exportable
from mosaic.workers.sb3.checkpoint.writer import write_policy
from tests.workers.sb3.models import make_model
from tests.workers.sb3.test_sb3_controllers import CASES, request_of


@pytest.mark.parametrize("name", CASES)
def test_a_policy_acts_alike_as_a_file(name: str, tmp_path: Path) -> None:
    algorithm, seen, acts, options = CASES[name]
    write_policy(make_model(algorithm, seen, acts, **options), tmp_path, "learner")
    asked = request_of(seen, acts)
    made = [make(tmp_path / "learner.safetensors", asked) for make in (load_controller, load_exportable)]
    masked = algorithm == "maskable_ppo"
    samples = list(draw(asked.spec, asked.agents, 60, masked=masked))
    _, parity = trace(made[0], made[1], asked, ([], samples), ExportSettings())
    assert parity.passed, parity
    assert parity.random == 60
