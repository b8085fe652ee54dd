"""Envs as tensors against their compiled kernels, in lock-step from equal states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import CompiledVector, make_compiled_vector
from mosaic.envs.tensors.rules import find_rules
from mosaic.envs.tensors.vector import TensorVector, make_tensor_vector

CPU = torch.device("cpu")
CASES: list[tuple[str, dict[str, Any]]] = [
    ("gym/CartPole-v1", {}),
    ("gym/CartPole-v1", {"sutton_barto_reward": True}),
    ("gym/MountainCar-v0", {"goal_velocity": 0.01}),
    ("gym/Acrobot-v1", {}),
    ("gym/Pendulum-v1", {"g": 9.81}),
    ("classic/tictactoe_v3", {}),
    ("mosaic/tictactoe", {"illegal": "lost"}),
    ("classic/connect_four_v3", {}),
    ("mpe/simple_spread_v3", {}),
    ("mpe/simple_spread_v3", {"N": 5, "local_ratio": 0.2, "max_cycles": 7}),
]


def pair(env_id: str, options: dict[str, Any], envs: int, dtype: torch.dtype) -> tuple[CompiledVector, TensorVector]:
    config = EnvironmentConfig(env_id=env_id, options=options)
    compiled, kernel, rules = make_compiled_vector(config, envs), find_kernel(config), find_rules(config, CPU)
    assert compiled is not None
    assert kernel is not None
    assert rules is not None
    return compiled, TensorVector(kernel, rules, envs, CPU, dtype=dtype)


def actions(vector: CompiledVector, random: np.random.Generator) -> NDArray[np.float32]:
    shape = vector.shape
    head = shape.heads[0]
    if head.kind == "gaussian":
        return random.normal(0, 2, (shape.slots, shape.parts)).astype(np.float32)
    tried = random.random((shape.slots, head.sizes[0]))
    if shape.masked:
        tried *= vector.mask
    return tried.argmax(1)[:, None].astype(np.float32)


@pytest.mark.parametrize(("env_id", "options"), CASES)
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-6), (torch.float32, 2e-4)])
def test_lock_step(env_id: str, options: dict[str, Any], dtype: torch.dtype, error: float) -> None:
    """After each step the tensors continue from the kernel's state: random beginnings differ, rules must not."""
    envs, steps = 64, 300
    compiled, tensors = pair(env_id, options, envs, dtype)
    random, ends = np.random.default_rng(3), 0
    compiled.reset(5)
    for _ in range(steps):
        tensors.load(compiled.state, compiled.ints)
        tensors._copy(tensors.show())
        for name in ("obs", "mask", "who"):
            np.testing.assert_allclose(getattr(tensors, name), getattr(compiled, name), atol=error, err_msg=name)
        act = actions(compiled, random)
        compiled.step(act)
        tensors.step(act)
        near_an_end = np.zeros(len(compiled.term), bool)
        if dtype == torch.float32:  # rounding may move a state over the edge, or a touch
            near_an_end = (tensors.term != compiled.term) | (np.abs(tensors.rew - compiled.rew) > error)
            assert near_an_end.mean() < 0.02
        same = ~near_an_end
        np.testing.assert_array_equal(tensors.term[same], compiled.term[same])
        np.testing.assert_array_equal(tensors.trunc[same], compiled.trunc[same])
        np.testing.assert_allclose(tensors.rew[same], compiled.rew[same], atol=error)
        cut = same & (compiled.trunc > 0)
        np.testing.assert_allclose(tensors.fin[cut], compiled.fin[cut], atol=error)
        ends += int((compiled.term | compiled.trunc).sum())
    assert ends or env_id in ("gym/Acrobot-v1", "gym/MountainCar-v0", "gym/Pendulum-v1")


@pytest.mark.parametrize(("env_id", "options"), [case for case in CASES if case[0].startswith(("gym", "mpe"))])
def test_time_limit(env_id: str, options: dict[str, Any]) -> None:
    compiled, tensors = pair(env_id, options, 4, torch.float64)
    compiled.reset(1)
    ages = []
    for age in range(1, 1001):
        compiled.ints[:] = age - 1
        tensors.load(compiled.state, compiled.ints)
        taken = tensors.advance(torch.zeros(4, compiled.shape.slots_per_env, 1))
        if bool(taken.truncated.all()):
            ages.append(age)
    assert ages
    limits = {"gym/CartPole-v1": 500, "gym/MountainCar-v0": 200, "gym/Acrobot-v1": 500, "gym/Pendulum-v1": 200}
    assert ages[0] == limits.get(env_id, options.get("max_cycles", 25))


@pytest.mark.parametrize(("env_id", "options"), CASES)
def test_beginnings_have_the_kernels_distribution(env_id: str, options: dict[str, Any]) -> None:
    compiled, tensors = pair(env_id, options, 4000, torch.float32)
    compiled.reset(7)
    tensors.reset(7)
    for name in ("obs", "mask", "who"):
        mine, theirs = getattr(tensors, name), getattr(compiled, name)
        if not mine.size:  # nothing is masked
            continue
        np.testing.assert_allclose(mine.mean(0), theirs.mean(0), atol=0.06)
        np.testing.assert_allclose(mine.std(0), theirs.std(0), atol=0.06)
    assert not tensors.term.any()
    first = tensors.obs.copy()
    tensors.reset(7)
    np.testing.assert_array_equal(first, tensors.obs)


def test_options_without_rules_are_left_to_the_kernels() -> None:
    near = EnvironmentConfig(env_id="mpe/simple_spread_v3", options={"num_agent_neighbors": 1})
    assert find_kernel(near) is not None
    assert find_rules(near, CPU) is None
    assert find_rules(EnvironmentConfig(env_id="gym/Taxi-v3"), CPU) is None
    assert make_tensor_vector(EnvironmentConfig(env_id="gym/Taxi-v3"), 2, CPU) is None


@pytest.mark.parametrize("env_id", ["gym/CartPole-v1", "classic/connect_four_v3", "mpe/simple_spread_v3"])
def test_a_picture_is_the_reference_envs(env_id: str) -> None:
    vector = make_tensor_vector(EnvironmentConfig(env_id=env_id), 3, CPU)
    assert vector is not None
    vector.reset(0)
    picture = vector.render(1)
    vector.close()
    assert picture is not None
    assert picture.std() > 0
