"""Interface of a policy's graph: which inputs its observations fill, and which action its output means.

A file that Mosaic wrote says so in its metadata. Any other is read by the contract of Godot RL Agents' plug-in, which
most exporters meet: an input for each key of the observation, or one for all of it, and one row of numbers as output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan, prod
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from mosaic.core.errors import FormatError, InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Observation
from mosaic.envs.env import EnvSpec
from mosaic.envs.space_json import Document, space_differences, space_to_json
from mosaic.envs.vector.encoding import ActionCode, action_code, leaves, row_code
from mosaic.policies.controller import PolicyError
from mosaic.policies.onnx.file import Port

OBS, MASK_INPUT, STATE_IN = "obs", "action_mask", "state_ins"
OUTPUT, STATE_OUT = "output", "state_outs"

Array: TypeAlias = NDArray[Any]
Choose: TypeAlias = Callable[[NDArray[np.float32]], int]  # an action from logits


class GraphFacts(BaseModel):
    """Metadata of a policy that Mosaic writes into its file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal["mosaic-policy-graph-1"] = "mosaic-policy-graph-1"
    observation: dict[str, Any] = Field(description="Space of what the policy sees; each leaf is an input.")
    action: dict[str, Any] = Field(description="Space of its actions.")
    masked: bool = Field(False, description="It has the input action_mask: 1 where an action is legal.")
    memory: int = Field(0, ge=0, description="Numbers of state_ins and state_outs for one agent; 0: no memory.")
    stochastic: bool = Field(False, description="Its output holds logits of probabilities; else values or an action.")
    columns: tuple[int, ...] = Field((), description="Numbers of the output that are the action's; empty: all.")
    environment: str = ""
    origin: str = Field("", description="Run, checkpoint and policy that it was made from.")
    agents: tuple[str, ...] = ()


class Graph(Protocol):
    """A policy's function from named arrays to arrays."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> tuple[Port, ...]: ...
    @property
    def outputs(self) -> tuple[Port, ...]: ...
    @property
    def facts(self) -> GraphFacts | None: ...
    def compute(self, feeds: dict[str, Array]) -> Sequence[Array]: ...


class InputCode(NamedTuple):
    """Encoding of an observation for one input."""

    name: str
    width: int
    write: Callable[[Observation, Array], None]


def leaf_names(space: Space[object]) -> list[str]:
    """Return the input's name of each leaf of an observation space: keys joined by dots, `obs` if there is one.

    Positions in a Tuple follow `obs`, since a name must not begin with a digit.
    """
    names = [".".join(map(str, leaf.path)) or OBS for leaf in leaves(space)]
    return [f"{OBS}.{name}" if name[:1].isdigit() else name for name in names]


def input_codes(graph: Graph, spec: EnvSpec, agent: AgentID) -> tuple[InputCode, ...]:
    """Return the codes of all inputs that an agent's observation fills; raise InputError where it does not fit."""
    space = spec.observation_spaces[agent]
    codes = _leaf_codes(space) if graph.facts is not None else _row_codes(graph, space)
    found = {code.name: code for code in codes}
    wanted = {port.name: port_width(port) for port in data_inputs(graph)}
    wrong = [
        f"{name}: {_count(wanted.get(name, 0))} in the file, {_count(code.width if code else 0)} here"
        for name, code in {**dict.fromkeys(wanted), **found}.items()
        if code is None or name not in wanted or wanted[name] not in (None, code.width)
    ]
    if wrong:
        raise InputError(
            f"'{graph.name}' cannot play {spec.env_id} as {agent}, whose observation is {_line(space)}: "
            f"{'; '.join(wrong)}."
        )
    return tuple(found.values())


def check_spaces(graph: Graph, spec: EnvSpec, agent: AgentID, reference: str) -> None:
    """Raise InputError with the differences between the spaces in a file's metadata and those of an agent."""
    facts = graph.facts
    if facts is None:
        return
    here: tuple[Document, Document] = (
        space_to_json(spec.observation_spaces[agent]),
        space_to_json(spec.action_spaces[agent]),
    )
    try:
        found = [
            *space_differences(here[0], facts.observation, "its observation"),
            *space_differences(here[1], facts.action, "its action"),
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"'{graph.name}' does not describe the spaces of its policy: {error!r}.") from error
    if found:
        raise InputError(
            f"'{reference}' was trained in {facts.environment or 'another env'} and cannot play {spec.env_id} as "
            f"{agent}, whose spaces differ: {'; '.join(found)}."
        )


def data_inputs(graph: Graph) -> list[Port]:
    """Return the inputs that observations fill: all but the mask and the state."""
    return [port for port in graph.inputs if port.name not in (MASK_INPUT, STATE_IN)]


def port_width(port: Port) -> int | None:
    """Return the numbers of one row; None where the graph takes any."""
    known = [size for size in port.shape[1:] if size is not None]
    return prod(known) if len(known) == len(port.shape) - 1 else None


def _leaf_codes(space: Space[object]) -> Iterator[InputCode]:
    """Yield the leaves as the env gives them: their preprocessing is in the graph."""
    for name, leaf in zip(leaf_names(space), leaves(space), strict=True):
        width = int(np.prod(leaf.space.shape or (1,), dtype=np.int64))
        yield InputCode(name, width, _writer(leaf.path, _flat if leaf.space.shape != (width,) else _whole))


def _row_codes(graph: Graph, space: Space[object]) -> Iterator[InputCode]:
    """Yield one code for the only input, or one for each key of a Dict."""
    ports = data_inputs(graph)
    if len(ports) == 1 and not (isinstance(space, spaces.Dict) and ports[0].name in space.spaces):
        code = row_code(space)
        yield InputCode(ports[0].name, code.width, code.write)
        return
    for key, part in space.spaces.items() if isinstance(space, spaces.Dict) else ((OBS, space),):
        code = row_code(part)
        yield InputCode(str(key), code.width, _writer((key,) if isinstance(space, spaces.Dict) else (), code.write))


def _writer(
    path: tuple[str | int, ...], write: Callable[[Observation, Array], None]
) -> Callable[[Observation, Array], None]:
    if not path:
        return write

    def write_part(observation: Observation, out: Array) -> None:
        for key in path:
            observation = observation[key]
        write(observation, out)

    return write_part


def _flat(observation: Observation, out: Array) -> None:
    out[:] = np.ravel(observation)


def _whole(observation: Observation, out: Array) -> None:
    out[:] = observation


class _Part(NamedTuple):
    code: ActionCode
    start: int


class ActionDecoder:
    """Meaning of an output row: logits of choices, and numbers, in the order of the action space.

    As Godot RL Agents' plug-in does it, the logarithms of deviations that follow the means are skipped if they are
    there. Numbers are clipped to the bounds of the space.
    """

    def __init__(self, graph: Graph, spec: EnvSpec, agent: AgentID, width: int) -> None:
        self._space = spec.action_spaces[agent]
        codes = [action_code(leaf.space) for leaf in leaves(self._space)]
        numbers = sum(code.head.width for code in codes if code.head.kind == "gaussian")
        total = sum(code.head.width for code in codes)
        if width not in (total, total + numbers):
            also = f", or {total + numbers} with deviations" if numbers else ""
            raise InputError(
                f"The ONNX policy '{graph.name}' gives {width} numbers for {agent} of {spec.env_id}, who needs "
                f"{total}{also}: {_line(self._space)}."
            )
        skipped, start = width > total, 0
        self._parts: list[_Part] = []
        for code in codes:
            self._parts.append(_Part(code, start))
            start += code.head.width * (2 if skipped and code.head.kind == "gaussian" else 1)
        self.numbers, self.choices = numbers, total - numbers
        self._graph = graph
        self._single = int(self._space.start) if isinstance(self._space, spaces.Discrete) else None

    def decode(self, output: NDArray[np.float32], mask: Mask | None, choose: Choose) -> Action:
        if mask is not None and self.choices:
            output = self._legal(output, mask)
        if self._single is not None:
            return choose(output) + self._single
        made = iter([part.code.action(self._row(part, output, choose)) for part in self._parts])
        return _assembled(self._space, made)

    def _row(self, part: _Part, output: NDArray[np.float32], choose: Choose) -> NDArray[np.float32]:
        head = part.code.head
        own = output[part.start : part.start + head.width]
        if head.kind == "gaussian":
            if isnan(own.sum()):
                raise not_a_number(self._graph)
            return own
        return np.array([choose(logits) for logits in np.split(own, np.cumsum(head.sizes)[:-1])], np.float32)

    def _legal(self, output: NDArray[np.float32], mask: Mask) -> NDArray[np.float32]:
        flags = np.asarray(mask).reshape(-1)
        if flags.size != self.choices:
            raise InputError(f"The mask has {flags.size} actions, but the policy chooses among {self.choices}.")
        shown, start = output.copy(), 0
        for part in self._parts:
            width = part.code.head.width
            if part.code.head.kind == "categorical":
                shown[part.start : part.start + width][flags[start : start + width] == 0] = -np.inf
                start += width
        return shown


def not_a_number(graph: Graph) -> PolicyError:
    return PolicyError(f"'{graph.name}' gives NaN for an observation.")


def _assembled(space: Space[object], made: Iterator[Action]) -> Action:
    if isinstance(space, spaces.Dict):
        return {key: _assembled(part, made) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_assembled(part, made) for part in space.spaces)
    return next(made)


def _count(width: int | None) -> str:
    return {None: "any number", 0: "nothing", 1: "1 number"}.get(width, f"{width} numbers")


def _line(space: Space[object]) -> str:
    text = " ".join(str(space).split())
    return text if len(text) < 200 else f"{text[:190]} …"


def names(ports: Iterable[Port]) -> str:
    return ", ".join(f"{port.name} {[size or 'any' for size in port.shape]}" for port in ports) or "none"
