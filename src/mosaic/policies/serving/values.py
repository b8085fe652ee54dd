"""Values that clients send for agents, checked against the spaces of an env."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from msgspec import UNSET

from mosaic.core.errors import FormatError, shown
from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.turn import Action, Mask, Observation
from mosaic.envs.env import EnvSpec
from mosaic.envs.space_values import value_from_json
from mosaic.envs.spaces import MASK, describe_space, objection, parts_of
from mosaic.policies.serving.messages import CallError, Given, Value


class ValueReader:
    """Reader of what clients send in an env; every problem is a CallError with agent, what was sent and expected.

    In an env with one agent a value is that agent's own; with several it is an object by agent.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        self.alone = spec.possible_agents[0] if len(spec.possible_agents) == 1 else None
        self._flags: Lookup[AgentID, int | None] = Lookup(lambda agent: _count_flags(spec, agent))
        self._objections: Lookup[AgentID, Callable[[Action, Mask | None], str | None]] = Lookup(
            lambda agent: objection(spec.action_spaces[agent])
        )

    def observations(self, given: Given, masks: Given) -> tuple[dict[AgentID, Observation], dict[AgentID, Mask]]:
        """Return observations and masks by agent; a mask may be part of the observation, as PettingZoo has it."""
        if self.alone is not None and masks is UNSET and isinstance(given, np.ndarray | list):  # most calls, in a hurry
            return {self.alone: self._observation(self.alone, given)}, {}
        found = self._by_agent(given, "observation")
        flags = self._by_agent(masks, "action_mask")
        for agent in flags.keys() - found.keys():
            raise _wrong("action_mask", agent, flags[agent], "a mask only where there is an observation")
        seen: dict[AgentID, Observation] = {}
        legal: dict[AgentID, Mask] = {}
        for agent, value in found.items():
            mask = flags.get(agent)
            if isinstance(value, Mapping) and MASK in value and not _has_key(self.spec.observation_spaces[agent], MASK):
                mask = value[MASK] if mask is None else mask
                rest = {key: part for key, part in value.items() if key != MASK}
                value = rest["observation"] if rest.keys() == {"observation"} else rest
            seen[agent] = self._observation(agent, value)
            if mask is not None:
                legal[agent] = self._mask(agent, mask)
        return seen, legal

    def actions(self, given: Given, masks: Mapping[AgentID, Mask]) -> dict[AgentID, Action]:
        """Return legal actions by agent."""
        return {
            agent: self.action(agent, value, masks.get(agent))
            for agent, value in self._by_agent(given, "action").items()
        }

    def action(self, agent: AgentID, value: Value, mask: Mask | None) -> Action:
        action = self._member("action", agent, value, self.spec.action_spaces[agent])
        problem = self._objections[agent](action, mask)
        if problem is not None:
            raise _wrong("action", agent, value, describe_space(self.spec.action_spaces[agent]), problem)
        return action

    def problem(self, agent: AgentID, action: Action, mask: Mask | None) -> str | None:
        """Return why a policy's action is not legal, or None."""
        return self._objections[agent](action, mask)

    def rewards(self, given: Given) -> dict[AgentID, float]:
        found = self._by_agent(given, "reward")
        for agent, value in found.items():
            if isinstance(value, bool | str) or not _is_finite(value):
                raise _wrong("reward", agent, value, "a finite number")
        return {agent: float(value) for agent, value in found.items()}

    def infos(self, given: Given) -> dict[AgentID, Mapping[str, object]]:
        found = self._by_agent(given, "info")
        for agent, value in found.items():
            if not isinstance(value, Mapping):
                raise _wrong("info", agent, value, "an object")
        return found

    def form(self, values: Mapping[AgentID, Any]) -> Any:
        """Return values by agent in the form in which clients send and get them."""
        return values if self.alone is None else values[self.alone]

    def check_agent(self, agent: AgentID) -> None:
        if agent not in self.spec.possible_agents:
            known = ", ".join(self.spec.possible_agents)
            raise CallError("unknown_agent", f"There is no agent '{agent}'. Known: {known}.", agent=agent)

    def _by_agent(self, given: Given, what: str) -> dict[AgentID, Any]:
        if given is UNSET or given is None:
            return {}
        if self.alone is not None:
            return {self.alone: given}
        if not isinstance(given, Mapping):
            example = ", ".join(f'"{agent}": …' for agent in self.spec.possible_agents[:2])
            raise CallError(
                "wrong_value",
                f"{what}: {_sent(given)}, where an object by agent belongs: {{{example}}}.",
                sent=_sent(given),
                expected=f"{{{example}}}",
            )
        for agent in given:
            self.check_agent(agent)
        return dict(given)

    def _observation(self, agent: AgentID, value: Value) -> Observation:
        return self._member("observation", agent, value, self.spec.observation_spaces[agent])

    def _member(self, what: str, agent: AgentID, value: Value, space: spaces.Space[object]) -> Any:
        try:
            member = value_from_json(space, value, f"{what}.{agent}")
        except FormatError as error:
            raise CallError(
                "wrong_value", f"{error}.", agent=agent, sent=_sent(value), expected=describe_space(space)
            ) from error
        if has_nan(member):
            raise _wrong(what, agent, value, describe_space(space), "NaN")
        return member

    def _mask(self, agent: AgentID, value: Value) -> Mask:
        count = self._flags[agent]
        expected = "no mask" if count is None else f"{count} times true or false, at least one of them true"
        try:
            flags = np.asarray(value)
        except ValueError:  # rows of unequal length
            flags = np.zeros(0)
        if flags.shape != (count,) or flags.dtype.kind not in "biu" or not np.isin(flags, (0, 1)).all():
            raise _wrong("action_mask", agent, value, expected)
        if not flags.any():
            raise _wrong("action_mask", agent, value, expected, "a mask without a legal action")
        return flags.astype(np.bool_)


def has_nan(member: object) -> bool:
    """Return whether a member of a space contains NaN, which no space contains."""
    if isinstance(member, np.ndarray):
        return member.dtype.kind == "f" and math.isnan(np.vdot(member, member))  # no other sum of squares is NaN
    if isinstance(member, dict):
        return any(map(has_nan, member.values()))
    return isinstance(member, tuple) and any(map(has_nan, member))


def _is_finite(value: Value) -> bool:
    try:
        return math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def _has_key(space: spaces.Space[object], key: str) -> bool:
    return isinstance(space, spaces.Dict) and key in space.spaces


def _count_flags(spec: EnvSpec, agent: AgentID) -> int | None:
    space = spec.action_spaces[agent]
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    code = parts_of(space)
    return None if code is None else sum(code.counts)


def _wrong(what: str, agent: AgentID, value: Value, expected: str, problem: str | None = None) -> CallError:
    sent = _sent(value)
    text = f"{what}.{agent}: {problem or sent}; expected: {expected}."
    return CallError("wrong_value", text, agent=agent, sent=sent, expected=expected)


def _sent(value: Value) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and {value.dtype}"
    return shown(value)
