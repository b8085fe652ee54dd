"""Policy from a network of dense layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
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
    policy_outputs,
    probabilities,
    sample_rows,
    value_rows,
)
from mosaic.models.layout import apply_temperature, count_weights
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


class ValuedNetwork(NamedTuple):
    """Network that gives action probabilities and a value, with the scaling of its observations."""

    architecture: Architecture
    weights: NDArray[np.float32]
    scaling: Scaler | None


class NetworkPolicyController:
    """Controller that plays the most probable legal action (the lowest on ties), or samples one if `sample` is set."""

    has_value = True  # False: the outputs are action values, and the value output means nothing

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

    @property
    def network(self) -> ValuedNetwork:
        return ValuedNetwork(self._architecture, self._weights, self._scaler)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._buffers.reseed(seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        seen = turn.observations
        if len(seen) == 1 and not self._sample:
            for agent, observation in seen.items():
                return {agent: self._decide(self._codes[agent], observation, turn.action_masks.get(agent))}
        obs, mask = self._lay_out((turn,))
        act = self._compute(obs, mask, self._buffers.streams)
        return {agent: self._codes[agent].action(row) for agent, row in zip(seen, act, strict=True)}

    def sibling(self) -> NetworkPolicyController:
        made = copy(self)
        made._codes = Lookup(made._code_of)
        made._obs = np.zeros((1, self._architecture.observation), np.float32)
        made._buffers = RowBuffers(self._model, 0, rows=1)
        return made

    def act_together(self, turns: Sequence[tuple[NetworkPolicyController, Turn]]) -> list[dict[AgentID, Action]]:
        if len(turns) == 1:
            return [turns[0][0].act(turns[0][1])]
        obs, mask = self._lay_out([turn for _, turn in turns])
        streams = self._buffers.streams
        if self._sample:
            streams = np.concatenate([each._streams_for(len(turn.observations)) for each, turn in turns])
        act = self._compute(obs, mask, streams)
        actions, row = [], 0
        for each, turn in turns:
            if self._sample:
                each._buffers.streams[: len(turn.observations)] = streams[row : row + len(turn.observations)]
            decided = {}
            for agent in turn.observations:
                decided[agent] = self._codes[agent].action(act[row])
                row += 1
            actions.append(decided)
        return actions

    def _streams_for(self, rows: int) -> NDArray[np.uint64]:
        self._buffers.reserve(rows)
        return self._buffers.streams[:rows]

    def _compute(
        self, obs: NDArray[np.float32], mask: NDArray[np.uint8], streams: NDArray[np.uint64]
    ) -> NDArray[np.float32]:
        """Return a row for every decision."""
        act = np.zeros((len(obs), self._architecture.head.parts), np.float32)
        if self._sample:
            logp = np.zeros(len(obs), np.float32)
            sample_rows(self._weights, self._model, obs, mask, self._buffers.scratch, streams, act, logp)
        else:
            greedy_rows(self._weights, self._model, obs, mask, self._buffers.scratch, act)
        return act

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        obs, mask = self._lay_out((turn,))
        head, count = self._architecture.head, len(obs)
        if not self.has_value and not self._sample:
            return dict(zip(turn.observations, self._judge(obs, mask), strict=True))
        shares: list[NDArray[np.float64] | None] = [None] * count
        if head.kind == "categorical" and head.parts == 1:
            found = np.zeros((count, head.width), np.float32)
            probabilities(self._weights, self._model, obs, mask, self._buffers.scratch, found)
            shares = list(found.astype(np.float64))
        values: Sequence[float | None] = [None] * count
        # a centralised critic needs the other agents' observations; that of squashed actions values actions
        if self.has_value and not self._architecture.critic_observation and head.kind != "squashed":
            val = np.zeros(count, np.float32)
            value_rows(self._weights, self._model, obs, np.zeros((count, 0), np.float32), self._buffers.scratch, val)
            values = val.tolist()
        agents = turn.observations
        return {
            agent: Explanation(*facts) for agent, facts in zip(agents, zip(shares, values, strict=True), strict=True)
        }

    def _judge(self, obs: NDArray[np.float32], mask: NDArray[np.uint8]) -> list[Explanation]:
        """Explain rows by action values: the best legal action is played, and its value is the expected return."""
        width = self._architecture.head.width
        out = policy_outputs(self._weights, self._model, obs, self._buffers.scratch)[: len(obs), :width]
        values = np.where(mask, out, -np.inf) if len(mask) else out
        return [Explanation(np.eye(width)[row.argmax()], float(row.max())) for row in values]

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

    def _lay_out(self, turns: Sequence[Turn]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """Return rows and masks of all agents that act now, turn after turn."""
        count = sum(len(turn.observations) for turn in turns)
        if count > len(self._obs):
            self._obs = np.zeros((count, self._architecture.observation), np.float32)
            self._buffers.reserve(count)
        obs = self._obs[:count]
        acting = [(turn, agent) for turn in turns for agent in turn.observations]
        for row, (turn, agent) in zip(obs, acting, strict=True):
            code = self._codes[agent]
            code.write(turn.observations[agent], row[: code.width])
            row[code.width :] = 0
        if self._scaler is not None:
            self._scaler.apply(obs)
        masked = any(turn.action_masks for turn in turns)
        mask = np.ones((count if masked else 0, self._architecture.head.width), np.uint8)
        for row, (turn, agent) in zip(mask, acting, strict=False):
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


def _fitting_scaler(scaler: ScalerArrays, width: int) -> Scaler:
    shift, scale, *limit = (np.array(part, np.float32) for part in scaler)
    if shift.ndim != 1 or shift.shape != scale.shape or shift.size < width:
        raise InputError(
            f"A scaler of shapes {shift.shape} and {scale.shape} does not fit a network that reads {width} numbers."
        )
    return Scaler(shift[:width], scale[:width], *(part[:width] for part in limit))
