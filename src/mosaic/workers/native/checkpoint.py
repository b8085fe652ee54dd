"""Files of a native checkpoint: policies, which can be played, and the training state, from which runs continue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError
from mosaic.core.user_code import check_code_allowed
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.store.checkpoint_record import read_object
from mosaic.store.policies.init_source import find_init
from mosaic.workers.native.start import matched, normalization_differs, own_checkpoint

if TYPE_CHECKING:  # these import numba
    from mosaic.exports.policy import ExportablePolicy
    from mosaic.learners.base import Assembled
    from mosaic.learners.engines.fused_memory import FusedMemoryEngine
    from mosaic.learners.engines.torch import TorchEngine
    from mosaic.learners.league import Snapshot
    from mosaic.learners.normalization import RunningMoments
    from mosaic.models.architecture import Architecture
    from mosaic.models.engine import StateArrays
    from mosaic.models.weights_file import SavedNetwork

FACTS = "facts.json"
TRAINING = "training.safetensors"
_OPTIMISER = ("optimiser.first", "optimiser.second", "optimiser.count")


def policy_file(policy: int) -> str:
    return f"policy_{policy}.safetensors"


def save_policies(folder: Path, assembled: Assembled, epsilon: float | None) -> None:
    """Write everything that is needed to play the policies.

    `epsilon` is the current share of random actions of a policy of action values.
    """
    from mosaic.models.weights_file import save_weights

    learner = assembled.learner
    networks = {policy_file(policy): code for policy, code in enumerate(assembled.networks) if code is not None}
    for policy, architecture in enumerate(assembled.architectures):
        moments = learner.scaler(policy)
        extra = {} if moments is None else _scaling(moments.shift, moments.scale, architecture)
        own = policy_file(policy) in networks
        save_weights(folder / policy_file(policy), architecture, learner.weights(policy), extra, own_network=own)
    facts = {"engine": assembled.engine, "networks": networks, "epsilon": epsilon}
    (folder / FACTS).write_text(json.dumps(facts))


def save_snapshot(folder: Path, assembled: Assembled, snapshot: Snapshot) -> None:
    """Write a snapshot of the learner as the first policy of a new folder."""
    from mosaic.models.weights_file import save_weights

    folder.mkdir()
    architecture, network = assembled.architectures[0], assembled.networks[0] if assembled.networks else None
    extra = _scaling(snapshot.shift, snapshot.scale, architecture) if snapshot.shift.size else {}
    own = network is not None
    save_weights(folder / policy_file(0), architecture, snapshot.weights, extra, own_network=own)
    facts = {"engine": assembled.engine, "networks": {policy_file(0): network} if own else {}, "epsilon": None}
    (folder / FACTS).write_text(json.dumps(facts))


def _scaling(
    shift: NDArray[np.float32], scale: NDArray[np.float32], architecture: Architecture
) -> dict[str, NDArray[np.float32]]:
    width = architecture.observation
    return {"shift": shift[:width], "scale": scale[:width]}


def make_controller(folder: Path, file: str, request: PolicyRequest) -> PolicyController:
    """Return a controller for one policy that `save_policies` wrote."""
    from mosaic.envs.vector.encoding import action_code, row_code, squashed_code
    from mosaic.models.weights_file import check_size, load_weights
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
    code_of = squashed_code if saved.architecture.head.kind == "squashed" else action_code
    actions = {agent: code_of(spec.action_spaces[agent]) for agent in rows}
    scaler = _scaler(saved)
    facts = read_object(folder / FACTS)
    network = _network(facts, file)
    epsilon: Any = facts.get("epsilon")  # DQN's exploration
    explores = epsilon is not None and sampling is not None and sampling.temperature is None
    temperature = None if sampling is None or explores else sampling.temperature or 1.0
    made: PolicyController
    if saved.architecture.plain and not network:
        drawn = temperature is not None
        made = NetworkPolicyController(
            saved.architecture, saved.flat, rows, actions, scaler, request.seed, drawn, temperature or 1.0
        )
        made.has_value = epsilon is None
    else:
        if not network:
            check_size(saved, folder / file)
        engine = _engine(saved.architecture, network)
        engine.load(saved.flat)
        made = EnginePolicyController(engine, rows, actions, scaler, temperature)
        made.has_value = epsilon is None
    return EpsilonGreedyController(made, spec, epsilon) if explores else made


def _engine(architecture: Architecture, network: str | None) -> FusedMemoryEngine | TorchEngine:
    if architecture.fusible and not network:
        from mosaic.learners.engines.fused_memory import FusedMemoryEngine

        return FusedMemoryEngine(architecture, 0)
    from mosaic.learners.engines.torch import TorchEngine, TorchOptions

    return TorchEngine(architecture, 0, TorchOptions(module=network))


def make_exportable(folder: Path, file: str, request: PolicyRequest) -> ExportablePolicy:
    """Return one policy that `save_policies` wrote, for export."""
    from gymnasium.spaces import Box

    from mosaic.exports.policy import ExportablePolicy
    from mosaic.exports.torch_parts import Finish, RowPolicy, build_actor
    from mosaic.models.weights_file import check_size, load_weights

    saved = load_weights(folder / file)
    network = _network(read_object(folder / FACTS), file)
    if not network:
        check_size(saved, folder / file)
    actor, memory = build_actor(saved.architecture, saved.flat, network)
    space, action = (
        spaces[request.agents[0]] for spaces in (request.spec.observation_spaces, request.spec.action_spaces)
    )
    finish = None
    if saved.architecture.head.kind == "squashed" and isinstance(action, Box):
        finish = Finish(action, squash=True, scale=True)
    return ExportablePolicy(RowPolicy(space, actor, _scaler(saved), finish), memory)


def _network(facts: dict[str, Any], file: str) -> str | None:
    """Return the user's own network of a policy, which is code; None for one of Mosaic's."""
    named: str | None = facts["networks"].get(file) if "networks" in facts else facts["network"]  # by older versions
    if named:
        check_code_allowed(named)  # before torch is imported
    return named


def _scaler(saved: SavedNetwork) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    if "shift" not in saved.extra:
        return None
    return saved.extra["shift"].astype(np.float32), saved.extra["scale"].astype(np.float32)


def start_from(reference: str, assembled: Assembled) -> None:
    """Load the weights, and with `optimizer=true` the optimizer, of networks with the same shape."""
    start, learner = find_init(reference), assembled.learner
    state = load_training(own_checkpoint(start).path / TRAINING)
    for number, (source, saved) in enumerate(matched(start, learner.plan.names, assembled.architectures)):
        learner.load(number, saved.flat, _moments(reference, source, state, learner.scaler(number)))
        if start.optimizer:
            learner.load_optimiser(number, {key: state[f"{source}/{key}"] for key in _OPTIMISER})


def load_training(path: Path) -> StateArrays:
    """Read the part of a checkpoint besides weights: optimizers, scalers, opponents and envs."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not path.is_file():
        raise InputError(f"There is no file {path}: this checkpoint can be played, but not trained further.")
    try:
        state = load_file(path)
    except SafetensorError as error:
        raise FormatError(f"{path} is not a safetensors file: {error}") from error
    check_training(state, str(path))
    return state


def check_training(state: StateArrays, where: str) -> None:
    """Raise if an optimizer, a scaler or an opponent is not finite: one update would make the weights NaN.

    The envs' own numbers, whose names begin with WORKER_PREFIX, may be anything.
    """
    from mosaic.learners.base import WORKER_PREFIX
    from mosaic.models.weights_file import check_finite

    for name, array in state.items():
        if "/" in name or not name.startswith(WORKER_PREFIX):
            check_finite(array, f"{where}: the numbers of '{name}'")


def _moments(reference: str, policy: str, state: StateArrays, wanted: RunningMoments | None) -> RunningMoments | None:
    """Return the other run's observation normalization: its weights are meaningless without it."""
    from mosaic.learners.normalization import RunningMoments

    seen = RunningMoments.from_arrays(f"{policy}/seen", state) if f"{policy}/seen.count" in state else None
    normalised = seen is not None and seen.count > 0
    if normalised != (wanted is not None):
        raise InputError(normalization_differs(reference, saved=normalised))
    return seen if normalised else None
