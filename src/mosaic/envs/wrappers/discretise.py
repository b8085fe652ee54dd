"""Wrapper that encodes any observation as one whole number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gymnasium.spaces import Discrete, Space
from pydantic import Field, field_validator

from mosaic.core.errors import InputError
from mosaic.core.reference import Options
from mosaic.envs.codes import Bins, read_bins, space_code
from mosaic.envs.env import Env
from mosaic.envs.wrappers.kind import WrapperKind
from mosaic.envs.wrappers.observation import View, Viewed


class DiscretiseOptions(Options):
    bins: str | None = Field(
        None,
        description="Bins of each number of a Box: 8 for all, 8/8/4 for each, 8@-3..3 for eight from -3 to 3.",
    )

    @field_validator("bins")
    @classmethod
    def _readable(cls, bins: str | None) -> str | None:
        try:
            _each(bins)
        except InputError as error:
            raise ValueError(str(error).removeprefix("bins: ").removesuffix(".")) from error
        return bins


def discretised(options: DiscretiseOptions) -> Callable[[Space[Any]], View]:
    """Return a view that replaces an observation by its index in `space_code`."""
    each = _each(options.bins)
    bins = each[0] if each is not None and len(each) == 1 else each

    def view(space: Space[Any]) -> View:
        code = space_code(space, bins, spell=_spell)
        return View(Discrete(code.size), code.encode)

    return view


def _each(bins: str | None) -> list[Bins] | None:
    return None if bins is None else [read_bins(one) for one in bins.split("/")]


def _spell(entries: Sequence[str]) -> str:
    return f"'discretise:bins={'/'.join(entries)}'."


def _make(env: Env, options: DiscretiseOptions) -> Viewed:
    return Viewed(env, discretised(options))


kind = WrapperKind(
    usage="discretise[:bins=8]",
    help="Encodes any observation as one integer; the numbers of a Box are cut into bins.",
    make=_make,
    options=DiscretiseOptions,
    first="bins",
)
