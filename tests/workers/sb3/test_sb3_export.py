"""Exported SB3 policies act as their controllers do, for every algorithm and every kind of network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy

from mosaic.core.errors import InputError, TrustError
from mosaic.exports.observations import draw
from mosaic.exports.tracing import ExportSettings, trace
from mosaic.store.policies.foreign_checkpoint import ForeignSource
from mosaic.workers.sb3.checkpoint.controllers import load_controller
from mosaic.workers.sb3.checkpoint.exportable import load_exportable
from mosaic.workers.sb3.checkpoint.writer import write_policy
from mosaic.workers.sb3.checkpoint.zip_policy import convert_zip
from tests.exports import targets
from tests.workers.sb3.models import CHOICE, CLASSES, VECTOR, Spaces, action_of, make_model
from tests.workers.sb3.test_sb3_controllers import CASES, request_of
from tests.workers.sb3.test_sb3_zip import Halved


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


class Turned(ActorCriticPolicy):
    """A user's own policy, which acts in another way than its weights say."""

    def _predict(self, observation: Any, deterministic: bool = False) -> Any:
        return 3 - super()._predict(observation, deterministic)


class NatureCNN(Halved):
    """A user's own features extractor with the name of one of SB3's."""


@pytest.mark.parametrize(
    ("policy", "kwargs", "reason"),
    [
        ("MlpPolicy", {"features_extractor_class": Halved}, "The features extractor Halved is not one of SB3's own"),
        ("MlpPolicy", {"features_extractor_class": NatureCNN}, "The features extractor NatureCNN is not one of SB3's"),
        (Turned, {}, "The policy class Turned of .* is not one of SB3's own"),
    ],
)
def test_a_users_own_classes_are_refused_with_the_reason(
    policy: Any, kwargs: dict[str, Any], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = PPO(policy, Spaces(VECTOR, CHOICE), policy_kwargs=kwargs, n_steps=8, batch_size=8, device="cpu")
    model.save(tmp_path / "own.zip")
    source, asked = ForeignSource(tmp_path / "own.zip"), request_of(VECTOR, CHOICE)
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    with pytest.raises(TrustError, match="add --trust"):
        convert_zip(source, tmp_path, asked)
    monkeypatch.setenv("MOSAIC_TRUST", "1")
    with pytest.raises(InputError, match=reason):
        convert_zip(source, tmp_path, asked)
    assert os.listdir(tmp_path) == ["own.zip"]
