"""Pictures of environments, drawn once in a thread and then kept in the store's cache."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
from fastapi import FastAPI, Response
from numpy.typing import NDArray

from mosaic.core.errors import unknown
from mosaic.core.ids import EnvID
from mosaic.core.version import VERSION
from mosaic.envs.catalog import make_env
from mosaic.policies.registry import load_policy
from mosaic.store.atomic import private_folder, write_atomic
from mosaic.ui.web.data.env_info import catalog

ADDRESS = "/env-picture"
_LOG = logging.getLogger(__name__)
_WIDTH = 320
_STEPS = 12  # random steps first: most games begin with an empty board
_PLAIN = (  # where there is no picture
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 10"><rect width="16" height="10" fill="#888" '
    b'opacity=".14"/><g fill="#888" opacity=".5"><rect x="6.600" y="3.600" width="1.200" height="1.200" rx=".25"/>'
    b'<rect x="8.200" y="3.600" width="1.200" height="1.200" rx=".25"/><rect x="6.600" y="5.200" width="1.200" '
    b'height="1.200" rx=".25"/><rect x="8.200" y="5.200" width="1.200" height="1.200" rx=".25"/></g></svg>'
)


class EnvPictures:
    """Cache of env pictures; a single thread draws, as some envs share one window per process."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "cache" / "env-pictures" / VERSION
        self._thread = ThreadPoolExecutor(1, "env-pictures")

    async def find(self, env: EnvID) -> bytes | None:
        """Return a PNG, or None where the env has no picture."""
        file = self._file(env)
        if not file.exists():
            return await asyncio.get_running_loop().run_in_executor(self._thread, self.draw, env)
        return file.read_bytes() or None

    def draw(self, env: EnvID) -> bytes | None:
        """Do the same synchronously."""
        file = self._file(env)
        if not file.exists():
            private_folder(self._folder)
            write_atomic(file, _drawn(env))
        return file.read_bytes() or None

    def _file(self, env: EnvID) -> Path:
        return self._folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', env)}.png"


def _drawn(env: EnvID) -> bytes:
    """Return the PNG's bytes, empty where there is no picture."""
    try:
        pixels = _picture(env)
    except Exception as error:  # noqa: BLE001 - third-party drawing code can raise anything; a plain card is enough
        _LOG.info("%s has no picture: %s: %s", env, type(error).__name__, error)
        return b""
    return b"" if pixels is None else _png(pixels)


def _picture(env: EnvID) -> NDArray[np.uint8] | None:
    with closing(make_env(env)) as made, closing(load_policy("random", made.spec)) as controller:
        turn = made.reset(seed=1)
        controller.begin(made.possible_agents, 1)
        pixels = made.render()
        for _ in range(_STEPS):
            turn = made.step(controller.act(turn))
            if not turn.observations:
                break  # the picture before the end shows more than an empty board
            pixels = made.render()
        return pixels


def _png(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((_WIDTH, _WIDTH))
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def add_picture_route(app: FastAPI, home: Path) -> None:
    pictures = EnvPictures(home)

    @app.get(ADDRESS, include_in_schema=False)
    async def env_picture(env: str) -> Response:
        """Serve pictures of cataloged envs only, as drawing runs the env's code."""
        known = {entry.id: entry for entry in await asyncio.to_thread(catalog)}
        if env not in known:
            raise unknown("environment", env, known)
        data = await pictures.find(env) if known[env].installed else None
        headers = {"Cache-Control": "max-age=86400"}
        if data is None:
            return Response(_PLAIN, media_type="image/svg+xml", headers=headers)
        return Response(data, media_type="image/png", headers=headers)
