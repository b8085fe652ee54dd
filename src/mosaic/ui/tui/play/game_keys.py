"""Keys of a game in a terminal: which keys belong to the game while it is shown, and the legend that lists them.

Games name keys by their position on a browser's keyboard (KeyboardEvent.code). A terminal reports that a key went down,
again while it is held, and never that it went up: the app lets a key go `HOLD_S` after its last report.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mosaic.ui.tui.play.view import BindingView, MatchView

HOLD_S = 0.3
_NAMED = {
    "ArrowUp": ("up", "↑"),
    "ArrowDown": ("down", "↓"),
    "ArrowLeft": ("left", "←"),
    "ArrowRight": ("right", "→"),
    "Space": ("space", "space"),
    "Enter": ("enter", "⏎"),
    "Tab": ("tab", "tab"),
}
_MOST_LISTED = 12


class GameKey(NamedTuple):
    """A key of the terminal, as the game knows it."""

    code: str
    character: str
    shown: str


def terminal_key(code: str) -> tuple[str, str] | None:
    """Return a key's name in the terminal and how it is shown; None for one that terminals do not report alone."""
    if code in _NAMED:
        return _NAMED[code]
    if code.startswith(("Key", "Digit")) and len(code) in (4, 6):
        return code[-1].lower(), code[-1].lower()
    return None


def game_keys(view: MatchView) -> dict[str, GameKey]:
    """Return the keys that belong to the game. A letter does only where no other key has the same meaning."""
    found: dict[str, GameKey] = {}
    if not view.plays:
        return found
    for binding in view.keys:
        for code in binding.keys:
            known = terminal_key(code)
            if known is not None and not (known[0].isalpha() and len(known[0]) == 1 and _has_other(binding, view.keys)):
                found[known[0]] = GameKey(code, known[0] if len(known[0]) == 1 else "", known[1])
    if not view.real_time:
        for spot in view.spots:
            if spot.key:
                code = f"Digit{spot.key}" if spot.key.isdigit() else f"Key{spot.key.upper()}"
                found[spot.key] = GameKey(code, spot.key, spot.key)
    return found


def legend(view: MatchView, *, most: int = _MOST_LISTED) -> str:
    """Return what the keys do in this game, as one line."""
    if not view.plays:
        return "You watch. h takes an agent over; < > change the pace, p pauses."
    keys = game_keys(view)
    parts = [f"{shown} {label}" for shown, label in _meanings(view.keys, keys)[:most]]
    if view.real_time:
        held = f"a key acts for {HOLD_S:g} s after it is pressed or repeated"
        return "  ".join([*parts, f"({held}; terminals do not report its release)"])
    if view.board:
        parts.append("arrows ⏎ choose a cell")
    elif view.listed:
        parts.append("↑ ↓ ⏎ choose an action")
    digits = sorted((spot.key for spot in view.spots if spot.key.isdigit()), key=lambda key: (key == "0", key))
    if digits and not view.keys:  # 0 is the tenth
        parts.append(f"{digits[0]}-{digits[-1]} choose at once" if len(digits) > 1 else f"{digits[0]} chooses")
    return "  ".join([*parts, "j type a move"])


def _has_other(binding: BindingView, among: Iterable[BindingView]) -> bool:
    """Return whether other keys than letters mean the same."""
    return any(
        (other.action, other.axis, other.value, other.agent)
        == (binding.action, binding.axis, binding.value, binding.agent)
        and not any(code.startswith("Key") for code in other.keys)
        for other in among
    )


def _meanings(bindings: Iterable[BindingView], keys: dict[str, GameKey]) -> list[tuple[str, str]]:
    """Return each meaning once, with the keys that have it."""
    shown_as = {key.code: key.shown for key in keys.values()}
    found: dict[str, str] = {}
    for binding in bindings:
        if all(code in shown_as for code in binding.keys):
            label = f"{binding.label} ({binding.agent})" if binding.agent else binding.label
            found.setdefault(label, "+".join(shown_as[code] for code in binding.keys))
    return [(shown, label) for label, shown in found.items()]
