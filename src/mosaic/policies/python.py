"""Policy from a user's function or factory: `python:module:name`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import cast

from pydantic import Field

from mosaic.core.episode import DecisionReport
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.reference import Options
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.core.user_code import PREFIX, load_code
from mosaic.policies.controller import PolicyController, PolicyKind, PolicyRequest, Remembers, Reports


class PythonOptions(Options):
    code: str = Field(description="MODULE:NAME of f(observation, mask) or of a factory (spec, agent, seed).")


class FunctionPolicyController:
    """Controller for `function(observation, mask) -> action`, called once per agent; no mask means all is legal."""

    def __init__(self, function: Callable[[Observation, Mask | None], Action]) -> None:
        self._function = function

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        pass

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        masks = turn.action_masks
        return {agent: self._function(seen, masks.get(agent)) for agent, seen in turn.observations.items()}

    def close(self) -> None:
        pass


class OnePerAgent:
    """Separate controllers for each agent, created when the agent is first seen."""

    def __init__(self, make: Callable[[AgentID], PolicyController]) -> None:
        self._controllers: Lookup[AgentID, PolicyController] = Lookup(make)
        self._seed = 0
        self._begun: set[AgentID] = set()
        self._asked: list[AgentID] = []  # by the last `act`

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._seed = seed
        self._begun.clear()
        for agent in agents:
            self._ready(agent)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        actions: dict[AgentID, Action] = {}
        self._asked.clear()
        for agent in turn.observations:
            self._asked.append(agent)
            actions.update(self._ready(agent).act(turn.only((agent,))))
        return actions

    def forget(self, agent: AgentID) -> None:
        controller = self._controllers[agent]
        if isinstance(controller, Remembers):
            controller.forget(agent)

    def reports(self) -> dict[AgentID, DecisionReport]:
        found: dict[AgentID, DecisionReport] = {}
        for agent in self._asked:
            controller = self._controllers[agent]
            if isinstance(controller, Reports):
                found.update(controller.reports())
        return found

    def close(self) -> None:
        for controller in self._controllers.values():
            controller.close()

    def _ready(self, agent: AgentID) -> PolicyController:
        controller = self._controllers[agent]
        if agent not in self._begun:
            controller.begin((agent,), child_seed(self._seed, agent))
            self._begun.add(agent)
        return controller


def _make(options: PythonOptions, request: PolicyRequest) -> PolicyController:
    code = load_code(PREFIX + options.code)
    match _needed(code, request.reference):
        case 2:
            return FunctionPolicyController(code)
        case 3:
            return OnePerAgent(lambda agent: _controller(code, request, agent))
        case count:
            raise InputError(
                f"'{request.reference}' takes {count} arguments. A policy is a function f(observation, mask) -> action "
                "or a factory f(spec, agent, seed) -> PolicyController."
            )


def _controller(factory: Callable[..., object], request: PolicyRequest, agent: AgentID) -> PolicyController:
    made = factory(request.spec, agent, child_seed(request.seed, agent))
    missing = [name for name in ("begin", "act", "close") if not callable(getattr(made, name, None))]
    if missing:
        raise InputError(
            f"'{request.reference}' returned a {type(made).__name__} without {', '.join(missing)}(); "
            "a PolicyController has begin(agents, seed), act(turn) and close()."
        )
    return cast(PolicyController, made)


def _needed(code: object, reference: str) -> int:
    """Return the number of required positional arguments."""
    if not callable(code):
        raise InputError(f"'{reference}' is a {type(code).__name__}, not a function f(observation, mask) -> action.")
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(code).parameters
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters.values())


kind = PolicyKind(
    usage="python:MODULE:NAME",
    help="Your own f(observation, mask) -> action, or a factory (spec, agent, seed) -> PolicyController.",
    make=_make,
    options=PythonOptions,
    first="code",
)
