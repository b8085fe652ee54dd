"""Mapping from spots in the picture to legal actions.

A choice is an action and the spots that are pressed for it, one after another: a cell of tic-tac-toe is one, a chess
move is two, a promotion three. Positions are fractions of the picture, so that a screen needs no knowledge of the game.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, EnvID, JsonObject
from mosaic.core.turn import Turn
from mosaic.envs.action_names import CARD_NAMES, meanings_of, place_name
from mosaic.envs.chess import is_white_to_move, piece_at
from mosaic.envs.env import EnvSpec
from mosaic.envs.family import split_version
from mosaic.envs.tables.table import playing_card

MOST_BUTTONS = 50  # up to this many actions without a place in the picture get a button each

_PIECES = {"p": "pawn", "n": "knight", "b": "bishop", "r": "rook", "q": "queen", "k": "king"}
_GLYPHS = {"q": "♛", "r": "♜", "b": "♝", "n": "♞"}
_FILES = "abcdefgh"


class Rect(NamedTuple):
    """Rectangle in fractions of the picture, from its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    def holds(self, x: float, y: float) -> bool:
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


@dataclass(frozen=True, slots=True)
class Spot:
    """Something to press: a region of the picture, or a button beside it where there is no region."""

    id: str
    label: str
    rect: Rect | None = None
    key: str = ""  # what is typed instead
    mark: tuple[float, float] | None = None  # where in the spot the result will appear
    glyph: str = ""  # drawn on the spot
    landing: Rect | None = None  # the part of the region that changes


@dataclass(frozen=True, slots=True)
class Choice:
    action: int
    label: str
    spots: tuple[Spot, ...]

    @property
    def text(self) -> str:
        """Return the label of its button, or of the action where several spots are pressed for it."""
        return self.spots[0].label if len(self.spots) == 1 else self.label

    @property
    def places(self) -> tuple[Rect, ...]:
        """Return the regions of the picture that belong to the action: cells, or departure and arrival."""
        found = (spot.landing or spot.rect for spot in self.spots if not spot.glyph)
        return tuple(rect for rect in found if rect is not None)


Path = tuple[str, ...]  # ids of the spots pressed so far


class Pressed(NamedTuple):
    """Result of a press: an action, or a path that is still incomplete."""

    action: int | None
    path: Path = ()


def choices(spec: EnvSpec, turn: Turn, agent: AgentID) -> tuple[Choice, ...]:
    """Return the agent's legal choices; empty if its actions are not integers or too many to press."""
    space = spec.action_spaces[agent]
    if not isinstance(space, spaces.Discrete):
        return ()
    low, mask = int(space.start), turn.action_masks.get(agent)
    legal = np.arange(int(space.n)) if mask is None else np.flatnonzero(mask)
    game = _GAMES.get(split_version(spec.env_id)[0])
    if game is not None:
        return tuple(game(turn, agent, [int(action) for action in legal]))
    if len(legal) > MOST_BUTTONS:
        return ()
    names = dict(enumerate(meanings_of(spec.env_id, int(space.n))))
    return tuple(_button(int(place) + low, names.get(int(place) + low)) for place in legal)


def has_board(env_id: EnvID) -> bool:
    """Return whether actions of this env have places in its picture."""
    return split_version(env_id)[0] in _GAMES


def next_spots(among: Sequence[Choice], path: Path) -> list[Spot]:
    """Return what may be pressed after the path, each spot once."""
    depth = len(path)
    found = {c.spots[depth].id: c.spots[depth] for c in among if len(c.spots) > depth and _starts(c, path)}
    return list(found.values())


def press(among: Sequence[Choice], path: Path, spot_id: str) -> Pressed:
    """Press one spot. The first spot of another choice starts that one; pressing the last spot again takes it back."""
    if path and spot_id == path[-1]:
        return Pressed(None, path[:-1])
    for start in (path, ()):
        taken = (*start, spot_id)
        for choice in among:
            if _starts(choice, taken):
                return Pressed(choice.action) if len(choice.spots) == len(taken) else Pressed(None, taken)
    legal = ", ".join(spot.label for spot in next_spots(among, path)[:12]) or "nothing"
    after = f" after {' '.join(path)}" if path else ""
    raise InputError(f"'{spot_id}' cannot be chosen here{after}. You can choose: {legal}.")


def spot_at(among: Sequence[Choice], path: Path, x: float, y: float) -> str:
    """Return the spot at a position of the picture, including those that other choices begin with."""
    if not (0 <= x <= 1 and 0 <= y <= 1):
        raise InputError("That place lies outside the picture.")
    for spot in (*next_spots(among, path), *next_spots(among, ())):
        if spot.rect is not None and spot.rect.holds(x, y):
            return spot.id
    if any(spot.rect for spot in next_spots(among, ())):
        raise InputError("There is no legal move on that spot; the spots you can choose are marked.")
    raise InputError("This picture cannot be clicked: choose with the buttons or keys.")


def _starts(choice: Choice, path: Path) -> bool:
    return len(choice.spots) >= len(path) and all(s.id == p for s, p in zip(choice.spots, path, strict=False))


def number_key(place: int) -> str:
    """Return the key of the number row for the first ten of a list, from 1 to 9 and then 0; empty for later ones."""
    return "1234567890"[place : place + 1] if place >= 0 else ""


def _button(action: int, name: str | None) -> Choice:
    """Return an action with a button; a card in its name is shown as on the card table."""
    label = name or f"action {action}"
    words, _, card = label.rpartition(" ")
    shown = f"{words} {playing_card(card).text}" if card in CARD_NAMES else label
    return Choice(action, label, (Spot(str(action), shown, key=number_key(action)),))


def _tictactoe(turn: Turn, agent: AgentID, legal: list[int]) -> Iterator[Choice]:
    """Label the cells along the rows, as people read them; the env numbers them down the columns."""
    for action in legal:
        column, row = divmod(action, 3)
        label = place_name("classic/tictactoe", action, 9)
        number = label.removeprefix("cell ")
        spot = Spot(f"cell{number}", label, Rect(column / 3, row / 3, 1 / 3, 1 / 3), number, (0.5, 0.5))
        yield Choice(action, spot.label, (spot,))


def _connect_four(turn: Turn, agent: AgentID, legal: list[int]) -> Iterator[Choice]:
    """Locate the columns: 7 by 6 cells inside a margin of 4 of 99 pixels at the sides, 4 of 86 above and below."""
    width, left, top, height = 13 / 99, 4 / 99, 4 / 86, 78 / 86
    board = np.asarray(turn.observations[agent])
    for action in legal:
        free = int((~board[:, action].any(axis=-1)).sum()) if board.shape == (6, 7, 2) else 0
        mark = (0.5, (free - 0.5) / 6) if free else None
        cell = Rect(left + action * width, top + (free - 1) * height / 6, width, height / 6) if free else None
        spot = Spot(
            f"column{action + 1}",
            place_name("classic/connect_four", action, 7),
            Rect(left + action * width, top, width, height),
            str(action + 1),
            mark,
            landing=cell,
        )
        yield Choice(action, spot.label, (spot,))


def _chess(turn: Turn, agent: AgentID, legal: list[int]) -> Iterator[Choice]:
    from mosaic.envs.chess import uci_of

    fen = str(turn.infos[agent]["fen"])
    for action in legal:
        move = uci_of(action, fen)
        departure, arrival, promotion = move[:2], move[2:4], move[4:]
        piece = _PIECES[(_piece(fen, departure) or "p").lower()]
        first = Spot(departure, f"{piece} {departure}", _square(departure))
        taken = _piece(fen, arrival)
        label = f"takes {_PIECES[taken.lower()]} {arrival}" if taken else arrival
        second = Spot(arrival, label, _square(arrival), mark=(0.5, 0.5))
        if not promotion:
            yield Choice(action, move, (first, second))
            continue
        row = "qnrb".index(promotion)  # in the order they are lined up from the square, most likely nearest
        rank = 8 - row if is_white_to_move(fen) else 1 + row
        chosen = Spot(
            f"={promotion}",
            f"promote to {_PIECES[promotion]}",
            _square(f"{arrival[0]}{rank}"),
            promotion,
            glyph=_GLYPHS[promotion],
        )
        yield Choice(action, move, (first, second, chosen))


def _go(turn: Turn, agent: AgentID, legal: list[int]) -> Iterator[Choice]:
    size = np.asarray(turn.observations[agent]).shape[0]
    for action in legal:
        name = place_name("classic/go", action, size * size + 1)
        if name == "pass":
            yield Choice(action, name, (Spot(name, name, key="x"),))
            continue
        column, row = divmod(action, size)  # the env draws its rows from left to right
        spot = Spot(name, name, Rect(column / size, row / size, 1 / size, 1 / size), mark=(0.5, 0.5))
        yield Choice(action, name, (spot,))


def _square(name: str) -> Rect:
    """Locate a square; white is always at the bottom in PettingZoo's picture."""
    return Rect(_FILES.index(name[0]) / 8, (8 - int(name[1])) / 8, 1 / 8, 1 / 8)


def _piece(fen: str, square: str) -> str | None:
    return piece_at(fen, _FILES.index(square[0]), int(square[1]) - 1)


_GAMES: dict[str, Callable[[Turn, AgentID, list[int]], Iterator[Choice]]] = {
    "classic/tictactoe": _tictactoe,
    "mosaic/tictactoe": _tictactoe,
    "classic/connect_four": _connect_four,
    "classic/chess": _chess,
    "classic/go": _go,
}


def as_json(spot: Spot) -> JsonObject:
    return {
        "id": spot.id,
        "label": spot.label,
        "rect": spot.rect,
        "key": spot.key,
        "mark": spot.mark,
        "glyph": spot.glyph,
    }
