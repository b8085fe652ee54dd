"""What must be kept from upstream packages: a screen, our signals, a neighbour's pictures, noise."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def draw_without_screen() -> None:
    """To be called before anything imports pygame. SDL would otherwise swallow SIGTERM once a display exists."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


@contextmanager
def quiet() -> Iterator[None]:
    """Envs warn of fonts and of the precision of their own spaces when made and drawn; no user can act on that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def keep_pygame() -> Iterator[None]:
    """Envs call pygame.quit() in close(), which breaks fonts and surfaces of every other env in the process."""
    pygame: Any = sys.modules.get("pygame")
    if pygame is None:
        yield
        return
    quit_pygame, pygame.quit = pygame.quit, lambda: None
    try:
        yield
    finally:
        pygame.quit = quit_pygame
