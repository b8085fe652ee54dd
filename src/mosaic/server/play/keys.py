"""Key maps: the env's own where it has one, a sensible default otherwise."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from mosaic.core.errors import InputError
from mosaic.core.turn import Action
from mosaic.envs.action_names import axis_ends, meanings_of, names_of
from mosaic.envs.env import Env, innermost
from mosaic.server.play.clicks import has_board, number_key

# Keys are named as in browsers (KeyboardEvent.code), by their position on the keyboard.
_LEFT_HAND = {"up": "KeyW", "left": "KeyA", "down": "KeyS", "right": "KeyD", "fire": "Space"}
_RIGHT_HAND = {"up": "ArrowUp", "left": "ArrowLeft", "down": "ArrowDown", "right": "ArrowRight", "fire": "Enter"}
_WAY_OF = {code: way for hand in (_LEFT_HAND, _RIGHT_HAND) for way, code in hand.items()}
_SYNONYMS = {"north": "up", "south": "down", "west": "left", "east": "right", "forward": "up", "back": "down"}
_SDL1 = {273: "ArrowUp", 274: "ArrowDown", 275: "ArrowRight", 276: "ArrowLeft"}  # key numbers in old Gymnasium maps
_SDL2 = {1073741906: "ArrowUp", 1073741905: "ArrowDown", 1073741903: "ArrowRight", 1073741904: "ArrowLeft"}
_NAMED = {" ": "Space", "\r": "Enter", "\t": "Tab"}

_REST_NAMES = ("rest", "wait", "noop", "stay", "none")


class KeyBinding(BaseModel):
    """Keys that are held together, and their meaning: an action, or a value on one axis of a continuous one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: tuple[str, ...] = Field(min_length=1, max_length=4)
    action: int | None = None
    axis: int | None = Field(None, ge=0, le=63)
    value: float = Field(0.0, ge=-1e9, le=1e9)
    label: str = Field("", max_length=60)
    agent: str | None = Field(None, max_length=200, description="For whom alone, where one person plays several.")


@dataclass(frozen=True, slots=True)
class KeyMap:
    """Key map of an agent; `rest` is the action while no key is held, None repeats the last one."""

    space: Space[Action]
    left: tuple[KeyBinding, ...]  # for one of two players at one keyboard
    right: tuple[KeyBinding, ...]  # for the other
    rest: Action

    @property
    def both(self) -> tuple[KeyBinding, ...]:
        return tuple(dict.fromkeys((*self.left, *self.right)))


def key_map(env: Env, space: Space[Action]) -> KeyMap:
    """Return the key map for agents with this action space. The env must have been reset."""
    match space:
        case spaces.Discrete() if not has_board(env.spec.env_id):  # boards have their own keys
            return _discrete(env, space)
        case spaces.Box() if space.shape and len(space.shape) == 1:
            return _continuous(space, axis_ends(env.spec.env_id, space.shape[0]))
        case _:
            return KeyMap(space, (), (), None)


def held_action(
    keys: KeyMap, bindings: Sequence[KeyBinding], held: Sequence[str], axes: Sequence[float]
) -> Action | None:
    """Return the action for the held keys (in the order pressed) and the axes of a mouse or gamepad (-1 … 1).

    None: no key or axis applies and the space has no rest action.
    """
    if isinstance(keys.space, spaces.Box):
        return _on_axes(keys.space, bindings, held, axes)
    fitting = [b for b in bindings if b.action is not None and set(b.keys) <= set(held)]
    if not fitting:
        return keys.rest
    places = {code: place for place, code in enumerate(held)}
    return max(fitting, key=lambda b: (len(b.keys), max(places[code] for code in b.keys))).action


def check_bindings(space: Space[Action], bindings: Iterable[KeyBinding]) -> tuple[KeyBinding, ...]:
    """Validate a user's own key map; raise if it names what the env does not have."""
    kept = tuple(bindings)
    for binding in kept:
        shown = "+".join(binding.keys)
        match space:
            case spaces.Discrete():
                low, high = int(space.start), int(space.start) + int(space.n) - 1
                if binding.action is None or not low <= binding.action <= high:
                    raise InputError(f"{shown}: there is no action {binding.action}; actions are {low} to {high}.")
            case spaces.Box():
                if binding.axis is None or binding.axis >= space.shape[0]:
                    raise InputError(f"{shown}: there is no axis {binding.axis}; axes are 0 to {space.shape[0] - 1}.")
            case _:
                raise InputError(f"Keys cannot play actions of {space}.")
    return kept


def _discrete(env: Env, space: spaces.Discrete[np.int64]) -> KeyMap:
    names = names_of(env.spec.env_id, int(space.n)) or own_names(env, int(space.n))
    rest = _rest(names, int(space.start))
    words = meanings_of(env.spec.env_id, int(space.n)) or names
    own = _own_map(env)
    if own is not None:
        bindings, own_rest = own
        rest = own_rest if rest is None else rest
        labelled = [b.model_copy(update={"label": _label(words, b.action or 0)}) for b in bindings]
        return KeyMap(space, *_for_two(labelled), rest)
    ways = {_SYNONYMS.get(name, name): place for place, name in enumerate(names)}
    left = tuple(_bind(code, ways[way], words) for way, code in _LEFT_HAND.items() if way in ways)
    right = tuple(_bind(code, ways[way], words) for way, code in _RIGHT_HAND.items() if way in ways)
    if not left:  # no directions: use the number row
        low, count = int(space.start), min(int(space.n), 10)
        left = tuple(_bind(f"Digit{number_key(place)}", low + place, words) for place in range(count))
    return KeyMap(space, left, right, rest)


def own_names(env: Env, count: int) -> tuple[str, ...]:
    """Return the names that an env gives its actions itself, as Atari games and MiniGrid do; empty if it has none."""
    raw = innermost(env)
    given = getattr(raw, "get_action_meanings", None)
    kinds = getattr(raw, "actions", None)
    if callable(given):
        names = tuple(str(name).lower() for name in given())
    elif isinstance(kinds, type) and issubclass(kinds, IntEnum):
        names = tuple(kind.name.lower().replace("_", " ") for kind in kinds)
    else:
        names = tuple(map(str, (getattr(raw, "metadata", None) or {}).get("action_names", ())))
    return names if len(names) == count else ()


def _rest(names: tuple[str, ...], low: int) -> int | None:
    return next((low + place for place, name in enumerate(names) if name in _REST_NAMES), None)


def _label(names: tuple[str, ...], action: int) -> str:
    return names[action] if 0 <= action < len(names) else f"action {action}"


def _bind(code: str, action: int, names: tuple[str, ...]) -> KeyBinding:
    return KeyBinding(keys=(code,), action=action, label=_label(names, action))


def _for_two(bindings: Sequence[KeyBinding]) -> tuple[tuple[KeyBinding, ...], tuple[KeyBinding, ...]]:
    """Return the env's own keys and the same for the other hand, whichever hand the env was made for."""
    left = tuple(dict.fromkeys(_moved(binding, _LEFT_HAND) for binding in bindings))
    right = tuple(dict.fromkeys(_moved(binding, _RIGHT_HAND) for binding in bindings))
    return left, tuple(binding for binding in right if binding not in left)


def _moved(binding: KeyBinding, hand: Mapping[str, str]) -> KeyBinding:
    return binding.model_copy(update={"keys": tuple(hand.get(_WAY_OF.get(key, ""), key) for key in binding.keys)})


def _own_map(env: Env) -> tuple[list[KeyBinding], Action | None] | None:
    raw = innermost(env)
    if hasattr(raw, "get_keys_to_action"):
        return _read_gymnasium(raw.get_keys_to_action())
    return _read_pettingzoo(env)


def _read_gymnasium(table: Mapping[object, object]) -> tuple[list[KeyBinding], Action | None]:
    """Read a table whose keys are tuples of characters or key numbers; the empty tuple is the rest action."""
    bindings, rest = [], None
    for held, action in table.items():
        parts = held if isinstance(held, tuple) else () if held is None else (held,)
        codes = tuple(filter(None, map(_code, parts)))
        if not parts:
            rest = action
        elif len(codes) == len(parts) and isinstance(action, int | np.integer):
            bindings.append(KeyBinding(keys=codes, action=int(action)))
    return bindings, rest


def _read_pettingzoo(env: Env) -> tuple[list[KeyBinding], Action | None] | None:
    config = env.spec.facts.config
    if config.family not in ("butterfly", "sisl"):
        return None
    manual = getattr(importlib.import_module(f"pettingzoo.{config.family}.{config.env_id}"), "ManualPolicy", None)
    if manual is None:
        return None
    policy = manual(_StandIn(env.agents))
    found = [(_code(key), action) for key, action in policy.action_mapping.items() if isinstance(action, int)]
    return [KeyBinding(keys=(code,), action=action) for code, action in found if code], policy.default_action


@dataclass(frozen=True, slots=True)
class _StandIn:
    """Stand-in for an env with all that a manual policy reads when it is created."""

    agents: tuple[str, ...]


def _code(key: object) -> str | None:
    if isinstance(key, int):
        special = _SDL1.get(key) or _SDL2.get(key)
        if special is not None:
            return special
        key = chr(key) if 0 <= key < 128 else ""
    text = str(key).lower()
    if len(text) != 1:
        return None
    if text in _NAMED:
        return _NAMED[text]
    return f"Key{text.upper()}" if text.isalpha() else f"Digit{text}" if text.isdigit() else None


_AXES = (("left", "right"), ("down", "up"))
_FURTHER = (("KeyQ", "KeyE"), ("KeyZ", "KeyX"), ("KeyR", "KeyF"), ("KeyT", "KeyG"))


def _continuous(space: spaces.Box, words: tuple[tuple[str, str], ...]) -> KeyMap:
    """Bind a pair of keys per axis. A single axis can be moved up and down as well as left and right."""
    left: list[KeyBinding] = []
    right: list[KeyBinding] = []
    low, high = _reach(space)
    for axis in range(min(space.shape[0], len(_AXES) + len(_FURTHER))):
        ends = (float(low[axis]), float(high[axis]))
        pairs = _AXES if space.shape[0] == 1 else _AXES[axis : axis + 1]
        for ways in pairs:
            for end, (way, value) in enumerate(zip(ways, ends, strict=True)):
                label = words[axis][end] if words else _push(axis, value)
                left.append(KeyBinding(keys=(_LEFT_HAND[way],), axis=axis, value=value, label=label))
                right.append(KeyBinding(keys=(_RIGHT_HAND[way],), axis=axis, value=value, label=label))
        if axis >= len(_AXES):
            for end, (code, value) in enumerate(zip(_FURTHER[axis - len(_AXES)], ends, strict=True)):
                label = words[axis][end] if words else _push(axis, value)
                left.append(KeyBinding(keys=(code,), axis=axis, value=value, label=label))
    return KeyMap(space, tuple(left), tuple(right), _rest_of(space))


def _push(axis: int, value: float) -> str:
    return f"axis {axis + 1} {value:+g}".replace("-", "−")


def _reach(space: spaces.Box) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds, ±1 where there are none."""
    low = np.where(np.isfinite(space.low), space.low, -1.0).astype(np.float64)
    return low, np.where(np.isfinite(space.high), space.high, 1.0).astype(np.float64)


def _rest_of(space: spaces.Box) -> NDArray[np.generic]:
    low, high = _reach(space)
    return np.clip(np.zeros(space.shape), low, high).astype(space.dtype)


def _on_axes(
    space: spaces.Box, bindings: Sequence[KeyBinding], held: Sequence[str], axes: Sequence[float]
) -> NDArray[np.generic]:
    low, high = _reach(space)
    action = _rest_of(space).astype(np.float64)
    for axis, value in enumerate(axes[: space.shape[0]]):
        # the middle of a stick is the rest action, its ends are the bounds
        action[axis] += value * (high[axis] - action[axis]) if value > 0 else -value * (low[axis] - action[axis])
    for binding in bindings:
        if binding.axis is not None and set(binding.keys) <= set(held):
            action[binding.axis] += binding.value
    return np.clip(action, low, high).astype(space.dtype)
