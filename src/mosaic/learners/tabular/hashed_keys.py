"""Which key of 64 bits an observation has, where its states are too many to be rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeAlias

from mosaic.envs.codes import SpaceCode
from mosaic.envs.codes.space_code import count_text

KEY_BITS = 64
KeyOf: TypeAlias = Callable[[Any], int]


def is_exact(code: SpaceCode) -> bool:
    """Whether every state has a key of its own."""
    return code.size <= 1 << KEY_BITS


def keys_of(code: SpaceCode) -> KeyOf:
    """The code itself where it fits; else a hash of it, the same on every machine."""
    if is_exact(code):
        return code.encode
    width = ((code.size - 1).bit_length() + 7) // 8

    def key(observation: Any) -> int:
        whole = code.encode(observation).to_bytes(width, "little")
        return int.from_bytes(blake2b(whole, digest_size=KEY_BITS // 8).digest(), "little")

    return key


def describe_keys(code: SpaceCode) -> str:
    """What a reader of the log should know of the keys."""
    if is_exact(code):
        return f"{count_text(code.size)} states, each with a key of its own"
    return (
        f"{count_text(code.size)} states, more than {KEY_BITS} bits can number, so each is known by a hash: that any "
        f"two of a million states share one has odds of 1 in {round(1 / collision_odds(10**6)):,}"
    )


def collision_odds(states: int) -> float:
    """The birthday bound: how likely any two of so many states share a hash, at most."""
    return min(1.0, states * (states - 1) / 2 / 2.0**KEY_BITS)
