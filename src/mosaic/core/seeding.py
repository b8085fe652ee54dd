"""How one seed becomes many: named children, the same in every process."""

from __future__ import annotations

import hashlib

SEED_LIMIT = 2**31  # OpenSpiel takes no larger seeds


def child_seed(seed: int, *names: str | int) -> int:
    """The seed of a named stream below another. Names are told apart by length, so ("ab", "c") is not ("a", "bc")."""
    return child_key(seed, *names) % SEED_LIMIT


def child_key(seed: int, *names: str | int) -> int:
    """The same with all 64 bits, for generators that take them."""
    digest = hashlib.blake2b(str(seed).encode(), digest_size=8)
    for name in names:
        text = str(name).encode()
        digest.update(b"/%d:" % len(text) + text)
    return int.from_bytes(digest.digest(), "little")
