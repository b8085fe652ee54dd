"""View of the Export tab: rows of the form and of the history, progress, and the comparison of files with policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mosaic.store.state import ENDED, State
from mosaic.ui.tui.charts.plot import natural
from mosaic.ui.tui.tabs.runs import state_text
from mosaic.ui.tui.widgets.tables import Cells
from mosaic.ui.web.components.theme import ago
from mosaic.ui.web.data.schema_fields import SchemaField, as_text, shown_default

if TYPE_CHECKING:
    from mosaic.runs.exporting.record import ComparedFile, ExportRow
    from mosaic.ui.web.data.export_draft import ExportDraft

RUN, CHECKPOINT, OPTION, POLICY = "run", "checkpoint", "option:", "policy:"
_GOOD, _BAD, _FAINT = "#2dbfab", "#ef6f6c", "#7d8794"
_BAR = 24


def form_rows(draft: ExportDraft, fields: Sequence[SchemaField], problems: Mapping[str, str]) -> dict[str, Cells]:
    """Return the rows of the form by their key; a value that is not valid is red."""
    rows: dict[str, Cells] = {RUN: ("Run", Text(draft.run or "none"))}
    rows[CHECKPOINT] = ("Checkpoint", Text(draft.offers.get(draft.checkpoint, "nothing is saved yet")))
    for field in fields:
        value = draft.options.get(field.name, field.default)
        text = as_text(value) or shown_default(field, field.default)
        style = _BAD if field.name in problems else "" if field.name in draft.options else _FAINT
        rows[f"{OPTION}{field.name}"] = (field.title, Text(text, style))
    for name in sorted(draft.chosen, key=natural):
        mark = Text("◆ exported", _GOOD) if draft.chosen[name] else Text("  left out", _FAINT)
        rows[f"{POLICY}{name}"] = (Text(name), mark)
    return rows


def help_of(key: str, fields: Sequence[SchemaField], problems: Mapping[str, str]) -> Text:
    """Return one line about a row of the form: what is wrong with it, or what it means."""
    if problem := problems.get(key.removeprefix(OPTION)) or problems.get(""):
        return Text(problem, _BAD)
    field = next((each for each in fields if f"{OPTION}{each.name}" == key), None)
    if field is not None:
        return Text(f"{field.help}{f' ({field.bounds})' if field.bounds else ''}", _FAINT)
    words = {RUN: "The run that is exported.", CHECKPOINT: "The latest, the best, or any other that is kept."}
    return Text(words.get(key, "⏎ or space excludes the policy, or includes it again."), _FAINT)


def history_cells(row: ExportRow, now: float) -> Cells:
    number = len(row.request.policies)
    what = f"{number} {'policy' if number == 1 else 'policies'}, {row.request.target}"
    return state_text(str(row.state)), Text(ago(row.created, now)), Text(what), Text(row.request.run)


def report_of(row: ExportRow, *, files: bool = False) -> RenderableType:
    """Return the progress of an export, or its outcome: the reason, and the comparison of each file with its policy."""
    head = Text.assemble((row.export_id, "bold"), " ", state_text(str(row.state)))
    steps = row.request.checkpoint
    saved = f"{steps:,} env steps" if isinstance(steps, int) else steps
    head.append(f" · {row.request.run} · {saved} · {row.request.target}", _FAINT)
    parts: list[RenderableType] = [head]
    if row.state not in ENDED:
        full = round(row.share * _BAR)
        bar = Text.assemble(("█" * full, _GOOD), ("░" * (_BAR - full), "#4a5563"), f" {row.share:4.0%}  ")
        parts.append(bar.append(row.progress.text if row.progress else "starting"))
    elif row.state is not State.FINISHED:
        cancelled = row.state is State.STOPPED
        words = "It was cancelled, and no file was written." if cancelled else row.reason or "Its log says why."
        parts.append(Text(words, _FAINT if cancelled else _BAD))
    if row.compared:
        parts.append(_comparison(row.compared))
    if files:
        parts += [Text(f"{each.path}  {each.size:,} bytes", _FAINT) for each in row.written]
    return Group(*parts)


def _comparison(compared: Sequence[ComparedFile]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row(
        *(Text(head, _FAINT) for head in ("policy", "largest difference", "equal actions", "compared on", ""))
    )
    for each in sorted(compared, key=lambda file: natural(file.policy)):
        far = "infinite" if each.max_abs_diff is None else f"{each.max_abs_diff:.2g}"
        table.add_row(
            Text(each.policy),
            f"{far} of {each.tolerance:g}",
            f"{each.action_agreement:.2%}",
            f"{each.recorded:,} recorded, {each.random:,} random",
            Text("equal", _GOOD) if each.passed else Text("differs", _BAD),
        )
    return table
