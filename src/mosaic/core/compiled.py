"""numba's `njit` with a cache that notices every change of our compiled code.

numba asks only whether the file that defines a function has changed. Our loops call functions of other files, so
after an upgrade the old machine code would be run without a word. The cache therefore lies in a folder named after the
content of all files that use this decorator, and after numba's version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from platformdirs import user_cache_path

_SOURCES = Path(__file__).parent.parent
_MARK = b"from mosaic.core.compiled import njit"


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    def compiled(function: Callable[..., Any]) -> Any:
        config: Any = numba.config
        earlier = config.CACHE_DIR
        config.CACHE_DIR = str(cache_folder())  # read when a function is decorated; others keep their own
        try:
            return numba.njit(**options)(function)
        finally:
            config.CACHE_DIR = earlier

    return compiled


@cache
def cache_folder() -> Path:
    return user_cache_path("mosaic") / f"compiled-{fingerprint(_SOURCES)}"


def fingerprint(sources: Path) -> str:
    """Of all compiled code below a folder."""
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for path in sorted(sources.rglob("*.py")):
        content = path.read_bytes()
        if _MARK in content:
            digest.update(content)
    return digest.hexdigest()
