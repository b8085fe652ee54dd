"""Requests of a frame ring's readers, and their last heartbeats.

Each reader has an area of words in the file that no other process writes; the writer only reads them. A word is always
whole. A request of several words may be read half old, half new; that costs one picture of the wrong env, which does
not justify a lock.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from mosaic.core.errors import InputError
from mosaic.telemetry.frames.fences import get_word, put_word
from mosaic.telemetry.frames.layout import (
    AREA_BYTES,
    AREAS_AT,
    ASKED_AT,
    ENV_AT,
    GRID_AT,
    INTERVAL_AT,
    LOOKED_AT,
    OWNER_AT,
    READERS,
)

MEMORY_NS = 2_000_000_000
"""A reader is considered gone after this long without a heartbeat."""


class FrameRequest(NamedTuple):
    """Request for `grid` pictures of envs from `env` on, combined in one; 1: that env alone."""

    rate_hz: float = 30.0
    env: int = 0
    grid: int = 1


def checked(request: FrameRequest) -> FrameRequest:
    if not 0.01 <= request.rate_hz <= 1000:
        raise InputError(f"Pictures at {request.rate_hz:g} a second are not possible; ask for 0.01 to 1000.")
    if request.env < 0 or request.grid < 1:
        raise InputError(
            f"There is no grid of {request.grid} envs from env {request.env}; "
            "envs are numbered from 0, and a grid has 1 or more."
        )
    return request


class RequestArea:
    """One reader's area in one file."""

    def __init__(self, ring: int, request: FrameRequest, now_ns: int) -> None:
        self._ring, self._token = ring, secrets.randbits(62) | 1
        self._request, self._asked_ns = request, now_ns
        self._area = self._claim()

    def look(self, request: FrameRequest, now_ns: int) -> None:
        if request != self._request:
            self._request, self._asked_ns = request, now_ns
        if get_word(self._area + OWNER_AT) != self._token:
            self._area = self._claim()  # another reader took us for gone, or claimed the area at the same moment
        self._write(now_ns)

    def leave(self) -> None:
        if get_word(self._area + OWNER_AT) == self._token:
            put_word(self._area + LOOKED_AT, 0)

    def _claim(self) -> int:
        """Claim the area with the oldest heartbeat: a free one, as long as there is one."""
        areas = (self._ring + AREAS_AT + reader * AREA_BYTES for reader in range(READERS))
        area: int = min(areas, key=lambda area: get_word(area + LOOKED_AT))
        put_word(area + OWNER_AT, self._token)
        return area

    def _write(self, now_ns: int) -> None:
        put_word(self._area + INTERVAL_AT, round(1e9 / self._request.rate_hz))
        put_word(self._area + ENV_AT, self._request.env)
        put_word(self._area + GRID_AT, self._request.grid)
        put_word(self._area + ASKED_AT, self._asked_ns)
        put_word(self._area + LOOKED_AT, now_ns)  # last: it makes the others valid


def last_request(ring: int, now_ns: int) -> FrameRequest | None:
    """Return the request that changed most recently; None without readers.

    The most recent heartbeat does not decide: with two readers the picture would jump.
    """
    chosen, chosen_asked = None, -1
    for area in range(ring + AREAS_AT, ring + AREAS_AT + READERS * AREA_BYTES, AREA_BYTES):
        looked, asked = get_word(area + LOOKED_AT), get_word(area + ASKED_AT)
        if looked and now_ns - looked <= MEMORY_NS and asked > chosen_asked:
            chosen, chosen_asked = area, asked
    if chosen is None:
        return None
    return FrameRequest(
        1e9 / max(1, get_word(chosen + INTERVAL_AT)), get_word(chosen + ENV_AT), get_word(chosen + GRID_AT)
    )
