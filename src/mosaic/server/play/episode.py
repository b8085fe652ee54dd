"""Current episode of a match: phase, position, returns, moves and result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto

from mosaic.core.episode import Episode, EpisodeNote, Outcome, first_steps, outcomes
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.seeding import fresh_seed
from mosaic.core.turn import Turn
from mosaic.envs.agent_places import Place
from mosaic.envs.board_cells import Board, Cells
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.envs.tables.table import EVERYTHING, CardTable, Sight, sight_at_screen
from mosaic.server.play.clicks import Choice, Rect
from mosaic.server.play.keys import KeyMap

MOST_MOVES = 2000  # kept for the list of moves
HUMAN: PolicyID = "human"
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
    text: str  # as it can be typed
    san: str = ""  # of chess, as players write it
    places: tuple[Rect, ...] = ()  # its regions of the picture

    @property
    def written(self) -> str:
        """Return the move as players write it."""
        return self.san or self.text


def moves_of(record: Episode, step: int, among: Mapping[AgentID, Sequence[Choice]], board: Board | None) -> list[Move]:
    """Return the moves that led to a step; `among` were the choices before it, `board` is the one after it."""
    moves = []
    for agent, action in record.actions[step - 1].items():
        legal = among.get(agent, ()) if isinstance(action, int) else ()
        choice = next((choice for choice in legal if choice.action == action), None)
        text, places = (str(action), ()) if choice is None else (choice.text, choice.places)
        policy = record.policy_of(agent, step - 1)
        moves.append(Move(step, agent, policy, text, "" if board is None else board.last_move, places))
    return moves


@dataclass(frozen=True, slots=True)
class Ending:
    """Result of an episode that is over."""

    result: str = ""
    reason: str = ""  # where the rules name one
    outcomes: Mapping[AgentID, Outcome] = field(default_factory=dict)  # of a competitive game


@dataclass(frozen=True, slots=True)
class PositionText:
    """Position for screens that draw with characters: the cells of a board, else a text where there is no picture.

    Where information is hidden, each sight has its own card table, or each agent the text of what it observes and, if
    the env draws one, a picture.
    """

    board: Board | None = None
    places: Mapping[AgentID, Place] = field(default_factory=dict)  # of agents in the picture
    text: str = ""
    tables: Mapping[Sight, CardTable] = field(default_factory=dict)
    observed: Mapping[AgentID, str] = field(default_factory=dict)
    private_pictures: bool = False

    @property
    def cells(self) -> Cells:
        return () if self.board is None else self.board.cells

    @property
    def ending(self) -> str:
        """Return how the game ended, in words; empty where the result says it all."""
        if self.board is not None:
            return self.board.ending
        return next((table.ending for table in self.tables.values()), "")


class CurrentEpisode:
    """Episode that a match is playing, as far as viewers see it. Callers hold the match's lock."""

    def __init__(self, seed: int) -> None:
        self.spec: EnvSpec | None = None
        self.phase, self.error, self.ending = MatchPhase.OPENING, "", Ending()
        self.number, self.seed, self.step = 0, seed, 0
        self.key_maps: dict[AgentID, KeyMap] = {}
        self.turn: Turn | None = None
        self.view = PositionText()
        self.choices: dict[AgentID, tuple[Choice, ...]] = {}
        self.moves: list[Move] = []
        self.returns: dict[AgentID, float] = {}
        self.opening: Episode | None = None  # recorded steps that the next episode begins with
        self.people = True  # whether a person has played in it

    def begin(self) -> None:
        """Forget how the last episode went; its last position remains until the first one of this."""
        self.step, self.moves, self.returns = 0, [], {}
        self.error, self.ending = "", Ending()

    def start(self, agents: Collection[AgentID], people: bool) -> None:
        """Take the agents of the first position, and whether a person plays one of them."""
        self.key_maps, self.people = {}, people
        self.phase, self.returns = MatchPhase.OPENING, dict.fromkeys(agents, 0.0)

    def advance(self, turn: Turn, step: int, born: Mapping[AgentID, KeyMap]) -> None:
        """Take the position after a step, and the agents that it brought."""
        self.key_maps.update(born)
        for agent, reward in turn.rewards.items():
            self.returns[agent] = self.returns.get(agent, 0.0) + reward
        self.turn, self.step = turn, step

    def note_moves(self, record: Episode, board: Board | None) -> None:
        """Append the actions of the last step, which led to this board, to the list of moves."""
        self.moves += moves_of(record, record.env_steps, self.choices, board)
        del self.moves[:-MOST_MOVES]

    def side_of(self, agent: AgentID) -> str:
        """Return the name of the agent's side of the board, such as White; else the agent's own."""
        sides = () if self.view.board is None else self.view.board.sides
        place = self.agents.index(agent)
        return sides[place] if len(sides) == len(self.agents) else agent

    def finish(self, record: Episode, facts: EnvFacts) -> None:
        """Take the result of the whole episode."""
        self.phase, result = MatchPhase.OVER, result_of(record, facts)
        late = next((note.agent for note in record.notes if note.what == "lost_on_time"), None)
        if facts.competitive and late is not None:
            reason = f"{self.side_of(late)} lost on time."
            self.ending = Ending(reason, reason, {agent: "loss" if agent == late else "win" for agent in self.agents})
        elif facts.competitive and record.returns and not record.cut:
            words = outcomes(record.returns, facts.win_above)
            ending = self.view.ending
            winner = next((f"{self.side_of(agent)} won: " for agent, word in words.items() if word == "win"), "")
            reason = f"{winner}{ending if winner else ending.capitalize()}." if ending else ""
            self.ending = Ending(result, reason, words)
        else:
            told = "" if record.cut or not self.view.ending else f"{self.view.ending.capitalize()}. "
            self.ending = Ending(told + result)

    @property
    def last(self) -> tuple[Rect, ...]:
        """Return the regions of the last step's moves."""
        return tuple(rect for move in self.moves if move.step == self.step for rect in move.places)

    @property
    def result(self) -> str:
        return self.ending.result

    def verdict(self, mine: Collection[AgentID]) -> str:
        """Return the result in words for a viewer who played for `mine`; empty where there are no winners."""
        words = self.ending.outcomes
        if not words:
            return ""
        own = {words[agent] for agent in mine if agent in words}
        if len(own) == 1 and own <= {"win", "loss"}:
            return "You won" if own == {"win"} else "You lost"
        winners = [self.side_of(agent) for agent, word in words.items() if word == "win"]
        return f"{' and '.join(winners)} won" if winners else "Draw"

    def take_opening(self) -> Episode | None:
        """Return the steps that this episode begins with; the next one begins without."""
        opening, self.opening = self.opening, None
        return opening

    def follow(self, seed: int | None) -> None:
        """Let the next episode follow, with a fresh seed if none is given."""
        self.seed = fresh_seed() if seed is None else seed
        self.number += 1
        self.ending = Ending()  # the new seed must not be told as that of an episode that is over

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return tuple(self.key_maps)

    @property
    def is_revealed(self) -> bool:
        """Return whether all may be shown to all: nothing is hidden, no person plays, or the episode is over."""
        if self.spec is None or not self.spec.facts.hidden_information:
            return True
        return bool(self.result) or (self.phase is MatchPhase.PLAYING and not self.people)

    def sight_of(self, mine: Collection[AgentID]) -> Sight:
        """Return the sight of a viewer who acts for these agents."""
        return EVERYTHING if self.is_revealed else sight_at_screen(mine, self.acting)

    def is_drawn_for(self, sight: Sight) -> bool:
        """Return whether there is a picture that a viewer with this sight may see."""
        return not self.view.tables and (sight.everything or self.view.private_pictures)

    def moves_for(self, mine: Collection[AgentID]) -> list[Move]:
        """Return the moves that a viewer who acts for these agents may know: those of card tables are public."""
        if self.is_revealed or self.view.tables:
            return self.moves
        return [move for move in self.moves if move.agent in mine]

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
        """Raise InputError if no action can be taken now."""
        if self.phase is MatchPhase.OPENING:
            raise InputError("The position is not ready yet.")
        if self.phase is MatchPhase.OVER:
            raise InputError("The episode is over. Restart to play again.")
        if self.phase is MatchPhase.FAILED:
            raise InputError(f"The episode cannot continue: {self.error} Restart to play again.")


def take_back(record: Episode, mine: Collection[AgentID]) -> Episode:
    """Return the record before the last move of `mine`, which notes what was taken back; InputError if that is refused.

    Replies of policies go with the move; a move that another person made since then stays.
    """
    for step in reversed(range(record.env_steps)):
        people = {agent for agent in record.actions[step] if record.policy_of(agent, step) == HUMAN}
        if people - set(mine):
            raise InputError(f"{', '.join(sorted(people - set(mine)))} has moved since your last move.")
        if people:
            kept = first_steps(record, step)
            kept.notes.append(EpisodeNote(step, min(people), "took_back", record.env_steps - step))
            return kept
    raise InputError("You have not made a move that could be taken back.")


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
    shown = [f"{value:.4g}".replace("-", "\N{MINUS SIGN}") for value in returns.values()]
    each = ", ".join(f"{agent} {value}" for agent, value in zip(returns, shown, strict=True))
    return f"Over after {record.env_steps} env steps. Return: {each if len(shown) > 1 else ''.join(shown)}."
