"""Order of keys: each is handled before the next is forwarded, and keys typed ahead wait for their dialog."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from textual.app import App
from textual.events import Key
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen


class KeyPassed(Message):
    """Follows a key through the widgets: when it arrives at the app, they have handled that key."""


class KeyOrder:
    """Keys that wait for their turn.

    Textual forwards a key to the focused widget at once, also while an earlier key is about to open a dialog or to
    move the focus. On a slow machine the rest of a word would then be taken for commands.
    """

    def __init__(self, app: App[None], forward: Callable[[Key], object]) -> None:
        self._app, self._forward = app, forward
        self._waiting: deque[Key] = deque()
        self._screen: Screen[object] | None = None  # that of the key that is being handled; None where none is
        self._handling: MessagePump | None = None  # what will say that it is handled, unless it is removed
        self._holds: list[object] = []

    def admit(self, key: Key) -> bool:
        """Return whether a key is forwarded now; if not, it is forwarded when its turn comes."""
        if not self._app.screen_stack:
            return False  # the app has ended meanwhile
        if self._holds and key.key == "escape":
            self._holds.clear()
            self._waiting.clear()
            return False
        if self._holds or self._waiting or self._screen is not None:
            self._waiting.append(key)
            if self._handling is not None and not self._handling.is_running:
                self._open()
            return False
        self._begin()
        return True

    def follow(self, target: MessagePump) -> None:
        """Send the message that says when `target` and its parents have handled the key."""
        self._handling = target
        if not target.post_message(KeyPassed()):
            self._open()

    def passed(self) -> None:
        """Forward the next key after the focus has moved; on another screen, as soon as that is drawn."""
        if not self._app.screen_stack:
            return  # the app has ended meanwhile
        if self._app.screen is self._screen:
            self._app.call_later(self._open)  # behind the change of focus that the key has asked for
        else:
            self._open_after_refresh()

    def hold(self) -> object:
        """Let keys wait until `release` is called with what this returns; Esc gives them up."""
        held = object()
        self._holds.append(held)
        return held

    def release(self, held: object) -> bool:
        """Let the keys go to the screen that is now shown; return False where Esc has given them up."""
        if held not in self._holds:
            return False
        self._holds.remove(held)
        self._app.call_later(self._open_after_refresh)
        return True

    def drop(self, held: object) -> None:
        """Drop waiting keys: the dialog they were typed for is not shown."""
        if held in self._holds:
            self._holds.remove(held)
            self._waiting.clear()

    def _begin(self) -> None:
        self._screen = self._app.screen

    def _open_after_refresh(self) -> None:
        self._handling = self._app.screen
        self._app.screen.call_after_refresh(self._open)

    def _open(self) -> None:
        self._screen = self._handling = None
        if self._waiting and not self._holds and self._app.screen_stack:
            self._begin()
            self._app.call_next(self._forward, self._waiting.popleft())
