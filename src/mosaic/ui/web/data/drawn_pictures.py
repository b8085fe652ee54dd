"""Pictures of environments and of recorded episodes, drawn once in a thread and then kept in the store's cache."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from fastapi import FastAPI, Response
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.episode import Episode
from mosaic.core.errors import unknown
from mosaic.core.ids import EnvID
from mosaic.core.turn import Turn
from mosaic.core.version import VERSION
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.policies.controller import PolicyController
from mosaic.policies.registry import load_policy
from mosaic.runners.record import load_episode, replay
from mosaic.server.context import ServerContext
from mosaic.server.play.rendering import picture_of
from mosaic.store.atomic import private_folder, write_atomic
from mosaic.ui.web.data.env_info import catalog, make_alone

ADDRESS, EPISODE_ADDRESS = "/env-picture", "/episode-picture"
_Draw: TypeAlias = Callable[[], NDArray[np.uint8] | None]
_LOG = logging.getLogger(__name__)
_WIDTH = 320
_STEPS = 12  # random steps first: most games begin with an empty board
_PLAIN = (  # where there is no picture
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 10"><rect width="16" height="10" fill="#888" '
    b'opacity=".14"/><g fill="#888" opacity=".5"><rect x="6.600" y="3.600" width="1.200" height="1.200" rx=".25"/>'
    b'<rect x="8.200" y="3.600" width="1.200" height="1.200" rx=".25"/><rect x="6.600" y="5.200" width="1.200" '
    b'height="1.200" rx=".25"/><rect x="8.200" y="5.200" width="1.200" height="1.200" rx=".25"/></g></svg>'
)


class PictureCache:
    """Pictures that are drawn once; a single thread draws, as some envs share one window per process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, folder.parent.name)

    async def find(self, name: str, draw: _Draw) -> bytes | None:
        """Return a PNG, or None where there is no picture."""
        file = self._file(name)
        if not file.exists():
            return await asyncio.get_running_loop().run_in_executor(self._thread, self.find_now, name, draw)
        return file.read_bytes() or None

    def find_now(self, name: str, draw: _Draw) -> bytes | None:
        """Do the same synchronously."""
        file = self._file(name)
        if not file.exists():
            private_folder(self._folder)
            write_atomic(file, _drawn(name, draw))
        return file.read_bytes() or None

    def _file(self, name: str) -> Path:
        return self._folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}.png"


def _drawn(name: str, draw: _Draw) -> bytes:
    """Return the PNG's bytes, empty where there is no picture."""
    try:
        pixels = draw()
    except Exception as error:  # noqa: BLE001 - third-party drawing code can raise anything; a plain card is enough
        _LOG.info("%s has no picture: %s: %s", name, type(error).__name__, error)
        return b""
    return b"" if pixels is None else _png(pixels)


def env_pixels(env: EnvID) -> NDArray[np.uint8] | None:
    """Draw an env after some random steps, or before its last one if it ends earlier.

    Drawing takes far longer than playing: the steps are counted first, and only the last of them is drawn.
    """
    with closing(make_alone(env)) as made, closing(load_policy("random", made.spec)) as controller:
        _play(made, controller, _play(made, controller, _STEPS))
        return made.render()


def _play(env: Env, controller: PolicyController, most: int) -> int:
    """Play random steps and return how many were played before the episode ended."""
    turn = env.reset(seed=1)
    controller.begin(env.possible_agents, 1)
    for played in range(most):
        turn = env.step(controller.act(turn))
        if not turn.observations:
            return played
    return most


def _png(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((_WIDTH, _WIDTH))
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def last_pixels(environment: EnvironmentConfig, episode: Episode) -> NDArray[np.uint8] | None:
    """Return the picture of the last position of a recorded episode, which is played again for it."""
    found: list[NDArray[np.uint8] | None] = []
    with closing(make_env(environment)) as env:

        def on_turn(step: int, turn: Turn) -> None:
            if step == episode.env_steps:
                found.append(picture_of(env))

        replay(env, episode, on_turn)
    return found[0] if found else None


def add_picture_routes(app: FastAPI, context: ServerContext) -> None:
    cache = context.store.home / "cache"
    envs, episodes = (PictureCache(cache / name / VERSION) for name in ("env-pictures", "episode-pictures"))

    @app.get(ADDRESS, include_in_schema=False)
    async def env_picture(env: str) -> Response:
        """Serve pictures of cataloged envs only, as drawing runs the env's code."""
        known = {entry.id: entry for entry in await asyncio.to_thread(catalog)}
        if env not in known:
            raise unknown("environment", env, known)
        return _response(await envs.find(env, partial(env_pixels, env)) if known[env].installed else None)

    @app.get(EPISODE_ADDRESS, include_in_schema=False)
    async def episode_picture(examination: str, index: int) -> Response:
        """Serve the last position of an episode of an evaluation."""
        file = await asyncio.to_thread(context.examinations.episode_file, examination, index)
        episode = await asyncio.to_thread(load_episode, file)
        environment = app.state.matches.replayable(episode)
        name = f"{examination}-{index}"
        return _response(await episodes.find(name, partial(last_pixels, environment, episode)))


def _response(png: bytes | None) -> Response:
    headers = {"Cache-Control": "max-age=86400"}
    if png is None:
        return Response(_PLAIN, media_type="image/svg+xml", headers=headers)
    return Response(png, media_type="image/png", headers=headers)
