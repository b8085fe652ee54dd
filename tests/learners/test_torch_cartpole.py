"""The GPU benchmark's program, small and on the CPU: its env is CartPole, and an iteration learns."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.fixture
def gpu() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("gpu_benchmark", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_benchmark"] = module
    spec.loader.exec_module(module)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield module
    torch.set_num_threads(threads)
    del sys.modules["gpu_benchmark"]


def test_the_batched_env_is_gymnasiums_cartpole(gpu: ModuleType) -> None:
    gpu.check_physics()


def test_iterations_learn(gpu: ModuleType) -> None:
    plan = gpu.Plan(128, 32, 4, (32, 32), True, 2.5e-3, seed=0, compiled=False)
    learning = gpu.Learning(plan, torch.device("cpu"))
    before = gpu.mean_return(learning)
    for _ in range(15):
        learning.iterate()
    assert gpu.mean_return(learning) > before + 20


def test_advantages_end_where_the_pole_falls_and_bootstrap_where_time_is_up(gpu: ModuleType) -> None:
    plan = gpu.Plan(3, 2, 1, (4,), True, 1e-3, seed=0, compiled=False)
    learning = gpu.Learning(plan, torch.device("cpu"))
    learning.val[:] = 2.0
    learning.fell[0, 0, 0] = 1
    learning.cut[0, 0, 1] = 1
    learning._advantages(torch.full((1, 3), 3.0))
    reward, gamma, decay = gpu.REWARD, gpu.GAMMA, gpu.GAMMA * gpu.LAMBDA
    last = reward + gamma * 3.0 - 2.0
    expected = [reward - 2.0, reward + gamma * 2.0 - 2.0, reward + gamma * 2.0 - 2.0 + decay * last]
    torch.testing.assert_close(learning.adv[0, 0], torch.tensor(expected))
    torch.testing.assert_close(learning.adv[0, 1], torch.full((3,), last))
