"""Exported SB3 policies act as their controllers do, for every algorithm and every kind of network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from mosaic.exports.observations import draw
from mosaic.exports.tracing import ExportSettings, trace
from mosaic.workers.sb3.checkpoint.controllers import load_controller
from mosaic.workers.sb3.checkpoint.exportable import load_exportable
from mosaic.workers.sb3.checkpoint.writer import write_policy
from tests.exports import targets
from tests.workers.sb3.models import CLASSES, VECTOR, action_of, make_model
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


NUMBERS = spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize("algorithm", CLASSES)
def test_every_target(algorithm: str, tmp_path: Path) -> None:
    acts = NUMBERS if isinstance(action_of(algorithm), spaces.Box) else action_of(algorithm)
    write_policy(make_model(algorithm, VECTOR, acts), tmp_path, "learner")
    asked, masked = request_of(VECTOR, acts), algorithm == "maskable_ppo"
    reason = {"maskable_ppo": targets.MASKS, "recurrent_ppo": targets.MEMORY}.get(algorithm)
    targets.check_targets(
        lambda: [make(tmp_path / "learner.safetensors", asked) for make in (load_controller, load_exportable)],
        asked,
        masked=masked,
        godot=reason,
    )


@pytest.mark.parametrize("name", ["ppo, images", "ppo, several choices"])
def test_every_target_of_other_networks(name: str, tmp_path: Path) -> None:
    algorithm, seen, acts, options = CASES[name]
    write_policy(make_model(algorithm, seen, acts, **options), tmp_path, "learner")
    reason = targets.PICTURE if name == "ppo, images" else None
    asked = request_of(seen, acts)
    targets.check_targets(
        lambda: [make(tmp_path / "learner.safetensors", asked) for make in (load_controller, load_exportable)],
        asked,
        godot=reason,
    )
