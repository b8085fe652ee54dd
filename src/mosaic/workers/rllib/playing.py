"""How policies that RLlib trained act: without starting Ray, and without torch where they are dense networks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.config.environment import EnvironmentConfig
from mosaic.core.errors import FormatError, InputError, unknown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Action, Turn
from mosaic.envs.family import split_version
from mosaic.envs.rows import ActionCode, Row, action_code, row_code
from mosaic.policies.controller import Explanation, PolicyController, PolicyRequest
from mosaic.policies.network import NetworkPolicyController
from mosaic.store.checkpoints import Checkpoint
from mosaic.workers.rllib.exported import FACTS, FORMAT, SCALE, SHIFT

Scalers: TypeAlias = Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]  # by agent, "": of all


def controller(checkpoint: Checkpoint, policy: PolicyID, request: PolicyRequest) -> PolicyController:
    trained_in = EnvironmentConfig.model_validate(checkpoint.manifest.environment).id
    if split_version(trained_in)[0] != split_version(request.spec.env_id)[0]:
        raise InputError(f"'{request.reference}' was trained in {trained_in} and cannot play {request.spec.env_id}.")
    return load_policy(checkpoint.path, policy, request)


def load_policy(folder: Path, policy: PolicyID, request: PolicyRequest) -> PolicyController:
    """What `export_policies` wrote into this folder."""
    facts = _facts(folder, policy)
    actions = {agent: finished(request.spec.action_spaces[agent], facts) for agent in request.spec.possible_agents}
    if facts["dense"]:
        return _dense(folder / facts["file"], request, actions)
    from mosaic.workers.rllib.module_player import ModulePolicyController

    return ModulePolicyController(folder / facts["file"], facts, request.spec)


def _facts(folder: Path, policy: PolicyID) -> dict[str, Any]:
    document = json.loads((folder / FACTS).read_text())
    if document.get("format") != FORMAT:
        raise FormatError(f"{folder / FACTS} does not say what RLlib's policies are ({FORMAT}).")
    if policy not in document["policies"]:
        raise unknown("policy", policy, document["policies"])
    facts: dict[str, Any] = document["policies"][policy]
    return facts


def finished(space: Space[Any], facts: Mapping[str, Any]) -> ActionCode:
    """Numbers become actions as between RLlib's network and its env: squashed, scaled to the bounds, cut."""
    code = action_code(space)
    if not isinstance(space, spaces.Box):
        return code
    low, high = (np.ravel(bound).astype(np.float32) for bound in (space.low, space.high))
    scaled = facts["normalize_actions"] and bool(np.isfinite(low).all() and np.isfinite(high).all())
    squashed = facts["algorithm"] == "sac"

    def action(row: Row) -> Action:
        if squashed:
            row = np.tanh(row)
        if scaled:
            row = (low + (row + np.float32(1)) * (high - low) / np.float32(2)).astype(np.float32)
        return code.action(row)

    return ActionCode(code.head, action)


def _dense(path: Path, request: PolicyRequest, actions: Mapping[AgentID, ActionCode]) -> PolicyController:
    from mosaic.models.weights_file import load_weights

    saved = load_weights(path)
    spec = request.spec
    codes = {agent: row_code(spec.observation_spaces[agent]) for agent in spec.possible_agents}
    rows = {agent: code for agent, code in codes.items() if code.width == saved.architecture.observation}
    if not rows:
        raise InputError(f"'{request.reference}' sees {saved.architecture.observation} numbers; no agent here does.")
    scalers = read_scalers(saved.extra)

    def made(scaler: tuple[NDArray[np.float32], NDArray[np.float32]] | None) -> NetworkPolicyController:
        fitting = {agent: actions[agent] for agent in rows}
        return NetworkPolicyController(saved.architecture, saved.flat, rows, fitting, scaler, seed=request.seed)

    if not scalers or "" in scalers:
        return made(scalers.get(""))
    return _EachFiltered({agent: made(scaler) for agent, scaler in scalers.items()}, request)


def read_scalers(arrays: Mapping[str, NDArray[Any]]) -> Scalers:
    agents = [name.removeprefix(SHIFT) for name in arrays if name.startswith(SHIFT)]
    return {agent: (arrays[SHIFT + agent], arrays[SCALE + agent]) for agent in agents}


def scaler_of(scalers: Scalers, agent: AgentID) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    if not scalers or "" in scalers:
        return scalers.get("")
    if agent not in scalers:
        raise no_filter(agent, scalers)
    return scalers[agent]


def no_filter(agent: AgentID, known: Iterable[AgentID]) -> InputError:
    return InputError(
        f"This policy normalises what each agent sees by that agent's own experience, and '{agent}' has none. "
        f"It can play: {', '.join(sorted(known))}."
    )


class _EachFiltered:
    """One network for several agents, each of which RLlib has given a filter of its own."""

    def __init__(self, players: Mapping[AgentID, NetworkPolicyController], request: PolicyRequest) -> None:
        self._players = players
        for agent in request.agents:
            self._player(agent)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        for player in self._players.values():
            player.begin(agents, seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        actions: dict[AgentID, Action] = {}
        for agent in turn.observations:
            actions |= self._player(agent).act(turn.only((agent,)))
        return actions

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        found: dict[AgentID, Explanation] = {}
        for agent in turn.observations:
            found |= self._player(agent).explain(turn.only((agent,)))
        return found

    def close(self) -> None:
        for player in self._players.values():
            player.close()

    def _player(self, agent: AgentID) -> NetworkPolicyController:
        if agent not in self._players:
            raise no_filter(agent, self._players)
        return self._players[agent]
