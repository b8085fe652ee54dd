"""Files of SB3 policies: what is written is what was there, and plain SB3 opens the zip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mosaic.core.errors import FormatError, InputError
from mosaic.envs.space_json import space_to_json
from mosaic.models.weights_file import NotFiniteError
from mosaic.workers.sb3.checkpoint.facts import load_policy_file
from mosaic.workers.sb3.checkpoint.writer import describe_model, policy_files, write_policy
from tests.workers.sb3.models import CLASSES, VECTOR, action_of, make_model


@pytest.mark.parametrize("algorithm", CLASSES)
def test_what_is_read_is_what_was_written(algorithm: str, tmp_path: Path) -> None:
    model = make_model(algorithm, VECTOR, action_of(algorithm))
    scaler = (np.full(5, 0.5, np.float32), np.full(5, 2.0, np.float32))

    assert write_policy(model, tmp_path, "learner", scaler=scaler) == policy_files("learner")

    read, described = load_policy_file(tmp_path / "learner.safetensors"), describe_model(model)
    assert read.facts == described.facts
    assert read.facts.algorithm == algorithm
    assert read.facts.observation == space_to_json(VECTOR)
    assert read.weights.keys() == described.weights.keys()
    assert all(np.array_equal(read.weights[name], described.weights[name]) for name in read.weights)
    assert read.scaler is not None
    assert np.array_equal(read.scaler, scaler)


def test_plain_sb3_opens_the_zip_without_mosaic(tmp_path: Path) -> None:
    model = make_model("ppo", VECTOR, action_of("ppo"))
    write_policy(model, tmp_path, "learner")
    program = (
        "import sys; sys.modules['mosaic'] = None\n"
        "from stable_baselines3 import PPO\n"
        f"model = PPO.load({str(tmp_path / 'learner')!r}, device='cpu')\n"
        "print(*model.predict(model.observation_space.low, deterministic=True)[0].ravel())"
    )

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)

    assert said.stdout.split() == [str(model.predict(VECTOR.low, deterministic=True)[0])]


def test_writing_draws_no_random_number(tmp_path: Path) -> None:
    model = make_model("sac", VECTOR, action_of("sac"), use_sde=True)
    before, drawn = torch.get_rng_state(), np.random.get_state()[1]

    write_policy(model, tmp_path, "learner")

    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(drawn, np.random.get_state()[1])


def test_diverged_weights_are_not_written(tmp_path: Path) -> None:
    model = make_model("ppo", VECTOR, action_of("ppo"))
    with torch.no_grad():
        model.policy.action_net.weight[0, 0] = torch.nan

    with pytest.raises(NotFiniteError, match=r"action_net\.weight.*not finite: 1 of"):
        write_policy(model, tmp_path, "learner")

    assert not list(tmp_path.iterdir())


def test_an_activation_that_cannot_be_played_is_refused() -> None:
    model = make_model("ppo", VECTOR, action_of("ppo"), policy_kwargs={"activation_fn": torch.nn.Hardswish})

    with pytest.raises(InputError, match=r"Hardswish.*Known: ELU, GELU"):
        describe_model(model)


def test_another_safetensors_file_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(1, np.float32)}, tmp_path / "other.safetensors")
    with pytest.raises(FormatError, match="does not hold a policy of Stable-Baselines3"):
        load_policy_file(tmp_path / "other.safetensors")
    save_file({"x": np.zeros(1, np.float32)}, tmp_path / "forged.safetensors", {"mosaic": '{"format":"mosaic-sb3-1"}'})
    with pytest.raises(FormatError, match="does not describe its policy"):
        load_policy_file(tmp_path / "forged.safetensors")
