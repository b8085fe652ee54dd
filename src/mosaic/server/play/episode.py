"""Current episode of a match: phase, position, returns, moves and result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

from mosaic.core.episode import Episode, outcomes
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Turn
from mosaic.envs.board_cells import Cells
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.server.play.clicks import Choice
from mosaic.server.play.keys import KeyMap

MOST_MOVES = 2000  # kept for the list of moves
_MOST_NAMED = 4


class MatchPhase(StrEnum):
    OPENING = auto()
    PLAYING = auto()
    OVER = auto()
    FAILED = auto()
    ENDED = auto()


class MatchEndedError(MosaicError):
    """Error for a match that has ended."""


@dataclass(frozen=True, slots=True)
class Move:
    step: int
    agent: AgentID
    policy: PolicyID
    text: str


@dataclass(frozen=True, slots=True)
class PositionText:
    """Position for screens that draw with characters: the cells of a board, else a text where there is no picture."""

    cells: Cells = ()
    text: str = ""


class CurrentEpisode:
    """Episode that a match is playing, as far as viewers see it. Callers hold the match's lock."""

    def __init__(self, seed: int) -> None:
        self.spec: EnvSpec | None = None
        self.phase, self.error, self.result = MatchPhase.OPENING, "", ""
        self.number, self.seed, self.step = 0, seed, 0
        self.agents: tuple[AgentID, ...] = ()
        self.key_maps: dict[AgentID, KeyMap] = {}
        self.turn: Turn | None = None
        self.view = PositionText()
        self.choices: dict[AgentID, tuple[Choice, ...]] = {}
        self.moves: list[Move] = []
        self.returns: dict[AgentID, float] = {}

    def begin(self) -> None:
        """Forget how the last episode went; its last position remains until the first one of this."""
        self.step, self.moves, self.returns = 0, [], {}
        self.error = self.result = ""

    def start(self, agents: Collection[AgentID]) -> None:
        """Take the agents of the first position."""
        self.agents, self.key_maps = (), {}
        self.phase, self.returns = MatchPhase.PLAYING, dict.fromkeys(agents, 0.0)

    def advance(self, turn: Turn, step: int, born: Mapping[AgentID, KeyMap]) -> None:
        """Take the position after a step, and the agents that it brought."""
        self.agents += tuple(born)
        self.key_maps.update(born)
        for agent, reward in turn.rewards.items():
            self.returns[agent] = self.returns.get(agent, 0.0) + reward
        self.turn, self.step = turn, step

    def note_moves(self, record: Episode) -> None:
        """Append the actions of the last step to the list of moves."""
        step = record.env_steps
        for agent, action in record.actions[-1].items():
            names = {choice.action: choice.label for choice in self.choices.get(agent, ())}
            text = names.get(action, str(action)) if isinstance(action, int) else str(action)
            self.moves.append(Move(step, agent, record.policy_of(agent, step - 1), text))
        del self.moves[:-MOST_MOVES]

    def follow(self, seed: int | None) -> None:
        """Let the next episode follow, with the next seed if none is given."""
        self.seed = self.seed + 1 if seed is None else seed
        self.number += 1

    @property
    def acting(self) -> tuple[AgentID, ...]:
        live = self.phase is MatchPhase.PLAYING
        return tuple(self.turn.observations) if self.turn is not None and live else ()

    @property
    def known_spec(self) -> EnvSpec:
        if self.spec is None:
            raise MatchEndedError("The match has not begun.")
        return self.spec

    def axes_of(self, agent: AgentID) -> int:
        """Return how many axes a mouse or gamepad can move."""
        space = self.known_spec.action_spaces[agent]
        return int(space.shape[0]) if space.dtype is not None and space.dtype.kind == "f" and space.shape else 0

    def check_agent(self, agent: AgentID) -> None:
        if agent not in self.agents:
            raise InputError(f"There is no agent '{agent}' in this match. Agents: {', '.join(self.agents)}.")

    def check_playable(self) -> None:
        """Raise InputError if no action can be taken before a restart."""
        if self.phase is MatchPhase.OVER:
            raise InputError("The episode is over. Restart to play again.")
        if self.phase is MatchPhase.FAILED:
            raise InputError(f"The episode cannot continue: {self.error} Restart to play again.")


def result_of(record: Episode, facts: EnvFacts) -> str:
    """Describe how an episode ended: the winner, or the returns."""
    if record.cut:
        return f"Cut after {record.env_steps} env steps."
    if facts.competitive and record.returns:
        words = outcomes(record.returns, facts.win_above)
        winners = [agent for agent, word in words.items() if word == "win"]
        return f"{winners[0]} ({record.policy_of(winners[0], record.env_steps)}) wins." if winners else "A draw."
    returns = record.returns
    if len(returns) > _MOST_NAMED:
        return f"Over after {record.env_steps} env steps. Mean return {sum(returns.values()) / len(returns):.4g}."
    shown = ", ".join(f"{agent} {value:.4g}" for agent, value in returns.items())
    return f"Over after {record.env_steps} env steps. Return: {shown}."
