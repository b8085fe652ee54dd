"""Rewards and observations that are NaN end a run of SB3 with a sentence, not with a printed tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from tests.in_process import trained_here
from tests.workers.hosting import run_config

SMALL = {"n_steps": 32, "batch_size": 16, "n_epochs": 1, "net_arch": [8]}


class Broken(gym.Env[Any, Any]):
    """From step 40 on, what `kind` names is NaN."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    def __init__(self, kind: str, continuous: bool = False) -> None:
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(3)
        self._kind, self._count, self._step = kind, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._count, self._step = self._count + 1, self._step + 1
        broken = float("nan") if self._count >= 40 else 0.0
        seen = np.full(3, broken if self._kind == "observation" else 0.0, np.float32)
        return seen, 1.0 + (broken if self._kind == "reward" else 0.0), self._step == 10, False, {}


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("reward", "NotFiniteError: After 64 steps the weights '"),
        (
            "observation",
            "NotFiniteError: After 41 steps the outputs of the network are not finite, though",
        ),
    ],
)
def test_what_is_not_finite_is_said_in_a_sentence(tmp_path: Path, kind: str, reason: str, continuous: bool) -> None:
    options = {"kind": kind, "continuous": continuous}
    environment = {"env_id": f"python:{__name__}:Broken", "options": options}
    training = {"algorithm": "ppo", "total_timesteps": 500, "preset": False}
    run = trained_here(tmp_path, run_config("sb3", SMALL, environment=environment, training=training))
    assert run.state == "failed"
    assert run.reason.count("\n") < 4
    assert "tensor(" not in run.reason
    assert reason in run.reason
