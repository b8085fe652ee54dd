"""Files of a native policy in a checkpoint, and the controllers that play them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.store.checkpoints import Checkpoint

if TYPE_CHECKING:  # these import numba
    from mosaic.learners.base import Assembled
    from mosaic.models.weights_file import SavedNetwork

FACTS = "facts.json"


def policy_file(policy: int) -> str:
    return f"policy_{policy}.safetensors"


def weights_file(checkpoint: Checkpoint, policy: str) -> str:
    return next(name for name in checkpoint.manifest.policies[policy].files if name.endswith(".safetensors"))


def save_policies(folder: Path, assembled: Assembled, network: str | None, epsilon: float | None) -> None:
    """Write everything that is needed to play the policies.

    `network` names a user's network class; `epsilon` is the current share of random actions of a policy of action
    values.
    """
    from mosaic.models.weights_file import save_weights

    learner = assembled.learner
    for policy, architecture in enumerate(assembled.architectures):
        moments = learner.scaler(policy)
        width = architecture.observation
        extra = {} if moments is None else {"shift": moments.shift[:width], "scale": moments.scale[:width]}
        own = network is not None
        save_weights(folder / policy_file(policy), architecture, learner.weights(policy), extra, own_network=own)
    facts = {"engine": assembled.engine, "network": network, "epsilon": epsilon}
    (folder / FACTS).write_text(json.dumps(facts))


def make_controller(folder: Path, file: str, request: PolicyRequest) -> PolicyController:
    """Return a controller for one policy that `save_policies` wrote."""
    from mosaic.envs.vector.encoding import action_code, row_code
    from mosaic.models.weights_file import load_weights
    from mosaic.policies.network import NetworkPolicyController
    from mosaic.policies.random import EpsilonGreedyController
    from mosaic.policies.torch_network import EnginePolicyController

    spec, sampling = request.spec, request.sampling
    saved = load_weights(folder / file)
    codes = {agent: row_code(spec.observation_spaces[agent]) for agent in spec.possible_agents}
    rows = {agent: code for agent, code in codes.items() if code.width == saved.architecture.observation}
    if not rows:
        raise InputError(f"'{request.reference}' sees {saved.architecture.observation} numbers; no agent here does.")
    if not saved.architecture.parts and any(part.picture for code in rows.values() for part in code.parts):
        raise InputError(
            f"'{request.reference}' was trained by an older version that laid pictures of this form flat, and cannot "
            "see them as they are shown now. Train it again."
        )
    actions = {agent: action_code(spec.action_spaces[agent]) for agent in rows}
    scaler = _scaler(saved)
    facts = json.loads((folder / FACTS).read_text())
    network, epsilon = facts["network"], facts.get("epsilon")  # DQN's exploration
    explores = epsilon is not None and sampling is not None and sampling.temperature is None
    temperature = None if sampling is None or explores else sampling.temperature or 1.0
    made: PolicyController
    if saved.architecture.plain and not network:
        drawn = temperature is not None
        made = NetworkPolicyController(
            saved.architecture, saved.flat, rows, actions, scaler, request.seed, drawn, temperature or 1.0
        )
    else:
        from mosaic.learners.engines.torch import TorchEngine, TorchOptions

        engine = TorchEngine(saved.architecture, 0, TorchOptions(module=network))
        engine.load(saved.flat)
        made = EnginePolicyController(engine, rows, actions, scaler, temperature)
    return EpsilonGreedyController(made, spec, epsilon) if explores else made


def _scaler(saved: SavedNetwork) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    if "shift" not in saved.extra:
        return None
    return saved.extra["shift"].astype(np.float32), saved.extra["scale"].astype(np.float32)
