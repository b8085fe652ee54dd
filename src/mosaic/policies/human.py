"""A person: answers come from a screen, or from the keyboard of a plain terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from queue import Queue
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Mask, Turn
from mosaic.envs.action_names import action_names
from mosaic.envs.env import EnvSpec
from mosaic.envs.spaces import legal_text, objection
from mosaic.policies.controller import PolicyController, PolicyKind, PolicyRequest


class HumanPolicyController:
    """Waits for the answers that a screen puts into its queue.

    The screen reads `waiting` (the Turn that wants an answer, or None) and calls `answer`; an illegal answer is
    refused there and then, so that the person can choose again.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        self._answers: Queue[Mapping[AgentID, Action] | None] = Queue()
        self.waiting: Turn | None = None

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        while not self._answers.empty():  # keys pressed after the last episode's end
            self._answers.get_nowait()

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        self.waiting = turn
        try:
            actions: dict[AgentID, Action] = {}
            while actions.keys() != turn.observations.keys():
                answer = self._answers.get()
                if answer is None:
                    raise InputError("was closed while it waited for a person")
                actions.update((a, answer[a]) for a in answer if a in turn.observations)
            return {agent: actions[agent] for agent in turn.observations}
        finally:
            self.waiting = None

    def answer(self, agent: AgentID, action: Action) -> None:
        """What the person chose; raises if that is not allowed now."""
        turn = self.waiting
        if turn is None or agent not in turn.observations:
            raise InputError(f"'{agent}' is not asked for an action now.")
        problem = objection(self._spec.action_spaces[agent])(action, turn.action_masks.get(agent))
        if problem:
            raise InputError(f"'{agent}' may not play {problem}.")
        self._answers.put({agent: action})

    def close(self) -> None:
        self._answers.put(None)


class TerminalPolicyController:
    """Asks on the terminal, again and again until the answer is legal."""

    def __init__(self, spec: EnvSpec, read: Callable[[str], str] = input, write: Callable[[str], Any] = print) -> None:
        self._spec, self._read, self._write = spec, read, write

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        pass

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._ask(agent, turn) for agent in turn.observations}

    def _ask(self, agent: AgentID, turn: Turn) -> Action:
        space, mask = self._spec.action_spaces[agent], turn.action_masks.get(agent)
        says, names = objection(space), action_names(self._spec, turn, agent)
        while True:
            text = self._read(f"{agent}, your action ({', '.join(names) or choices(space, mask)}): ").strip()
            try:
                action = names[text] if text in names else parse_action(space, text)
            except ValueError as error:
                self._write(f"'{text}' is not an action: {error}.")
                continue
            problem = says(action, mask)
            if problem is None:
                return action
            self._write(f"That would be {problem}.")

    def close(self) -> None:
        pass


def choices(space: Space[Any], mask: Mask | None) -> str:
    """What may be typed, in a few words."""
    if isinstance(space, spaces.Discrete):
        low = int(space.start)
        return legal_text(mask, low) if mask is not None else f"{low} to {low + int(space.n) - 1}"
    if isinstance(space, spaces.Box):
        return f"{int(np.prod(space.shape))} numbers"
    return str(space)


def parse_action(space: Space[Any], text: str) -> Action:
    """The action that a person typed: one integer, or numbers separated by blanks or commas."""
    words = text.replace(",", " ").split()
    if isinstance(space, spaces.Discrete):
        if len(words) != 1 or not words[0].lstrip("-").isdecimal():
            raise ValueError("type one of those named")
        return int(words[0])
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return np.array([float(word) for word in words]).astype(space.dtype).reshape(space.shape)
    raise ValueError(f"actions of {space} cannot be typed")


def _make(options: Options, request: PolicyRequest) -> PolicyController:
    if not sys.stdin.isatty():
        raise InputError(
            f"'{request.reference}' needs somebody at a terminal, and standard input is not one. "
            "Type: mosaic play … in a terminal."
        )
    return TerminalPolicyController(request.spec)


kind = PolicyKind(
    usage="human",
    help="A person: asked for a legal action on the terminal.",
    make=_make,
    reproducible=lambda options: False,
    waits=True,
)
