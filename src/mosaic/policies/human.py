"""Policy `human`: a person who types actions on the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

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

_SEPARATORS = re.compile(r"[\[\](),]")


class HumanPolicyController:
    """Controller that prompts on the terminal until the action is legal."""

    def __init__(
        self, spec: EnvSpec, read: Callable[[str], str] = input, write: Callable[[str], object] = print
    ) -> None:
        self._spec, self._read, self._write = spec, read, write

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        pass

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._ask(agent, turn) for agent in turn.observations}

    def _ask(self, agent: AgentID, turn: Turn) -> Action:
        space, mask = self._spec.action_spaces[agent], turn.action_masks.get(agent)
        says, names = objection(space), action_names(self._spec, turn, agent)
        while True:
            try:
                text = self._read(f"{agent}, your action ({', '.join(names) or choices(space, mask)}): ").strip()
            except EOFError as error:  # Ctrl-D ends the game as Ctrl-C does
                raise KeyboardInterrupt from error
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


def choices(space: Space[object], mask: Mask | None) -> str:
    """Describe briefly what may be typed."""
    if isinstance(space, spaces.Discrete):
        low = int(space.start)
        return legal_text(mask, low) if mask is not None else f"{low} to {low + int(space.n) - 1}"
    ranges = _ranges(space)
    if not ranges:
        return str(space)
    count = "1 number" if len(ranges) == 1 else f"{len(ranges)} numbers"
    if len({*ranges}) == 1:
        return f"{count} from {ranges[0]}"
    return f"{count}: {', '.join(ranges)}" if len(ranges) <= 6 else count


def _ranges(space: Space[object]) -> list[str]:
    """Return "LOW to HIGH" for each number of an action; none for spaces whose actions are not rows of numbers."""
    match space:
        case spaces.Box():
            bounds = zip(space.low.ravel().tolist(), space.high.ravel().tolist(), strict=True)
            return [f"{low:.6g} to {high:.6g}" for low, high in bounds]
        case spaces.MultiDiscrete(nvec=nvec, start=start):
            return [
                f"{low} to {low + n - 1}" for n, low in zip(nvec.ravel().tolist(), start.ravel().tolist(), strict=True)
            ]
        case spaces.MultiBinary():
            return ["0 to 1"] * int(np.prod(space.shape))
    return []


def parse_action(space: Space[object], text: str) -> Action:
    """Parse a typed action: one integer, or numbers separated by blanks or commas, also in brackets."""
    words = _SEPARATORS.sub(" ", text).split()
    if isinstance(space, spaces.Discrete):
        if len(words) != 1 or not words[0].lstrip("-").isdecimal():
            raise ValueError("type one of those in brackets")
        return int(words[0])
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        try:
            numbers = np.array([float(word) for word in words]).reshape(space.shape)
            action = numbers.astype(space.dtype)
        except ValueError:
            raise ValueError(f"type {choices(space, None)}") from None
        whole = action.dtype.kind == "f" or bool((action == numbers).all())
        if not whole or not space.contains(action):
            raise ValueError(f"type {choices(space, None)}")
        return action
    raise ValueError(f"actions of {space} cannot be typed")


def _make(options: Options, request: PolicyRequest) -> PolicyController:
    if not sys.stdin.isatty():
        raise InputError(
            f"'{request.reference}' needs a person at a terminal, but standard input is not a terminal. "
            "Type: mosaic play … in a terminal."
        )
    return HumanPolicyController(request.spec)


kind = PolicyKind(
    usage="human",
    help="Person who types legal actions on the terminal.",
    make=_make,
    reproducible=lambda options: False,
    waits=True,
)
