"""State of a match as a viewer gets it, and what the terminal app reads from it."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

CellPlace = tuple[int, int]  # row and column, from the upper left


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SpotView(_Part):
    """Something to press; without `rect` it has no place in the picture."""

    id: str
    label: str
    rect: tuple[float, float, float, float] | None = None
    key: str = ""
    mark: tuple[float, float] | None = None
    glyph: str = ""

    def holds(self, x: float, y: float) -> bool:
        if self.rect is None:
            return False
        left, top, width, height = self.rect
        return left <= x < left + width and top <= y < top + height

    def landing(self) -> tuple[float, float] | None:
        """Return where in the picture the result of the press appears."""
        if self.rect is None:
            return None
        left, top, width, height = self.rect
        across, down = self.mark or (0.5, 0.5)
        return left + across * width, top + down * height


class AgentView(_Part):
    agent: str
    policy: str
    human: bool
    mine: bool
    acting: bool
    ret: float = Field(0.0, alias="return")


class BindingView(_Part):
    keys: tuple[str, ...]
    label: str = ""
    action: int | None = None
    axis: int | None = None
    value: float = 0.0
    agent: str | None = None


class MoveView(_Part):
    step: int
    agent: str
    text: str
    san: str = ""  # of chess, as players write it


class ThoughtView(_Part):
    label: str
    probability: float
    san: str = ""  # of chess, as players write it


class AdviceView(_Part):
    agent: str
    policy: str
    thoughts: tuple[ThoughtView, ...] = ()
    value: float | None = None
    note: str = ""


class ReadyView(_Part):
    """Start of a game in real time, which waits until every person is ready."""

    mine: bool
    ready: int
    people: int
    starts_in_s: float | None


class MatchView(_Part):
    """The whole state of a match; a newer one replaces it."""

    match_id: str
    env: str
    phase: str
    paused: bool
    real_time: bool
    rate_hz: float
    episode: int
    seed: int | None  # None as long as it would tell what is hidden
    step: int
    viewers: int
    recording: bool
    demo: str | None  # demonstration that is recorded
    demo_episodes: int  # that were added
    error: str
    note: str
    result: str
    board: tuple[tuple[str, ...], ...]
    text: str
    agents: tuple[AgentView, ...]
    chooser: str | None
    spots: tuple[SpotView, ...]
    others: tuple[SpotView, ...]
    selected: tuple[SpotView, ...]
    keys: tuple[BindingView, ...]
    moves: tuple[MoveView, ...]
    thinking: bool
    advice: AdviceView | None
    ready: ReadyView | None = None  # None once the game has started

    @property
    def plays(self) -> bool:
        """Return whether this viewer acts for an agent."""
        return any(agent.mine for agent in self.agents)

    @property
    def listed(self) -> tuple[SpotView, ...]:
        """Return the choices to list beside the picture: those without a place on a board of cells, and promotions."""
        return tuple(spot for spot in self.spots if not self.board or spot.rect is None or spot.glyph)


class Marks(NamedTuple):
    """Cells of a board that a choice concerns."""

    free: frozenset[CellPlace]  # may be chosen now
    chosen: frozenset[CellPlace]


def centre(view: MatchView, cell: CellPlace) -> tuple[float, float]:
    """Return the middle of a cell in fractions of the picture."""
    rows, columns = len(view.board), len(view.board[0])
    return (cell[1] + 0.5) / columns, (cell[0] + 0.5) / rows


def spot_of(view: MatchView, cell: CellPlace) -> SpotView | None:
    """Return what pressing a cell means; None where it means nothing."""
    x, y = centre(view, cell)
    return next((spot for spot in (*view.spots, *view.others) if spot.holds(x, y)), None)


def marks_of(view: MatchView) -> Marks:
    return Marks(_cells(view, view.spots), _cells(view, view.selected))


def _cells(view: MatchView, spots: tuple[SpotView, ...]) -> frozenset[CellPlace]:
    rows, columns = len(view.board), len(view.board[0])
    places = (spot.landing() for spot in spots)
    return frozenset((int(place[1] * rows), int(place[0] * columns)) for place in places if place is not None)
