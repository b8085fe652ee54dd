"""Keys of states that are too many to number: exact where 64 bits suffice, else a hash."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeAlias

from mosaic.envs.codes import SpaceCode
from mosaic.envs.codes.space_code import count_text

KEY_BITS = 64
KeyOf: TypeAlias = Callable[[Any], int]


def is_exact(code: SpaceCode) -> bool:
    """Return whether every state has its own key."""
    return code.size <= 1 << KEY_BITS


def keys_of(code: SpaceCode) -> KeyOf:
    """Return the code itself where it fits; else a hash of it, the same on every machine."""
    if is_exact(code):
        return code.encode
    width = ((code.size - 1).bit_length() + 7) // 8

    def key(observation: Any) -> int:
        whole = code.encode(observation).to_bytes(width, "little")
        return int.from_bytes(blake2b(whole, digest_size=KEY_BITS // 8).digest(), "little")

    return key


def describe_keys(code: SpaceCode) -> str:
    """Describe the keys for readers of the log."""
    if is_exact(code):
        return f"{count_text(code.size)} states, each with a key of its own"
    return (
        f"{count_text(code.size)} states, more than {KEY_BITS} bits can number, so each is known by a hash: the "
        f"probability that any two of a million states share one is 1 in {round(1 / collision_odds(10**6)):,}"
    )


def collision_odds(states: int) -> float:
    """Return an upper bound (birthday bound) on the probability that any two of `states` states share a hash."""
    return min(1.0, states * (states - 1) / 2 / 2.0**KEY_BITS)
