"""Controllers for policies that RLlib trained: without starting Ray, and without torch if they are dense networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypeAlias, TypedDict

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError, unknown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Action, Turn
from mosaic.core.user_code import check_code_allowed
from mosaic.envs.vector.encoding import ActionCode, Row, RowCode, action_code, row_code
from mosaic.models.layout import POLICY, tensors
from mosaic.policies.controller import Explains, Explanation, PolicyController, PolicyRequest
from mosaic.policies.network import NetworkPolicyController
from mosaic.policies.random import EpsilonGreedyController
from mosaic.store.checkpoint_record import Checkpoint, read_object
from mosaic.workers.rllib.config.algorithms import SQUASHED

if TYPE_CHECKING:
    from mosaic.models.weights_file import SavedNetwork

FACTS = "policies.json"
FORMAT = "mosaic-rllib-1"  # of the document FACTS
SHIFT, SCALE = "shift.", "scale."  # of observations, by agent; nameless if one agent learns
MODULE = "module."  # prefix of the names of an RLModule's weights
DEVIATIONS = "deviations."  # of a dense network: weight and bias of its last layer's rows for log deviations

ModelConfig: TypeAlias = Mapping[str, Any]  # RLlib's `DefaultModelConfig` and settings of single algorithms
Scalers: TypeAlias = Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]  # by agent; "": for all


class CodeFacts(TypedDict):
    """A user's own code that a policy needs to act."""

    rl_module: str | None
    env_to_module: str | None
    module_to_env: str | None
    connectors: str | None  # file with the states of connectors, pickled


class PolicyFacts(TypedDict):
    """Entry of a policy in the document FACTS."""

    file: str  # of weights
    dense: bool
    agents: list[AgentID]
    algorithm: str
    model_config: ModelConfig
    masked: bool
    picture_size: int
    normalize_actions: bool
    clip_actions: bool
    epsilon: NotRequired[float | None]  # share of random actions at the end of training
    code: NotRequired[CodeFacts | None]


_OPTIONAL = {"epsilon", "code"}  # `__required_keys__` does not know them, since annotations are texts here


def controller(checkpoint: Checkpoint, policy: PolicyID, request: PolicyRequest) -> PolicyController:
    return load_policy(checkpoint.path, policy, request)


def load_policy(folder: Path, policy: PolicyID, request: PolicyRequest) -> PolicyController:
    """Return a controller for a policy that `export_policies` wrote into this folder."""
    facts, sampling = read_facts(folder, policy), request.sampling
    epsilon = facts.get("epsilon")
    if epsilon is None or sampling is None or sampling.temperature is not None:
        return _best_or_drawn(folder, facts, request)
    return EpsilonGreedyController(
        _best_or_drawn(folder, facts, replace(request, sampling=None)), request.spec, epsilon
    )


def _best_or_drawn(folder: Path, facts: PolicyFacts, request: PolicyRequest) -> PolicyController:
    code = facts.get("code")
    if code is not None:
        for name in filter(None, code.values()):
            check_code_allowed(str(name))  # before Ray is imported
        from mosaic.workers.rllib.checkpoint.user_controller import UserPolicyController

        return UserPolicyController(folder / facts["file"], facts, code, request)
    if facts["dense"]:
        return _dense(folder / facts["file"], request, facts)
    from mosaic.workers.rllib.checkpoint.module_controller import ModulePolicyController

    return ModulePolicyController(folder / facts["file"], facts, request)


def read_facts(folder: Path, policy: PolicyID) -> PolicyFacts:
    """Return what the document says of a policy; raise FormatError where it says too little, or names another place."""
    document = read_object(folder / FACTS)
    if document.get("format") != FORMAT:
        raise FormatError(f"{folder / FACTS} does not say what RLlib's policies are ({FORMAT}).")
    known = document.get("policies")
    if not isinstance(known, dict):
        raise FormatError(f"{folder / FACTS} names no policies.")
    if policy not in known:
        raise unknown("policy", policy, known)
    facts: PolicyFacts = known[policy]
    wanted = PolicyFacts.__annotations__.keys() - _OPTIONAL
    missing = wanted - (facts.keys() if isinstance(facts, dict) else set())
    if missing:
        raise FormatError(f"{folder / FACTS} does not say {', '.join(sorted(missing))} of the policy '{policy}'.")
    if Path(facts["file"]).name != facts["file"]:
        raise FormatError(f"{folder / FACTS} names the file '{facts['file']}', which is not in its folder.")
    return facts


def finished(space: Space[object], facts: PolicyFacts, *, squashed: bool = False) -> ActionCode:
    """Return a code that turns network outputs into actions as RLlib does: squashed, scaled to the bounds, clipped.

    `squashed`: one of RLlib's distributions has already squashed them.
    """
    code = action_code(space)
    if not isinstance(space, spaces.Box):
        return code
    low, high = (np.ravel(bound).astype(np.float32) for bound in (space.low, space.high))
    scaled = facts["normalize_actions"] and bool(np.isfinite(low).all() and np.isfinite(high).all())
    squash = facts["algorithm"] in SQUASHED and not squashed

    def action(row: Row) -> Action:
        if squash:
            row = np.tanh(row)
        if scaled:
            row = (low + (row + np.float32(1)) * (high - low) / np.float32(2)).astype(np.float32)
        return code.action(row)

    return ActionCode(code.head, action)


def _dense(path: Path, request: PolicyRequest, facts: PolicyFacts) -> PolicyController:
    from mosaic.models.weights_file import load_weights

    saved = load_weights(path)
    spec = request.spec
    codes = {agent: row_code(spec.observation_spaces[agent]) for agent in spec.possible_agents}
    rows = {agent: code for agent, code in codes.items() if code.width == saved.architecture.observation}
    if not rows:
        raise InputError(f"'{request.reference}' sees {saved.architecture.observation} numbers; no agent here does.")
    actions = {agent: finished(spec.action_spaces[agent], facts) for agent in rows}
    scalers = read_scalers(saved.extra)
    sampling = request.sampling
    drawn, temperature = sampling is not None, 1.0 if sampling is None else sampling.temperature or 1.0

    def made(scaler: tuple[NDArray[np.float32], NDArray[np.float32]] | None) -> PolicyController:
        if drawn and saved.architecture.head.kind == "gaussian" and not facts["model_config"].get("free_log_std"):
            return GaussianPolicyController(saved, rows, actions, scaler, request, deviation_limits(facts))
        return NetworkPolicyController(
            saved.architecture, saved.flat, rows, actions, scaler, request.seed, drawn, temperature
        )

    if not scalers or "" in scalers:
        return made(scalers.get(""))
    return _EachFiltered({agent: made(scaler) for agent, scaler in scalers.items()}, request)


def deviation_limits(facts: PolicyFacts) -> tuple[float, float]:
    """Return the bounds to which RLlib clips the logarithms of deviations."""
    if facts["algorithm"] in SQUASHED:
        return -5.0, 2.0
    most = float(facts["model_config"].get("log_std_clip_param", 20.0))
    return -most, most


class GaussianPolicyController:
    """Controller that draws numbers whose means and deviations the network computes for every observation."""

    def __init__(
        self,
        saved: SavedNetwork,
        rows: Mapping[AgentID, RowCode],
        actions: Mapping[AgentID, ActionCode],
        scaler: tuple[NDArray[np.float32], NDArray[np.float32]] | None,
        request: PolicyRequest,
        limits: tuple[float, float],
    ) -> None:
        if f"{DEVIATIONS}weight" not in saved.extra:
            raise InputError(
                f"'{request.reference}' was saved without the deviations of its actions, so it cannot be sampled. "
                "Save it again (mosaic runs resume), or leave sample and temperature out."
            )
        assert request.sampling is not None
        self._temperature, self._limits = request.sampling.temperature or 1.0, limits
        self._actions = actions
        raw = {agent: ActionCode(code.head, lambda row: row.copy()) for agent, code in actions.items()}
        architecture, deviations = saved.architecture, np.array(saved.flat, np.float32)
        places = {tensor.name: tensor for tensor in tensors(architecture)}
        last = len(architecture.hidden)
        places[f"{POLICY}{last}.weight"].of(deviations)[:] = saved.extra[f"{DEVIATIONS}weight"].T
        places[f"{POLICY}{last}.bias"].of(deviations)[:] = saved.extra[f"{DEVIATIONS}bias"]
        self._means, self._deviations = (
            NetworkPolicyController(architecture, flat, rows, raw, scaler) for flat in (saved.flat, deviations)
        )
        self._random = np.random.default_rng(request.seed)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return self._drawn(self._means.act(turn), self._deviations.act(turn))

    def sibling(self) -> GaussianPolicyController:
        made = copy(self)
        made._means, made._deviations = self._means.sibling(), self._deviations.sibling()
        return made

    def act_together(self, turns: Sequence[tuple[GaussianPolicyController, Turn]]) -> list[dict[AgentID, Action]]:
        means = self._means.act_together([(each._means, turn) for each, turn in turns])
        deviations = self._deviations.act_together([(each._deviations, turn) for each, turn in turns])
        return [each._drawn(*found) for (each, _), *found in zip(turns, means, deviations, strict=True)]

    def _drawn(self, means: Mapping[AgentID, Action], deviations: Mapping[AgentID, Action]) -> dict[AgentID, Action]:
        actions: dict[AgentID, Action] = {}
        for agent, mean in means.items():
            scale = self._temperature * np.exp(np.clip(deviations[agent], *self._limits))
            drawn = mean + scale * self._random.standard_normal(len(mean))
            actions[agent] = self._actions[agent].action(drawn.astype(np.float32))
        return actions

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        return self._means.explain(turn)

    def close(self) -> None:
        pass


def read_scalers(arrays: Mapping[str, NDArray[np.float32]]) -> Scalers:
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
    """Controller of one network for several agents, each with its own observation filter from RLlib."""

    def __init__(self, players: Mapping[AgentID, PolicyController], request: PolicyRequest) -> None:
        self._players = players
        for agent in request.agents:
            self._player(agent)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        for player in self._players.values():
            player.begin(agents, seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        actions: dict[AgentID, Action] = {}
        for agent in turn.observations:
            actions |= dict(self._player(agent).act(turn.only((agent,))))
        return actions

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        found: dict[AgentID, Explanation] = {}
        for agent in turn.observations:
            player = self._player(agent)
            assert isinstance(player, Explains)
            found |= dict(player.explain(turn.only((agent,))))
        return found

    def close(self) -> None:
        for player in self._players.values():
            player.close()

    def _player(self, agent: AgentID) -> PolicyController:
        if agent not in self._players:
            raise no_filter(agent, self._players)
        return self._players[agent]
