"""Named child seeds derived from one seed, the same in every process."""

from __future__ import annotations

import hashlib
import secrets

# compiled code uses this file

# splitmix64: 64 random bits of a state; compiled and Python code share these numbers
GOLDEN = 0x9E3779B97F4A7C15
MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
TO_UNIT = 2.0**-53  # the upper 53 bits as a number in [0, 1)
SEED_LIMIT = 2**31  # OpenSpiel does not take larger seeds


def fresh_seed() -> int:
    """Draw a seed that no one can predict, for a game whose seed was left open."""
    return secrets.randbelow(SEED_LIMIT)


def child_seed(seed: int, *names: str | int) -> int:
    """Return the seed of a named stream derived from another seed.

    The length of each name is hashed too, so ("ab", "c") differs from ("a", "bc").
    """
    return child_key(seed, *names) % SEED_LIMIT


def child_key(seed: int, *names: str | int) -> int:
    """Return the child seed with all 64 bits, for generators that accept them."""
    digest = hashlib.blake2b(str(seed).encode(), digest_size=8)
    for name in names:
        text = str(name).encode()
        digest.update(b"/%d:" % len(text) + text)
    return int.from_bytes(digest.digest(), "little")
