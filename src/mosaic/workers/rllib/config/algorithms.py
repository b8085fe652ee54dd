"""RLlib's algorithms by Mosaic's names: their configurations and learners, imported when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.learner.torch.torch_learner import TorchLearner

OFFLINE = ("bc", "marwil", "cql", "iql")  # they learn from a dataset
SQUASHED = ("sac", "tqc", "cql", "iql")  # their continuous actions are squashed to -1 … 1

_CONFIGS: Mapping[str, str] = {
    "ppo": "ray.rllib.algorithms.ppo:PPOConfig",
    "a2c": "ray.rllib.algorithms.ppo:PPOConfig",
    "appo": "ray.rllib.algorithms.appo:APPOConfig",
    "impala": "ray.rllib.algorithms.impala:IMPALAConfig",
    "dqn": "ray.rllib.algorithms.dqn:DQNConfig",
    "sac": "mosaic.workers.rllib.learner.replay:AnyBufferSACConfig",
    "tqc": "mosaic.workers.rllib.learner.replay:AnyBufferTQCConfig",
    "bc": "ray.rllib.algorithms.bc:BCConfig",
    "marwil": "ray.rllib.algorithms.marwil:MARWILConfig",
    "cql": "ray.rllib.algorithms.cql:CQLConfig",
    "iql": "ray.rllib.algorithms.iql:IQLConfig",
}


def fresh_config(algorithm: str) -> AlgorithmConfig:
    """Return RLlib's defaults. Its lookup by name would import all algorithms, with their dependencies."""
    module, _, name = _CONFIGS[algorithm].partition(":")
    return cast("AlgorithmConfig", getattr(import_module(module), name)())


def default_learner(algorithm: str) -> type[TorchLearner]:
    config: Any = fresh_config(algorithm)
    return cast("type[TorchLearner]", config.get_default_learner_class())
