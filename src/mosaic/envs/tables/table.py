"""Card table: seats, cards and piles of a position, as one agent, a spectator, or everyone after the end sees them.

A screen draws it without knowing the game. A card that its viewer must not see has no face here, so that what is hidden
never leaves the process.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from mosaic.core.ids import AgentID, Json

_SUITS = {"S": ("♠", "spades"), "H": ("♥", "hearts"), "D": ("♦", "diamonds"), "C": ("♣", "clubs")}
_RANKS = {"A": "ace", "T": "10", "J": "jack", "Q": "queen", "K": "king"}
_RED = "HD"


class Sight(NamedTuple):
    """Whose information a viewer has: that of one agent, of no agent (a spectator), or all of it."""

    agent: AgentID | None = None
    everything: bool = False

    def sees(self, agent: AgentID) -> bool:
        return self.everything or agent == self.agent


SPECTATOR, EVERYTHING = Sight(), Sight(everything=True)


def sight_at_screen(players: Collection[AgentID], acting: Collection[AgentID]) -> Sight:
    """Return the sight of a screen at which these agents are played: of several, that of the one whose turn it is."""
    shown = players if len(players) == 1 else [agent for agent in acting if agent in players]
    return next((Sight(agent) for agent in shown), SPECTATOR)


@dataclass(frozen=True, slots=True)
class Card:
    """A card; without `rank` it is seen from the back, or an empty place if it is `absent`."""

    name: str  # in words, for those who do not see colours or the screen
    rank: str = ""
    suit: str = ""  # symbol or colour's name
    colour: str = ""  # black, red, or a colour of Hanabi
    notes: tuple[str, ...] = ()  # what is known about it
    group: int = 0  # cards of one meld share a number; 0: of none
    absent: bool = False

    @property
    def text(self) -> str:
        face = "·" if self.absent else f"{self.rank}{self.suit}" if len(self.suit) < 2 else f"{self.suit} {self.rank}"
        return (face if self.rank or self.absent else "▮") + (f" ({', '.join(self.notes)})" if self.notes else "")


@dataclass(frozen=True, slots=True)
class CardRow:
    """Cards that lie together; `note` says what else there is to know."""

    label: str
    cards: tuple[Card, ...] = ()
    note: str = ""
    small: bool = False  # drawn small: a pile that is spread out

    @property
    def text(self) -> str:
        cards = " ".join(card.text for card in self.cards)
        return f"{self.label}: " + " · ".join(filter(None, [cards, self.note]))


@dataclass(frozen=True, slots=True)
class Fact:
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Seat:
    agent: AgentID
    rows: tuple[CardRow, ...]
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class CardTable:
    seats: tuple[Seat, ...]  # in the order of the env's agents
    middle: tuple[CardRow, ...]
    facts: tuple[Fact, ...] = ()
    ending: str = ""  # how the game ends or has ended, in words; empty where there is nothing to add to the result


def table_json(table: CardTable) -> Json:
    found: Json = asdict(table)
    return found


def table_text(table: CardTable, own: AgentID | None = None) -> str:
    """Return the table as lines of text, the own seat last, as it is nearest to its player."""
    seats = sorted(table.seats, key=lambda seat: seat.agent == own)
    above, below = ([seat for seat in seats if seat.agent != own], [seat for seat in seats if seat.agent == own])
    lines = [_facts(table.facts)] if table.facts else []
    for seat in above:
        lines += _seat(seat, seat.agent)
    lines += [row.text for row in table.middle]
    for seat in below:
        lines += _seat(seat, f"{seat.agent} (you)")
    return "\n".join(lines)


def _seat(seat: Seat, name: str) -> list[str]:
    head = f"{name}{f' · {_facts(seat.facts)}' if seat.facts else ''}"
    return [head, *(f"  {row.text}" for row in seat.rows)]


def _facts(facts: Sequence[Fact]) -> str:
    return " · ".join(f"{fact.label} {fact.value}" for fact in facts)


def playing_card(code: str, *, group: int = 0, notes: tuple[str, ...] = ()) -> Card:
    """Return a card of the usual deck from its rank and suit, such as TS for the ten of spades."""
    rank, suit = code[0], code[1]
    symbol, suit_name = _SUITS[suit]
    shown = "10" if rank == "T" else rank
    name = f"{_RANKS.get(rank, rank)} of {suit_name}"
    return Card(name, shown, symbol, "red" if suit in _RED else "black", notes, group)


def hidden_card(notes: tuple[str, ...] = ()) -> Card:
    return Card("hidden card", notes=notes)


def empty_place() -> Card:
    return Card("no card yet", absent=True)
