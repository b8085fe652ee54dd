"""Policy from a network of dense layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.vector.encoding import ActionCode, RowCode
from mosaic.models.architecture import Architecture
from mosaic.models.fused import (
    OBSERVATION_LIMIT,
    RowBuffers,
    build_model,
    greedy_rows,
    probabilities,
    sample_rows,
    value_rows,
)
from mosaic.models.layout import LOG_STD, POLICY, count_weights, tensors
from mosaic.models.single_row import decide_row, row_plan, row_room
from mosaic.policies.controller import Explanation

_EVERYTHING = np.zeros(0, np.uint8)


class Scaler(NamedTuple):
    """Observation scaling: the network sees (row - shift) * scale, clipped to ±limit."""

    shift: NDArray[np.float32]
    scale: NDArray[np.float32]
    limit: NDArray[np.float32] | np.float32 = OBSERVATION_LIMIT

    def apply(self, rows: NDArray[np.float32]) -> None:
        np.subtract(rows, self.shift, out=rows)
        np.multiply(rows, self.scale, out=rows)
        np.maximum(rows, -self.limit, out=rows)
        np.minimum(rows, self.limit, out=rows)


ScalerArrays: TypeAlias = (
    "tuple[NDArray[np.float32], ...]"  # shift and scale, and where it is not the usual one a limit
)


class _AgentCode(NamedTuple):
    """Encoding of one agent's observations and actions."""

    width: int
    write: Callable[[Observation, NDArray[np.float32]], None]
    action: Callable[[NDArray[np.float32]], Action]
    row: NDArray[np.float32]  # as wide as the network's input; zero where this agent has less
    shown: NDArray[np.float32]  # the part of the row that this agent fills


class NetworkPolicyController:
    """Controller that plays the most probable legal action (the lowest on ties), or samples one if `sample` is set."""

    def __init__(
        self,
        architecture: Architecture,
        flat: NDArray[np.float32],
        rows: Mapping[AgentID, RowCode],
        actions: Mapping[AgentID, ActionCode],
        scaler: ScalerArrays | None = None,
        seed: int = 0,
        sample: bool = False,
        temperature: float = 1.0,
    ) -> None:
        self._model = build_model(architecture)
        if flat.size != count_weights(architecture):
            raise InputError(
                f"The network has {count_weights(architecture)} weights, but {flat.size} were given: {architecture}."
            )
        self._architecture = architecture
        self._weights = np.array(flat, np.float32)
        if sample and temperature != 1.0:
            apply_temperature(architecture, self._weights, temperature)
        self._rows, self._actions = rows, actions
        self._scaler = None if scaler is None else _fitting_scaler(scaler, architecture.observation)
        self._sample = sample
        self._plan, self._room = row_plan(self._model), row_room(self._model)
        self._act, self._mask = (
            np.zeros(architecture.head.parts, np.float32),
            np.ones(architecture.head.width, np.uint8),
        )
        self._codes: Lookup[AgentID, _AgentCode] = Lookup(self._code_of, rows)
        self._obs = np.zeros((1, architecture.observation), np.float32)
        self._buffers = RowBuffers(self._model, seed, rows=1)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._buffers.reseed(seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        seen = turn.observations
        if len(seen) == 1 and not self._sample:
            for agent, observation in seen.items():
                return {agent: self._decide(self._codes[agent], observation, turn.action_masks.get(agent))}
        obs, mask = self._lay_out(turn)
        act = np.zeros((len(obs), self._architecture.head.parts), np.float32)
        if self._sample:
            logp = np.zeros(len(obs), np.float32)
            sample_rows(self._weights, self._model, obs, mask, self._buffers.scratch, self._buffers.streams, act, logp)
        else:
            greedy_rows(self._weights, self._model, obs, mask, self._buffers.scratch, act)
        return {agent: self._codes[agent].action(row) for agent, row in zip(seen, act, strict=True)}

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        obs, mask = self._lay_out(turn)
        head, count = self._architecture.head, len(obs)
        shares: list[NDArray[np.float64] | None] = [None] * count
        if head.kind == "categorical" and head.parts == 1:
            found = np.zeros((count, head.width), np.float32)
            probabilities(self._weights, self._model, obs, mask, self._buffers.scratch, found)
            shares = list(found.astype(np.float64))
        values: Sequence[float | None] = [None] * count
        if not self._architecture.critic_observation:  # a centralised critic needs the other agents' observations
            val = np.zeros(count, np.float32)
            value_rows(self._weights, self._model, obs, np.zeros((count, 0), np.float32), self._buffers.scratch, val)
            values = val.tolist()
        agents = turn.observations
        return {
            agent: Explanation(*facts) for agent, facts in zip(agents, zip(shares, values, strict=True), strict=True)
        }

    def close(self) -> None:
        pass

    def _decide(self, code: _AgentCode, observation: Observation, mask: Mask | None) -> Action:
        """Choose one action, many microseconds faster than a batch of one."""
        code.write(observation, code.shown)
        if self._scaler is not None:
            code.row[code.width :] = 0
            self._scaler.apply(code.row)
        legal = _EVERYTHING if mask is None else self._checked(mask, self._mask)
        decide_row(self._weights, self._plan, code.row, legal, self._room, self._act)
        return code.action(self._act)

    def _lay_out(self, turn: Turn) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """Return rows and masks of all agents that act now."""
        if len(turn.observations) > len(self._obs):
            self._obs = np.zeros((len(turn.observations), self._architecture.observation), np.float32)
            self._buffers.reserve(len(turn.observations))
        obs = self._obs[: len(turn.observations)]
        for row, (agent, observation) in zip(obs, turn.observations.items(), strict=True):
            code = self._codes[agent]
            code.write(observation, row[: code.width])
            row[code.width :] = 0
        if self._scaler is not None:
            self._scaler.apply(obs)
        mask = np.ones((len(obs) if turn.action_masks else 0, self._architecture.head.width), np.uint8)
        for row, agent in zip(mask, turn.observations, strict=False):
            if agent in turn.action_masks:
                self._checked(turn.action_masks[agent], row)
        return obs, mask

    def _checked(self, mask: Mask, out: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Copy the mask into `out` after checking its size; compiled code would read past the end of a shorter one."""
        if mask.size != out.size:
            raise InputError(
                f"The mask has {mask.size} actions, but this network was built for {out.size}: "
                "play it in the env that it was trained in."
            )
        out[:] = mask
        return out

    def _code_of(self, agent: AgentID) -> _AgentCode:
        code, action = self._rows[agent], self._actions[agent]
        wanted, head = self._architecture.observation, self._architecture.head
        if code.width > wanted or action.head != head:
            raise InputError(
                f"This network reads {wanted} numbers and gives {head}, but {agent} observes {code.width} "
                f"numbers and takes {action.head}: play it in the env that it was trained in."
            )
        row = np.zeros(wanted, np.float32)
        return _AgentCode(code.width, code.write, action.action, row, row[: code.width])


def apply_temperature(architecture: Architecture, flat: NDArray[np.float32], temperature: float) -> None:
    """Divide the logits that these weights give by the temperature, or multiply the deviations of a Gaussian by it."""
    places = {tensor.name: tensor for tensor in tensors(architecture)}
    if architecture.head.kind == "gaussian":
        places[LOG_STD].of(flat)[:] += np.float32(np.log(temperature))
        return
    last, width = len(architecture.hidden), architecture.head.width  # in a shared net the value comes after the logits
    places[f"{POLICY}{last}.weight"].of(flat)[:, :width] /= np.float32(temperature)
    places[f"{POLICY}{last}.bias"].of(flat)[:width] /= np.float32(temperature)


def _fitting_scaler(scaler: ScalerArrays, width: int) -> Scaler:
    shift, scale, *limit = (np.array(part, np.float32) for part in scaler)
    if shift.ndim != 1 or shift.shape != scale.shape or shift.size < width:
        raise InputError(
            f"A scaler of shapes {shift.shape} and {scale.shape} does not fit a network that reads {width} numbers."
        )
    return Scaler(shift[:width], scale[:width], *(part[:width] for part in limit))
