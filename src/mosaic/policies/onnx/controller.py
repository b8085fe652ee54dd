"""Controller that plays a policy's graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from mosaic.core.errors import FormatError, InputError
from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.reference import explain
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.policies.controller import PolicyError, PolicyRequest
from mosaic.policies.onnx.file import METADATA, OnnxFile, Port, first_line, open_session, read_onnx
from mosaic.policies.onnx.interface import (
    MASK_INPUT,
    OUTPUT,
    STATE_IN,
    STATE_OUT,
    ActionDecoder,
    Array,
    Graph,
    GraphFacts,
    InputCode,
    check_spaces,
    data_inputs,
    input_codes,
    names,
    not_a_number,
)

_Row: TypeAlias = "tuple[GraphPolicyController, AgentID, Turn]"  # one decision; the controller has its memory


class OnnxGraph:
    """Graph of an ONNX file, computed by onnxruntime."""

    def __init__(self, file: OnnxFile) -> None:
        self.name, self.inputs, self.outputs = file.name, file.inputs, file.outputs
        self.facts = read_facts(file.name, file.facts())
        self._session = open_session(file)
        self._names = [port.name for port in file.outputs]

    def compute(self, feeds: dict[str, Array]) -> Sequence[Array]:
        try:
            made: Sequence[Array] = self._session.run(self._names, feeds)
        except Exception as error:  # onnxruntime's errors have no common base
            raise PolicyError(f"'{self.name}' cannot be computed: {first_line(error)}") from error
        return made


def read_facts(name: str, document: dict[str, Any] | None) -> GraphFacts | None:
    """Return the checked description in a file's metadata."""
    try:
        return None if document is None else GraphFacts.model_validate(document)
    except ValidationError as error:
        raise FormatError(f"'{name}': {METADATA} in its metadata is damaged: {explain(error, GraphFacts)}") from error


def load_onnx_policy(path: Path, request: PolicyRequest) -> GraphPolicyController:
    """Return a controller for the policy in an ONNX file."""
    return GraphPolicyController(OnnxGraph(read_onnx(path)), request)


class _AgentPlan(NamedTuple):
    codes: tuple[InputCode, ...]
    decoder: ActionDecoder
    writes: tuple[tuple[Callable[[Observation, Array], None], Array], ...]  # into the rows of `feeds`
    feeds: dict[str, Array]  # of this agent alone


class _Buffers(NamedTuple):
    feeds: dict[str, Array]
    rows: dict[str, Array]  # the same numbers, one flat row per agent


class GraphPolicyController:
    """Controller that plays the most probable legal action (the lowest on ties), or draws one.

    Every agent has its own memory, which ends with its episode. Agents that act together are computed together where
    the graph takes batches.
    """

    def __init__(self, graph: Graph, request: PolicyRequest) -> None:
        self._graph, self._spec = graph, request.spec
        found = {port.name: place for place, port in enumerate(graph.outputs)}
        self._output = found.get(OUTPUT, 0)
        self._state_out = found.get(STATE_OUT)
        self._memory_size = 0 if graph.facts is None else graph.facts.memory
        self._columns = None if graph.facts is None or not graph.facts.columns else list(graph.facts.columns)
        self._batches = all(port.shape[:1] == (None,) for port in graph.inputs)
        self._check_ports()
        self._direct = not self._memory_size and all(port.name != MASK_INPUT for port in graph.inputs)
        for agent in request.agents:
            if agent in request.spec.possible_agents:
                check_spaces(graph, request.spec, agent, request.reference)
        self._buffers: Lookup[int, _Buffers] = Lookup(self._make_buffers)
        self._plans: Lookup[AgentID, _AgentPlan] = Lookup(self._plan)
        self._memory: dict[AgentID, NDArray[np.float32]] = {}
        self._random = np.random.default_rng(request.seed)
        sampling = request.sampling
        self._temperature = None if sampling is None else sampling.temperature or 1.0
        for agent in request.agents if request.spec.possible_agents else ():
            if self._plans[agent].decoder.numbers and sampling is not None:
                raise InputError(
                    f"'{request.reference}': the ONNX policy gives the action of {agent} itself, and no probabilities "
                    "to draw from. Leave sample and temperature out."
                )

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._memory.clear()
        self._random = np.random.default_rng(seed)

    def forget(self, agent: AgentID) -> None:
        self._memory.pop(agent, None)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        seen = turn.observations
        if len(seen) == 1 and self._direct:
            for agent, observation in seen.items():
                return {agent: self._decide(self._plans[agent], observation, turn.action_masks.get(agent))}
        rows = [(self, agent, turn) for agent in seen]
        if len(rows) == 1 or self._batches:
            return dict(zip(seen, self._act(rows), strict=True))
        return {row[1]: self._act((row,))[0] for row in rows}

    def sibling(self) -> GraphPolicyController:
        made = copy(self)
        made._memory = {}
        return made

    def act_together(self, turns: Sequence[tuple[GraphPolicyController, Turn]]) -> list[dict[AgentID, Action]]:
        if len(turns) == 1 or not self._batches:
            return [each.act(turn) for each, turn in turns]
        decided = iter(self._act([(each, agent, turn) for each, turn in turns for agent in turn.observations]))
        return [{agent: next(decided) for agent in turn.observations} for _, turn in turns]

    def outputs(self, turn: Turn) -> NDArray[np.float32]:
        """Return the graph's output rows, one per agent; memories stay as they are."""
        feeds = self._fill([(self, agent, turn) for agent in turn.observations])
        return np.array(self._rows(self._graph.compute(feeds)), np.float32)

    def inputs(self, turn: Turn) -> dict[str, Array]:
        """Return copies of the arrays that the graph is given."""
        rows = [(self, agent, turn) for agent in turn.observations]
        return {name: array.copy() for name, array in self._fill(rows).items()}

    def close(self) -> None:
        pass

    def _decide(self, plan: _AgentPlan, observation: Observation, mask: Mask | None) -> Action:
        """Choose one action, many microseconds faster than a batch of one."""
        for write, row in plan.writes:
            write(observation, row)
        return plan.decoder.decode(self._rows(self._graph.compute(plan.feeds))[0], mask, self._choose)

    def _rows(self, made: Sequence[Array]) -> Array:
        """Return the numbers that mean actions, one row per agent."""
        rows = made[self._output]
        return rows if self._columns is None else rows[:, self._columns]

    def _act(self, rows: Sequence[_Row]) -> list[Action]:
        """Compute the graph once and return the action of every row."""
        made = self._graph.compute(self._fill(rows))
        if self._memory_size:
            assert self._state_out is not None
            for (each, agent, _), state in zip(rows, made[self._state_out], strict=True):
                each._memory[agent] = state
        return [
            self._plans[agent].decoder.decode(row, turn.action_masks.get(agent), each._choose)
            for (each, agent, turn), row in zip(rows, self._rows(made), strict=True)
        ]

    def _fill(self, acting: Sequence[_Row]) -> dict[str, Array]:
        plans = [self._plans[agent] for _, agent, _ in acting]
        feeds, rows = self._buffers[len(acting)]
        for place, ((each, agent, turn), plan) in enumerate(zip(acting, plans, strict=True)):
            for name, _, write in plan.codes:
                write(turn.observations[agent], rows[name][place])
            if MASK_INPUT in rows:
                mask = turn.action_masks.get(agent)
                rows[MASK_INPUT][place] = 1 if mask is None else np.asarray(mask).reshape(-1)
            if self._memory_size:
                rows[STATE_IN][place] = each._memory.get(agent, 0)
        return feeds

    def _choose(self, logits: NDArray[np.float32]) -> int:
        if self._temperature is None:
            best = int(logits.argmax())  # the first NaN, if there is one
            if logits[best] != logits[best]:
                raise not_a_number(self._graph)
            return best
        odds = np.exp((logits - logits.max()).astype(np.float64) / self._temperature)
        total = float(odds.sum())
        if total != total:
            raise not_a_number(self._graph)
        return int(self._random.choice(len(odds), p=odds / total))

    def _check_ports(self) -> None:
        graph = self._graph
        if not data_inputs(graph) or not graph.outputs:
            raise FormatError(f"'{graph.name}' is not a policy: its inputs are {names(graph.inputs)}.")
        for port in graph.inputs:
            if port.shape[:1] not in ((None,), (1,)) or port.dtype.kind not in "fiu":
                raise FormatError(
                    f"'{graph.name}': the input {names((port,))} of {port.dtype} is not a batch of numbers. The first "
                    "dimension of every input must be the batch: 1, or of any size."
                )
        if self._memory_size and (self._state_out is None or STATE_IN not in {port.name for port in graph.inputs}):
            raise FormatError(f"'{graph.name}' says that it has memory, but lacks {STATE_IN} or {STATE_OUT}.")

    def _make_buffers(self, count: int) -> _Buffers:
        """Return the arrays of `count` agents; a state without memory is 1, as in Godot RL Agents' plug-in."""
        feeds = {
            port.name: np.ones((count, *_inner(port, self._width(port.name))), port.dtype)
            for port in self._graph.inputs
        }
        return _Buffers(feeds, {name: array.reshape(count, -1) for name, array in feeds.items()})

    def _width(self, name: str) -> int:
        if name == STATE_IN:
            return self._memory_size or 1
        return next((code.width for plan in self._plans.values() for code in plan.codes if code.name == name), 1)

    def _plan(self, agent: AgentID) -> _AgentPlan:
        """Return the agent's codes; the graph is computed once to learn how much it gives."""
        graph, spec = self._graph, self._spec
        check_spaces(graph, spec, agent, graph.name)
        codes = input_codes(graph, spec, agent)
        widths = {code.name: code.width for code in codes} | {STATE_IN: self._memory_size or 1}
        feeds = {port.name: np.ones((1, *_inner(port, widths.get(port.name, 1))), port.dtype) for port in graph.inputs}
        made = graph.compute(feeds)[self._output]
        if not isinstance(made, np.ndarray) or made.ndim != 2 or made.shape[0] != 1:
            raise FormatError(f"'{graph.name}': its output is not one row of numbers: {np.shape(made)}.")
        writes = tuple((code.write, feeds[code.name].reshape(-1)) for code in codes)
        width = made.shape[1]
        if self._columns is not None:
            if not 0 <= min(self._columns) <= max(self._columns) < width:
                raise FormatError(f"'{graph.name}': its output has {width} numbers, fewer than its metadata names.")
            width = len(self._columns)
        return _AgentPlan(codes, ActionDecoder(graph, spec, agent, width), writes, feeds)


def _inner(port: Port, width: int) -> tuple[int, ...]:
    """Return the shape of one row, in which a dimension of any size takes what is left."""
    known = int(np.prod([size for size in port.shape[1:] if size is not None], dtype=np.int64))
    free = [size for size in port.shape[1:] if size is None]
    if len(free) > 1 or (free and width % max(known, 1)):
        raise FormatError(f"The input {names((port,))} cannot be filled with {width} numbers.")
    return tuple(width // max(known, 1) if size is None else size for size in port.shape[1:])
