"""Policies that a user's program saved: ONNX, safetensors in Mosaic's layout, or a zip of Stable-Baselines3."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError
from mosaic.core.ids import AgentID
from mosaic.envs.vector.encoding import ActionCode, RowCode, action_code, row_code
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.workers.script.checkpoints import statistics_beside

if TYPE_CHECKING:
    from mosaic.models.architecture import Activation
    from mosaic.models.weights_file import SavedNetwork

_LARGEST_MEMBER = 1 << 30  # bytes of an unpacked policy; a forged zip may claim any size
_ACTIVATIONS: dict[str, Activation] = {"Tanh": "tanh", "ReLU": "relu", "SiLU": "silu"}
_ACTOR, _VALUES = "mlp_extractor.policy_net.", "q_net.q_net."


def load_saved_policy(path: Path, request: PolicyRequest) -> PolicyController:
    """Return a controller for a saved policy; nothing in the file is unpickled or run as Python."""
    match path.suffix:
        case ".safetensors":
            from mosaic.models.weights_file import load_weights

            return _network(load_weights(path), request)
        case ".zip":
            return _sb3_player(path, request)
        case ".onnx":
            from mosaic.policies.onnx.controller import load_onnx_policy

            return load_onnx_policy(path, request)
    raise InputError(f"'{request.reference}' is in {path.name}, which is not .onnx, .safetensors or .zip.")


def _network(saved: SavedNetwork, request: PolicyRequest) -> PolicyController:
    from mosaic.policies.network import NetworkPolicyController

    if not saved.architecture.plain:
        raise InputError(f"'{request.reference}': only networks of dense layers are read from a program's checkpoint.")
    rows, actions = _codes(request, saved.architecture.observation)
    scaler = (saved.extra["shift"], saved.extra["scale"]) if "shift" in saved.extra else None
    sampling = request.sampling
    temperature = 1.0 if sampling is None or sampling.temperature is None else sampling.temperature
    return NetworkPolicyController(
        saved.architecture, saved.flat, rows, actions, scaler, request.seed, sampling is not None, temperature
    )


def _sb3_player(path: Path, request: PolicyRequest) -> PolicyController:
    """Return a controller for a zip of Stable-Baselines3.

    When sampling, DQN explores as in training, or draws by its values if a temperature is given; PPO and A2C draw by
    probabilities.
    """
    from mosaic.policies.random import EpsilonGreedyController

    saved, facts = read_sb3(path, request)
    sampling = request.sampling
    if sampling is None or sampling.temperature is not None or "exploration_rate" not in facts:
        return _network(saved, request)
    best = _network(saved, replace(request, sampling=None))
    return EpsilonGreedyController(best, request.spec, float(facts["exploration_rate"]))


def _refuse_normalised(path: Path, facts: Sb3Facts, request: PolicyRequest) -> None:
    """Raise InputError for a model that was trained on observations scaled by statistics which are not in the zip."""
    beside = statistics_beside(path)
    if beside is None and facts.get("_last_original_obs") is None:  # Stable-Baselines3 stores it only with VecNormalize
        return
    where = f"beside it is {beside}" if beside else "it keeps the original of a normalised observation"
    raise InputError(
        f"'{request.reference}': {path.name} was trained with VecNormalize ({where}), whose statistics are a pickle "
        "and are never loaded; without them it would see other observations than in training. Save the policy as ONNX "
        "with the normalisation in its graph, or as .safetensors with shift and scale. If only rewards were normalised "
        "(norm_obs=False), keep the statistics in a folder below, and set model._last_original_obs = None before "
        "model.save()."
    )


def _codes(request: PolicyRequest, width: int) -> tuple[dict[AgentID, RowCode], dict[AgentID, ActionCode]]:
    spec = request.spec
    codes = {agent: row_code(spec.observation_spaces[agent]) for agent in spec.possible_agents}
    rows = {agent: code for agent, code in codes.items() if code.width == width}
    if not rows:
        seen = ", ".join(f"{agent} {code.width}" for agent, code in codes.items())
        raise InputError(f"'{request.reference}' reads {width} numbers, but in {spec.env_id} agents see: {seen}.")
    return rows, {agent: action_code(spec.action_spaces[agent]) for agent in rows}


Sb3Facts: TypeAlias = dict[str, Any]  # attributes of the model in the zip; those that are not JSON stay unread


def read_sb3(path: Path, request: PolicyRequest) -> tuple[SavedNetwork, Sb3Facts]:
    """Read a PPO, A2C or DQN with an MlpPolicy: weights by torch's safe loader, metadata from JSON."""
    import torch

    try:
        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo("policy.pth")
            if member.file_size > _LARGEST_MEMBER:
                raise FormatError(f"{path}: policy.pth claims {member.file_size:,} bytes.")
            state = torch.load(io.BytesIO(archive.read(member)), map_location="cpu", weights_only=True)
            facts = json.loads(archive.read("data"))
    except (zipfile.BadZipFile, KeyError, OSError, ValueError, RuntimeError) as error:
        raise FormatError(f"{path} is not a model of Stable-Baselines3: {error}.") from error
    except Exception as error:  # pickle.UnpicklingError: refused by weights_only
        raise FormatError(f"{path}: policy.pth holds more than weights, and is not loaded: {error}.") from error
    _refuse_normalised(path, facts, request)
    return _sb3_network(path, {name: tensor.numpy() for name, tensor in state.items()}, facts, request), facts


def _sb3_network(
    path: Path, state: dict[str, NDArray[np.float32]], facts: Sb3Facts, request: PolicyRequest
) -> SavedNetwork:
    from mosaic.models.architecture import Architecture
    from mosaic.models.layout import count_weights, tensors
    from mosaic.models.weights_file import SavedNetwork

    if f"{_ACTOR}0.weight" in state:
        layers, activation = [*_dense(state, _ACTOR), ("action_net.weight", "action_net.bias")], "Tanh"
    elif f"{_VALUES}0.weight" in state:
        layers, activation = _dense(state, _VALUES), "ReLU"
    else:
        raise InputError(
            f"{path.name} is not a PPO, A2C or DQN with an MlpPolicy: those are read from a zip. Save any other "
            "policy as ONNX."
        )
    asked = str((facts.get("policy_kwargs") or {}).get("activation_fn", activation)).rpartition(".")[2].strip("'>")
    if asked not in _ACTIVATIONS:
        raise InputError(f"{path.name} uses the activation {asked}. Known: {', '.join(_ACTIVATIONS)}.")
    shapes = [state[weight].shape for weight, _ in layers]
    spec = request.spec
    agent = (*request.agents, *spec.possible_agents)[0]
    architecture = Architecture(
        observation=shapes[0][1],
        head=action_code(spec.action_spaces[agent]).head,
        hidden=tuple(shape[0] for shape in shapes[:-1]),
        activation=_ACTIVATIONS[asked],
        critic_hidden=(),  # the value is not needed to act
    )
    if architecture.head.width != shapes[-1][0]:
        raise InputError(
            f"{path.name} gives {shapes[-1][0]} numbers, but {agent} of {spec.env_id} needs {architecture.head.width}."
        )
    flat = np.zeros(count_weights(architecture), np.float32)
    places = {tensor.name: tensor for tensor in tensors(architecture)}
    for number, (weight, bias) in enumerate(layers):
        places[f"policy.{number}.weight"].of(flat)[:] = state[weight].T
        places[f"policy.{number}.bias"].of(flat)[:] = state[bias]
    if "log_std" in places and (facts.get("use_sde") or "log_std" not in state):
        if request.sampling is not None:
            raise InputError(
                f"'{request.reference}': {path.name} explores with state-dependent noise (use_sde), which cannot be "
                "drawn here. Leave sample and temperature out."
            )
    elif "log_std" in places:
        places["log_std"].of(flat)[:] = state["log_std"]
    return SavedNetwork(architecture, flat, {})


def _dense(state: dict[str, NDArray[np.float32]], prefix: str) -> list[tuple[str, str]]:
    """Return the names of weight and bias of a torch Sequential's layers, in order; activations have none."""
    places = sorted(int(name.split(".")[-2]) for name in state if name.startswith(prefix) and name.endswith(".weight"))
    return [(f"{prefix}{place}.weight", f"{prefix}{place}.bias") for place in places]
