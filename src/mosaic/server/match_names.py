"""What actions are called on a screen: also those that people only hold keys for."""

from __future__ import annotations

from collections.abc import Mapping

from mosaic.core.ids import EnvID
from mosaic.envs.action_names import names_by_action
from mosaic.envs.family import split_version

# The place is the action. Ways (up, left …) become keys.
_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "gym/LunarLander": ("rest", "left", "up", "right"),
    "gym/Acrobot": ("left", "rest", "right"),
    "gym/CarRacing": ("rest", "right", "left", "up", "down"),
    "butterfly/knights_archers_zombies": ("up", "down", "left", "right", "fire", "rest"),
    "butterfly/cooperative_pong": ("rest", "up", "down"),
    "sisl/pursuit": ("left", "right", "down", "up", "rest"),
}
_MPE_WAYS = ("rest", "left", "right", "down", "up")


def names_of(env_id: EnvID, count: int) -> tuple[str, ...]:
    """The place is the action; empty where actions have no names. `count`: how many the agent has."""
    if env_id.startswith("mpe/"):
        return _mpe_names(count)
    names = _ACTIONS.get(split_version(env_id)[0]) or names_by_action(env_id)
    return names if len(names) == count else ()  # an env's options may change its actions


def _mpe_names(count: int) -> tuple[str, ...]:
    """Agents of MPE move, speak, or do both at once: then a word is added to each way to move."""
    ways = len(_MPE_WAYS)
    if count % ways:
        return tuple(f"say {word}" for word in range(count))
    spoken = tuple(f"say {word}, {way}" for word in range(1, count // ways) for way in _MPE_WAYS)
    return (*_MPE_WAYS, *spoken)
