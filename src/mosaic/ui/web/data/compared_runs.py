"""Runs that a run is compared with, as in its page's address: `/runs/RUN?with=RUN,RUN,group:NAME`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote, unquote

from mosaic.core.errors import MosaicError, unknown
from mosaic.server.context import ServerContext
from mosaic.store.index.summary import RunSummary
from mosaic.store.state import LIVE
from mosaic.ui.cli.group_results import group_named, name_of_group
from mosaic.ui.series import GROUP, seed_group
from mosaic.ui.web.components.live import MOST_SOURCES, Source
from mosaic.ui.web.components.theme import title

_TOO_MANY = (
    "{curves} curves cannot be told apart in one chart: the first {most} are shown. "
    "The mean of a seed group, group:NAME, counts as one."
)
_KEEP = "-_.:"  # common in names of runs and groups, so left unquoted for readability


class Compared(NamedTuple):
    refs: list[str]
    """Ids of runs, and `group:NAME` for the mean of a seed group."""
    problems: list[str]
    """Errors about what was requested and does not exist."""


def read_compared(context: ServerContext, run_id: str, text: str) -> Compared:
    """Resolve runs given by id, name or a unique prefix of the id; unknown ones are reported, the rest is kept."""
    refs: dict[str, None] = {}
    problems = []
    for asked in map(unquote, filter(None, text.split(","))):
        try:
            refs[_found(context, asked)] = None
        except MosaicError as error:
            problems.append(str(error))
    refs.pop(run_id, None)
    kept = list(refs)[: MOST_SOURCES - 1]
    if len(refs) > len(kept):
        problems.append(_TOO_MANY.format(curves=1 + len(refs), most=MOST_SOURCES))
    return Compared(kept, problems)


def address(run_id: str, refs: Sequence[str]) -> str:
    compared = ",".join(quote(ref, safe=_KEEP) for ref in refs)
    return f"/runs/{quote(run_id, safe='')}" + (f"?with={quote(compared, safe=_KEEP + ',')}" if refs else "")


def sources_of(refs: Sequence[str], rows: Sequence[RunSummary]) -> list[Source]:
    """Return those of the runs and groups that still exist; those with the same name are told apart by their ids."""
    known = {row.run_id: row for row in rows}
    found = []
    for ref in refs:
        if members := [row for row in rows if GROUP + row.group == ref]:
            found.append(Source(ref, mean_label(members), any(row.state in LIVE for row in members)))
        elif row := known.get(ref):
            found.append(Source(ref, title(row), row.state in LIVE))
    labels = Counter(each.label for each in found)
    return [
        each if labels[each.label] == 1 else replace(each, label=f"{each.label} {_end(each.ref)}") for each in found
    ]


def _end(ref: str) -> str:
    return ref.removeprefix(GROUP)[-4:]


def mean_of(members: Sequence[RunSummary]) -> str:
    return f"mean of {len(members)} seeds"


def mean_label(members: Sequence[RunSummary]) -> str:
    """Return the name or id of a seed group and what is drawn of it."""
    return f"{name_of_group(members[0].group, members)}: {mean_of(members)}"


def _found(context: ServerContext, asked: str) -> str:
    if not asked.startswith(GROUP):
        return context.folder(asked).run_id
    groups: dict[str, list[RunSummary]] = {}
    for row in context.store.index.list():
        if row.group:
            groups.setdefault(row.group, []).append(row)
    text = asked.removeprefix(GROUP)
    if (name := group_named(text, groups)) is None:
        raise unknown("seed group", text, sorted({name_of_group(*each) for each in groups.items()}))
    seed_group(context.store, name)  # raises where a mean over it has no meaning
    return GROUP + name
