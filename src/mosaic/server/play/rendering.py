"""Rendering of a match: a picture for its web pages, one for viewers elsewhere, and observations as text."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from time import time

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Observation, Turn
from mosaic.envs.agent_places import agent_places
from mosaic.envs.board_cells import board_of
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.private_pictures import draws_for_agents, picture_for
from mosaic.envs.tables.games import has_table, table_of
from mosaic.envs.tables.table import EVERYTHING, SPECTATOR, Sight, table_text
from mosaic.envs.text.view import text_view
from mosaic.runners.live_screen import LiveScreen
from mosaic.runners.screen import Shot, develop
from mosaic.server.play.episode import PositionText
from mosaic.server.play.state import MatchState
from mosaic.telemetry.frames.on_demand import LISTEN_EVERY_S
from mosaic.telemetry.frames.reader import Frame
from mosaic.telemetry.pictures.message import pack

_SIZE_PX, _MARGIN_PX = 20, 24
_PAPER, _INK = (19, 22, 26), (233, 235, 238)


def picture_of(env: Env) -> NDArray[np.uint8] | None:
    """Return the env's own picture, or its card table drawn as text; None if it has neither."""
    pixels = env.render()
    if pixels is not None:
        return pixels
    table = table_of(env, EVERYTHING)
    return None if table is None else draw_text(table_text(table))


def position_of(env: Env, turn: Turn, observed: Mapping[AgentID, str]) -> PositionText:
    """Return the position as text; `observed` is what the agents that do not act now observed last."""
    if not env.spec.facts.hidden_information:
        return PositionText(board_of(env), agent_places(env))
    if has_table(env.spec.env_id):
        sights = (EVERYTHING, SPECTATOR, *map(Sight, env.possible_agents))
        tables = {sight: table_of(env, sight) for sight in sights}
        return PositionText(tables={sight: table for sight, table in tables.items() if table is not None})
    new = {agent: _observed(env.spec, turn, agent) for agent in turn.observations}
    return PositionText(observed={**observed, **new}, places=agent_places(env), private_pictures=draws_for_agents(env))


def _observed(spec: EnvSpec, turn: Turn, agent: AgentID) -> str:
    try:
        return text_view(spec, turn, agent)
    except InputError:  # too many numbers
        return describe_observations({agent: turn.observations[agent]})


def draw_text(text: str) -> NDArray[np.uint8]:
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(_SIZE_PX)
    _, _, right, bottom = ImageDraw.Draw(Image.new("RGB", (1, 1))).multiline_textbbox((0, 0), text, font)
    image = Image.new("RGB", (int(right) + 2 * _MARGIN_PX, int(bottom) + 2 * _MARGIN_PX), _PAPER)
    ImageDraw.Draw(image).multiline_text((_MARGIN_PX, _MARGIN_PX), text, _INK, font)
    return np.asarray(image)


_log = logging.getLogger(__name__)


class MatchFrame:
    """Newest picture, encoded when the first viewer is ready for it: the match does not wait for that."""

    def __init__(self, frame: Frame) -> None:
        self.number = frame.number  # grows with every picture
        self._frame, self._message = frame, b""
        self._lock = threading.Lock()

    def message(self) -> bytes:
        with self._lock:
            self._message = self._message or pack("live", self._frame)
        return self._message


class MatchScreen:
    """Screen used by the match's own thread, as drawing touches the env; `live` is for viewers outside the page."""

    def __init__(self, state: MatchState, live: LiveScreen | None) -> None:
        self._state, self._live = state, live
        self._shown = self._shown_live = (-1, -1)  # episode and step of the newest pictures
        self._number = 0
        self.frames: dict[Sight, MatchFrame | None] = {}  # of this step; None where the env cannot be drawn

    @property
    def is_watched_live(self) -> bool:
        return self._live is not None and self._live.is_watched()

    @property
    def listen_every_s(self) -> float:
        """Return the longest time for which a new viewer elsewhere may go unnoticed."""
        return math.inf if self._live is None else LISTEN_EVERY_S

    def owes(self) -> tuple[bool, bool]:
        """Return whether pages, and whether others, wait for a picture of this step. The state must be locked."""
        revealed = self._state.episode.is_revealed
        live = revealed and self._live is not None and self._shown_live != self._now and self._live.wanted()
        return bool(self._due()), live

    def _due(self) -> set[Sight]:
        """Return the sights of viewers for which this step is not drawn yet. The state must be locked."""
        state = self._state
        wanted = {state.sight_of(viewer) for viewer in state.viewers.all if viewer.pictures}
        drawn = set(self.frames) if self._shown == self._now else set()
        return {sight for sight in wanted - drawn if state.episode.is_drawn_for(sight)}

    def show(self, env: Env, page: bool, live: bool) -> None:
        if live and self._live is not None:
            shot = self._shot(env, EVERYTHING)
            if shot is not None:
                self._live.show(shot)
            self._shown_live = self._now
        if page:
            with self._state.changed:
                due = self._due()
            for sight in due:
                self._draw(self._shot(env, sight), sight)

    def close(self) -> None:
        if self._live is not None:
            self._live.close()

    @property
    def _now(self) -> tuple[int, int]:
        return self._state.episode.number, self._state.episode.step

    def _shot(self, env: Env, sight: Sight) -> Shot | None:
        episode = self._state.episode
        if episode.turn is None:
            return None
        returns = dict(episode.returns)
        reward = episode.turn.rewards.get(next(iter(returns), ""), 0.0)
        draw = partial(picture_of, env) if sight.everything else partial(picture_for, env, sight.agent)
        return Shot(draw, 0, episode.step, episode.number, reward, returns)

    def _draw(self, shot: Shot | None, sight: Sight) -> None:
        state, env_id = self._state, self._state.episode.known_spec.env_id
        developed = None
        try:
            developed = None if shot is None else develop([shot])
            problem = f"{env_id} has no picture." if developed is None else ""
        except Exception as error:  # noqa: BLE001 - a game without a picture can still be played
            problem = f"{env_id} cannot be drawn: {type(error).__name__}: {error}"
            _log.exception("Match %s cannot be drawn", state.id)
        with state.changed:
            if self._shown != self._now:
                self._shown, self.frames = self._now, {}
            self.frames[sight] = None
            if problem:
                self._describe(problem)
            if developed is not None:
                self._number += 1
                facts, rgb = developed.facts, developed.rgb
                where = facts["step"], facts["episode"], facts["env"], facts["agent"]
                frame = Frame(self._number, rgb, *where, time(), facts["reward"], facts["ret"])
                self.frames[sight] = MatchFrame(frame)
                self._show_again(sight)
                state.viewers.notify()

    def _show_again(self, sight: Sight) -> None:
        """Show pictures again in place of a text: an earlier one could not be drawn. The state is locked."""
        state = self._state
        if sight.everything and state.episode.view.text:
            state.episode.view = replace(state.episode.view, text="")
            state.viewers.tell()

    def _describe(self, problem: str) -> None:
        """Show what the agents observe in place of a picture. The state is locked."""
        state, turn = self._state, self._state.episode.turn
        seen = {} if turn is None else turn.observations or turn.final_observations
        if seen and not state.episode.view.cells:
            state.episode.view = replace(state.episode.view, text=describe_observations(seen))
        if not state.note or not state.pace.real_time or state.viewers.is_due():
            state.note = state.note or problem
            state.viewers.tell()


_MOST_AGENTS = 4
_MOST_VALUES = 12  # of one array, a line each
_MOST_LINES = 60


def describe_observations(observations: Mapping[AgentID, Observation]) -> str:
    """Return what the acting agents observe, a value on each line; large arrays by their range."""
    lines: list[str] = []
    for agent, observation in list(observations.items())[:_MOST_AGENTS]:
        values = list(_values("observation", observation))
        width = max(len(name) for name, _ in values)
        lines += [agent, *(f"  {name:<{width}}  {value}" for name, value in values)]
    hidden = len(observations) - _MOST_AGENTS
    return "\n".join([*lines[:_MOST_LINES], *([f"and {hidden} more agents"] if hidden > 0 else [])])


def _values(name: str, value: Observation) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _values(str(key), part)
        return
    if isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from _values(f"{name}[{place}]", part)
        return
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        yield name, f"{array.item():.4g}" if array.dtype.kind == "f" else str(value)
    elif array.ndim == 1 and array.size <= _MOST_VALUES:
        for place, number in enumerate(array.tolist()):
            yield f"{name}[{place}]", f"{number:.4g}"
    elif not array.size:
        yield name, f"{array.shape}, empty"
    else:
        yield name, f"{array.shape}, {array.min():.4g} to {array.max():.4g}"
