"""Rendering of a match: a picture for its web pages, one for viewers elsewhere, and observations as text."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from time import time

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.turn import Observation
from mosaic.envs.env import Env
from mosaic.runners.live_screen import LiveScreen
from mosaic.runners.screen import Shot, develop
from mosaic.server.play.episode import PositionText
from mosaic.server.play.keys import innermost
from mosaic.server.play.state import MatchState
from mosaic.telemetry.frames.on_demand import LISTEN_EVERY_S
from mosaic.telemetry.frames.reader import Frame
from mosaic.telemetry.pictures.message import pack

_SIZE_PX, _MARGIN_PX = 20, 24
_PAPER, _INK = (19, 22, 26), (233, 235, 238)


def picture_of(env: Env) -> NDArray[np.uint8] | None:
    """Return the env's own picture, or its text drawn; None if it has neither."""
    pixels = env.render()
    if pixels is not None:
        return pixels
    text = hanabi_text(env)
    return draw_text(text) if text else None


def hanabi_text(env: Env) -> str:
    """Return Hanabi's text for the player to move, at the end for all players; empty for other envs."""
    state = getattr(getattr(innermost(env), "hanabi_env", None), "game_state", None)
    if state is None:
        return ""
    player = state.current_player()
    return str(state.observation_string(player) if player >= 0 else state).strip()


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
        self._shown = self._shown_live = (-1, -1)  # episode and step of the newest picture
        self.frame: MatchFrame | None = None

    @property
    def is_watched_live(self) -> bool:
        return self._live is not None and self._live.is_watched()

    @property
    def listen_every_s(self) -> float:
        """Return the longest time for which a new viewer elsewhere may go unnoticed."""
        return math.inf if self._live is None else LISTEN_EVERY_S

    def owes(self) -> tuple[bool, bool]:
        """Return whether pages, and whether others, wait for a picture of this step. The state must be locked."""
        now = self._now
        page = self._shown != now and bool(self._state.viewers.all)
        return page, self._live is not None and self._shown_live != now and self._live.wanted()

    def show(self, env: Env, page: bool, live: bool) -> None:
        shot = self._shot(env)
        if live and self._live is not None:
            if shot is not None:
                self._live.show(shot)
            self._shown_live = self._now
        if page:
            self._draw(shot)

    def close(self) -> None:
        if self._live is not None:
            self._live.close()

    @property
    def _now(self) -> tuple[int, int]:
        return self._state.episode.number, self._state.episode.step

    def _shot(self, env: Env) -> Shot | None:
        episode = self._state.episode
        if episode.turn is None:
            return None
        returns = dict(episode.returns)
        reward = episode.turn.rewards.get(next(iter(returns), ""), 0.0)
        return Shot(partial(picture_of, env), 0, episode.step, episode.number, reward, returns)

    def _draw(self, shot: Shot | None) -> None:
        state, env_id = self._state, self._state.episode.known_spec.env_id
        developed = None
        try:
            developed = None if shot is None else develop([shot])
            problem = f"{env_id} has no picture." if developed is None else ""
        except Exception as error:  # noqa: BLE001 - a game without a picture can still be played
            problem = f"{env_id} cannot be drawn: {type(error).__name__}: {error}"
            _log.exception("Match %s cannot be drawn", state.id)
        with state.changed:
            self._shown = self._now
            if problem:
                self._describe(problem)
            if developed is not None:
                number = self.frame.number + 1 if self.frame else 1
                facts, rgb = developed.facts, developed.rgb
                where = facts["step"], facts["episode"], facts["env"], facts["agent"]
                self.frame = MatchFrame(Frame(number, rgb, *where, time(), facts["reward"], facts["ret"]))
                state.viewers.notify()

    def _describe(self, problem: str) -> None:
        """Show what the agents observe in place of a picture. The state is locked."""
        state, turn = self._state, self._state.episode.turn
        seen = {} if turn is None else turn.observations or turn.final_observations
        if seen and not state.episode.view.cells:
            state.episode.view = PositionText(text=describe_observations(seen))
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
