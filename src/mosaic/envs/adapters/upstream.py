"""Workarounds for bugs of upstream envs; each has a test that fails once upstream has fixed the bug."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias
from weakref import WeakSet

from mosaic.core.errors import InputError, MosaicError
from mosaic.envs.chess import fen_of

Flags: TypeAlias = Mapping[str, bool]
UpstreamEnv: TypeAlias = Any  # an env of PettingZoo with attributes of its own class


@dataclass(frozen=True, slots=True)
class Repairs:
    """Workarounds for one env; `state` is the env below PettingZoo's checking wrappers, None means no workaround."""

    ends: Callable[[UpstreamEnv], tuple[Flags, Flags]] | None = (
        None  # terminated and truncated, replacing the env's own
    )
    after_reset: Callable[[UpstreamEnv], None] | None = None
    own_stream: bool = False  # reset(None) draws new entropy: pass it the next seed of our own stream
    inform: Callable[[UpstreamEnv], Mapping[str, object]] | None = None  # added to the acting agent's info


def multiwalker_ends(state: UpstreamEnv) -> tuple[Flags, Flags]:
    """Return Multiwalker's ends with its time limit as truncation.

    The env reports the time limit as `terminated`; only a fall or the goal is.
    """
    world = state.env
    if world.frames < world.max_cycles:
        return state.terminations, state.truncations
    fallen = dict(zip(state.possible_agents, world.last_dones, strict=True))
    terminated = {agent: bool(fallen[agent]) for agent in state.terminations}
    return terminated, {agent: not ended for agent, ended in terminated.items()}


def gin_rummy_payoff(state: UpstreamEnv) -> None:
    """Restore the payoff function with `knock_reward` and `gin_reward`, which a seeded reset discards."""
    state.env.game.judge.scorer.get_payoff = state._get_payoff


def chess_info(state: UpstreamEnv) -> Mapping[str, object]:
    """Return the position for the info: engines need it, and the observation does not hold all of it."""
    return {"fen": fen_of(state)}


_go_size: int | None = None


def refuse_second_go_size(options: Mapping[str, object]) -> None:
    """Refuse a second board size: Go keeps it in module globals, and a second one in the process breaks the first."""
    global _go_size
    size = int(str(options.get("board_size", 19)))
    if _go_size not in (None, size):
        raise InputError(
            f"Go with board_size={size} cannot be used together with board_size={_go_size} in one process: "
            f"PettingZoo keeps "
            "the size in global variables. Use another process, or one size."
        )
    _go_size = size


REPAIRS: Mapping[str, Repairs] = {  # by name without version
    "chess": Repairs(inform=chess_info),
    "gin_rummy": Repairs(after_reset=gin_rummy_payoff),
    "hanabi": Repairs(own_stream=True),
    "multiwalker": Repairs(ends=multiwalker_ends),
}
NO_REPAIRS = Repairs()


def draw_without_screen() -> None:
    """Configure SDL for headless use; call before anything imports pygame.

    Otherwise SDL would intercept SIGTERM once a display exists.
    """
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def choose_opengl() -> None:
    """Choose MuJoCo's headless OpenGL backend; call before mujoco is imported.

    Importing mujoco fails if the chosen library is missing.
    """
    if sys.platform == "linux" and "MUJOCO_GL" not in os.environ:
        found = next((name for name in ("EGL", "OSMesa") if find_library(name)), None)
        if found is not None:
            os.environ["MUJOCO_GL"] = found.lower()


class OpenGLRenderer:
    """Renderer of a MuJoCo env that works in any thread and beside others, and whose failure says what to install.

    Gymnasium always uses the most recent context, only in the thread that created it, and frees unclosed renderers
    after mujoco has ended EGL, which prints errors.
    """

    def __init__(self, renderer: Any, env_name: str) -> None:
        self._renderer, self._env_name = renderer, env_name

    def render(self, mode: str | None) -> Any:
        try:
            _load_triton()
            if self._renderer.viewer is not None:
                self._renderer.viewer.make_context_current()
            picture = self._renderer.render(mode)
            if os.environ.get("MUJOCO_GL") == "egl":
                sys.modules["mujoco.egl"].EGL.eglReleaseThread()
            _open_renderers.add(self)
            _close_renderers_at_exit()
            return picture
        except Exception as error:
            raise MosaicError(
                f"{self._env_name} cannot be drawn here: OpenGL does not work (MUJOCO_GL is "
                f"{os.environ.get('MUJOCO_GL', 'not set')}: {type(error).__name__}). {_OPENGL_ADVICE}"
            ) from error

    def close(self) -> None:
        _open_renderers.discard(self)
        self._renderer.close()


def _load_triton() -> None:
    """Import triton, if it is installed, before the first picture.

    Without a GPU, Mesa draws by means of LLVM; triton, which torch for CUDA imports with its first optimizer, brings an
    LLVM of its own, and crashes the process if it is loaded after Mesa's.
    """
    if sys.platform == "linux" and "triton" not in sys.modules and find_spec("triton") is not None:
        with suppress(ImportError):  # torch, too, does without a triton that cannot be imported
            import_module("triton")


_OPENGL_ADVICE = (
    "Leave MUJOCO_GL unset, and run it as the user who is logged in at the screen."
    if sys.platform == "darwin"
    else "Install EGL or OSMesa, on Debian with: apt install libegl1 libgl1-mesa-dri"
)
_open_renderers: WeakSet[OpenGLRenderer] = WeakSet()


@cache
def _close_renderers_at_exit() -> None:
    """Close them before mujoco ends EGL: what is registered later, after the first picture, is called earlier."""

    def close_all() -> None:
        for renderer in list(_open_renderers):
            renderer.close()

    atexit.register(close_all)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings about fonts and the precision of spaces on creation and rendering; users cannot act on them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _PygameQuit:
    """pygame.quit(), disabled while at least one thread closes an env."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closing = 0
        self._quit: Callable[[], None] | None = None

    def disable(self, pygame: Any) -> None:
        with self._lock:
            if not self._closing:
                self._quit, pygame.quit = pygame.quit, lambda: None
            self._closing += 1

    def enable(self, pygame: Any) -> None:
        with self._lock:
            self._closing -= 1
            if not self._closing:
                pygame.quit = self._quit


_pygame_quit = _PygameQuit()


@contextmanager
def keep_pygame() -> Iterator[None]:
    """Disable pygame.quit(), which envs call in close(): it breaks fonts and surfaces of other envs in the process."""
    pygame: Any = sys.modules.get("pygame")
    if pygame is None:
        yield
        return
    _pygame_quit.disable(pygame)
    try:
        yield
    finally:
        _pygame_quit.enable(pygame)
