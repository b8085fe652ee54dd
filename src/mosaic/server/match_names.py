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
    "mpe/*": ("rest", "left", "right", "down", "up"),
}


def names_of(env_id: EnvID) -> tuple[str, ...]:
    """The place is the action; empty where actions have no names."""
    name = split_version(env_id)[0]
    return _ACTIONS.get(name) or _ACTIONS.get(f"{name.partition('/')[0]}/*") or names_by_action(env_id)
