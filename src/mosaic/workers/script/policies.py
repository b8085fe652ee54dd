"""Policies that a user's program saved: ONNX, safetensors in Mosaic's layout, or a zip of Stable-Baselines3."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.envs.vector.encoding import ActionCode, RowCode, action_code, row_code
from mosaic.policies.controller import PolicyController, PolicyRequest

if TYPE_CHECKING:
    from mosaic.models.weights_file import SavedNetwork


def load_saved_policy(path: Path, request: PolicyRequest) -> PolicyController:
    """Return a controller for a saved policy; without --trust nothing in the file is unpickled."""
    match path.suffix:
        case ".safetensors":
            from mosaic.models.weights_file import load_weights

            return _network(load_weights(path), request)
        case ".zip":
            from mosaic.workers.sb3.checkpoint.zip_policy import play_zip

            return play_zip(path, request)
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


def _codes(request: PolicyRequest, width: int) -> tuple[dict[AgentID, RowCode], dict[AgentID, ActionCode]]:
    spec = request.spec
    codes = {agent: row_code(spec.observation_spaces[agent]) for agent in spec.possible_agents}
    rows = {agent: code for agent, code in codes.items() if code.width == width}
    if not rows:
        seen = ", ".join(f"{agent} {code.width}" for agent, code in codes.items())
        raise InputError(f"'{request.reference}' reads {width} numbers, but in {spec.env_id} agents see: {seen}.")
    return rows, {agent: action_code(spec.action_spaces[agent]) for agent in rows}
