"""Training state of every off-policy algorithm, written and read: replay buffer, optimizers and counters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mosaic.core.errors import InputError
from mosaic.workers.sb3.state import load_state, save_state
from tests.workers.sb3.models import VECTOR, action_of, make_model

OFF_POLICY = ("dqn", "qrdqn", "sac", "td3", "tqc", "crossq")
PARTS = spaces.Dict({"vector": VECTOR, "gear": spaces.Discrete(4)})
COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def trained(algorithm: str, seen: spaces.Space[Any], steps: int, **options: Any) -> Any:
    model = make_model(
        algorithm, seen, action_of(algorithm), buffer_size=24, learning_starts=4, batch_size=4, train_freq=4, **options
    )
    return model.learn(steps) if steps else model


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(np.array_equal(one, other))


@pytest.mark.parametrize("steps", [12, 40])  # a part of the buffer, and once around it
@pytest.mark.parametrize("algorithm", OFF_POLICY)
def test_the_replay_buffer_is_resumed(algorithm: str, steps: int, tmp_path: Path) -> None:
    saved = trained(algorithm, VECTOR, steps)
    save_state(tmp_path, saved, {})
    model = trained(algorithm, VECTOR, 0)
    load_state(tmp_path, model)
    old, new = saved.replay_buffer, model.replay_buffer
    assert (new.pos, new.full, new.size()) == (old.pos, old.full, old.size())
    assert new.size() == min(steps, 24)
    for name in COLUMNS:
        assert same(getattr(new, name)[: new.size()], getattr(old, name)[: old.size()]), name
    assert model.num_timesteps == saved.num_timesteps
    assert model._n_updates == saved._n_updates > 0
    for name, tensor in saved.policy.state_dict().items():
        assert torch.equal(tensor, model.policy.state_dict()[name]), name


def test_a_replay_buffer_of_dicts_is_resumed(tmp_path: Path) -> None:
    saved = trained("dqn", PARTS, 12)
    save_state(tmp_path, saved, {})
    model = trained("dqn", PARTS, 0)
    load_state(tmp_path, model)
    assert same(model.replay_buffer.observations, saved.replay_buffer.observations)
    assert saved.replay_buffer.observations["gear"].any()


def test_a_smaller_buffer_cannot_take_a_saved_one(tmp_path: Path) -> None:
    save_state(tmp_path, trained("dqn", VECTOR, 20), {})
    smaller = make_model("dqn", VECTOR, action_of("dqn"), buffer_size=8)
    with pytest.raises(InputError, match=r"replay buffer's 'actions' has the shape \(20, 1, 1\), and this run's \(8,"):
        load_state(tmp_path, smaller)
