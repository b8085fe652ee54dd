"""Ids of new runs: `20261115-142530-tictactoe-ab12`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from mosaic.core.ids import EnvID

MARK = "MOSAIC_RUN"  # environment variable with the run's id, set for everything that an attempt starts
_LONGEST = 40
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # 32 characters that are not easily confused
_VERSION = re.compile(r"[-_]?v\d+$")


def new_run_id(env: EnvID, now: float, random_below: Callable[[int], int]) -> str:
    """Return an id that sorts by time (UTC), names the env, and ends in four random letters."""
    when = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
    mark = "".join(_LETTERS[random_below(len(_LETTERS))] for _ in range(4))
    return f"{when}-{_short(env)}-{mark}"


def _short(env: EnvID) -> str:
    """Shorten an env id: classic/tictactoe_v3 → tictactoe; python:my.module:make_maze → make-maze."""
    name = re.split("[/:]", env)[-1].lower()
    words = re.findall("[a-z0-9]+", _VERSION.sub("", name))
    return "-".join(words)[:_LONGEST].strip("-") or "env"
