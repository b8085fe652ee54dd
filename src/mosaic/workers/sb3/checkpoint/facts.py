"""Description of an SB3 policy: what its weights do not say themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError
from mosaic.core.files import replace_file
from mosaic.envs.space_json import Document
from mosaic.models.weights_file import check_finite
from mosaic.policies.network import ScalerArrays

FORMAT = "mosaic-sb3-1"
CLIP_MEAN, NORM_EPS = 2.0, 0.001  # defaults of SB3
SHIFT, SCALE, LIMIT = (
    "scaler.shift",
    "scaler.scale",
    "scaler.limit",
)  # of the observation row, where a run normalises it

Array: TypeAlias = NDArray[np.float32]
Weights: TypeAlias = Mapping[str, Array]  # of a policy, by SB3's names
Family: TypeAlias = Literal["actor_critic", "squashed", "deterministic", "values", "quantiles"]

ALGORITHMS: dict[str, Family] = {
    "ppo": "actor_critic",
    "a2c": "actor_critic",
    "trpo": "actor_critic",
    "maskable_ppo": "actor_critic",
    "recurrent_ppo": "actor_critic",
    "dqn": "values",
    "qrdqn": "quantiles",
    "sac": "squashed",
    "tqc": "squashed",
    "crossq": "squashed",
    "td3": "deterministic",
    "ddpg": "deterministic",
}
ACTIVATIONS = ("Tanh", "ReLU", "SiLU", "ELU", "GELU", "LeakyReLU", "Mish", "SELU", "Sigmoid", "Softplus", "Identity")
_ACTING: dict[Family, tuple[str, ...]] = {  # tensors that acting needs; those of the critic tell the value of a row
    "actor_critic": (
        "pi_features_extractor.",
        "lstm_actor.",
        "mlp_extractor.",
        "action_net.",
        "value_net.",
        "log_std",
    ),
    "squashed": ("actor.",),
    "deterministic": ("actor.",),
    "values": ("q_net.",),
    "quantiles": ("quantile_net.",),
}


@dataclass(frozen=True, slots=True)
class Sb3Facts:
    """Description of a policy; the shapes of its weights give the layers."""

    algorithm: str  # one of ALGORITHMS
    observation: Document  # the spaces as SB3 saw them: images have their channels first
    action: Document
    activation: str  # name of a class of torch.nn
    normalize_images: bool = True  # bytes are divided by 255
    use_sde: bool = False  # state-dependent noise (gSDE)
    use_expln: bool = False  # of gSDE: its deviations grow slower than by exp
    squash_output: bool = False  # of gSDE with PPO and A2C; SAC, TQC, CrossQ and TD3 always squash
    clip_mean: float = CLIP_MEAN  # of gSDE with SAC, TQC and CrossQ; 0: means are not clipped
    norm_eps: float = NORM_EPS  # of CrossQ's batch renormalisation
    epsilon: float | None = None  # share of random actions of DQN and QR-DQN

    @property
    def family(self) -> Family:
        return ALGORITHMS[self.algorithm]


class Sb3Policy(NamedTuple):
    """A policy, ready to be played or written."""

    facts: Sb3Facts
    weights: Weights
    scaler: ScalerArrays | None = None  # of the observation row


def acting_weights(family: Family, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors that acting needs; older versions of SB3 have one features extractor under another name."""
    old = family == "actor_critic" and not any(name.startswith("pi_features_extractor.") for name in state)
    named = {f"pi_{name}" if old and name.startswith("features_extractor.") else name: state[name] for name in state}
    acting = {name: tensor for name, tensor in named.items() if name.startswith(_ACTING[family])}
    return {name: tensor for name, tensor in acting.items() if not name.endswith(".steps")}  # a counter of training


def save_policy(path: Path, policy: Sb3Policy) -> None:
    """Write a policy as safetensors, with its description in the metadata."""
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in policy.weights.items()}
    if policy.scaler is not None:
        arrays |= dict(zip((SHIFT, SCALE, LIMIT), policy.scaler, strict=False))
    for name, array in arrays.items():
        check_finite(array, f"The weights '{name}' for {path.name}")
    metadata = {"mosaic": json.dumps({"format": FORMAT, "policy": asdict(policy.facts)})}
    replace_file(path, lambda temporary: save_file(arrays, temporary, metadata))


def load_policy_file(path: Path) -> Sb3Policy:
    """Read what `save_policy` wrote."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        with safe_open(path, "numpy") as file:
            document = json.loads((file.metadata() or {}).get("mosaic", "{}"))
            arrays: dict[str, Array] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dict)
    except (SafetensorError, ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not a safetensors file of Mosaic: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"{path} does not hold a policy of Stable-Baselines3 ({FORMAT}).")
    for name, array in arrays.items():
        check_finite(array, f"{path}: the numbers of '{name}'", FormatError)
    facts = read_facts(path, document.get("policy"))
    parts = tuple(arrays.pop(name) for name in (SHIFT, SCALE, LIMIT) if name in arrays)
    scaler = parts if len(parts) > 1 else None
    return Sb3Policy(facts, arrays, scaler)


def read_facts(path: Path, document: Any) -> Sb3Facts:
    """Check a description and return it."""
    try:
        facts = Sb3Facts(**document)
    except TypeError as error:
        raise FormatError(f"{path} does not describe its policy: {error}.") from error
    if facts.algorithm not in ALGORITHMS or facts.activation not in ACTIVATIONS:
        raise FormatError(f"{path} has the algorithm {facts.algorithm!r} with {facts.activation!r}, which is unknown.")
    return facts
