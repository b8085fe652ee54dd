"""Environment families: the plug-ins of the group `mosaic.envs`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mosaic.config.sections import EnvironmentConfig, Incentives
from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import EnvID
from mosaic.envs.env import Env


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """An entry of the catalog."""

    id: EnvID
    installed: bool
    install: str | None = None  # the exact command to type if something is missing
    incentives: Incentives = "unknown"
    shared_reward: bool | None = None  # None: not declared, or one agent
    note: str = ""  # where nothing has to be installed, but something else is missing: what `install` does instead


class EnvFamily(Protocol):
    """Plug-in that lists its envs without making them, and makes one."""

    def entries(self) -> list[EnvEntry]: ...

    def make(self, config: EnvironmentConfig) -> Env: ...


def refused_options(env_id: EnvID, options: Mapping[str, object], error: Exception) -> InputError:
    """Return the error for an env whose constructor fails with the given options."""
    said = (
        str(error) if isinstance(error, TypeError | ValueError | AssertionError) else f"{type(error).__name__}: {error}"
    )
    return InputError(f"{env_id} does not take these options {dict(options)}: {said}")


_VERSION = re.compile(r"(.*?)[-_]v(\d+)$")


def split_version(name: str) -> tuple[str, int | None]:
    """Split `chess_v6` into ("chess", 6), `Taxi` into ("Taxi", None)."""
    match = _VERSION.match(name)
    return (match[1], int(match[2])) if match else (name, None)


def newest(names: Iterable[str]) -> list[str]:
    """Return the newest version of each name."""
    best: dict[str, tuple[int, str]] = {}
    for name in names:
        base, version = split_version(name)
        best[base] = max(best.get(base, (-1, "")), (version or 0, name))
    return sorted(name for _, name in best.values())


def resolve_name(family: str, asked: str, names: Iterable[str]) -> str:
    """Return the name as given, or its newest version if it has none."""
    names = list(names)
    if asked in names:
        return asked
    candidates = {split_version(name)[0]: name for name in newest(names)}
    if asked in candidates:
        return candidates[asked]
    base = split_version(asked)[0]
    advice = f"Installed: {family}/{candidates[base]}." if base in candidates else f"Type: mosaic envs {family}"
    raise unknown("environment", f"{family}/{asked}", (f"{family}/{name}" for name in newest(names)), advice)
