"""Form for an export: run, checkpoint, policies, and the options of the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape

from mosaic.config.export import ExportOptions
from mosaic.core.errors import MosaicError, UnknownNameError
from mosaic.core.ids import JsonObject
from mosaic.store.index.summary import RunSummary
from mosaic.ui.web.components.schema_form import SchemaForm
from mosaic.ui.web.components.theme import title
from mosaic.ui.web.components.widgets import box, button, empty, enable, panel, raw, select, toggle
from mosaic.ui.web.data.export_draft import ExportDraft
from mosaic.ui.web.data.facts import Facts


def run_choices(rows: Sequence[RunSummary], chosen: str) -> dict[str, str]:
    """Return titles of runs by id, and in any case the chosen one: it may have been created or deleted just now."""
    runs = {row.run_id: f"{title(row)} · {row.run_id}" for row in rows}
    return {chosen: chosen, **runs} if chosen and chosen not in runs else runs


class ExportForm:
    """The form; `request` returns the body for the API and raises where a field is invalid."""

    def __init__(self, facts: Facts, run: str, begin: Callable[[], object]) -> None:
        self._facts, self._begin = facts, begin
        self._draft = ExportDraft(run)
        with panel("What to export") as end:
            with end:
                self._start = button("Export", begin, glyph="export", kind="primary")
            with box("x-choices"):
                with box("stack gap-1"):
                    raw("Run", "m-label")
                    select(
                        run_choices(facts.rows(), run),
                        run or None,
                        label="Run",
                        on_change=self._choose_run,
                        with_input=True,
                    )
                with box("stack gap-1"):
                    raw("Checkpoint", "m-label")
                    self._place = box()
            raw("Policies", "m-label")
            self._policies = box("row wrap")
        with panel("Options", hint="how the files are written and compared"):
            self._form = SchemaForm(ExportOptions, self._draft.options, lambda: None)
        self._load(run)

    def request(self) -> JsonObject:
        """Return the request; raise MosaicError with what is missing."""
        if self._form.problems:
            name, text = next(iter(self._form.problems.items()))
            raise MosaicError(f"{name}: {text}")
        return self._draft.request()

    def busy(self, on: bool) -> None:
        """Disable or enable the button."""
        enable(self._start, not on)

    def _choose_run(self, run: str | None) -> None:
        if run and run != self._draft.run:
            self._load(run)

    def _load(self, run: str) -> None:
        """Show the checkpoints of the run, and the policies of the chosen one."""
        draft, missing = self._draft, "This run has saved nothing yet." if run else "Choose a run first."
        try:
            draft.load(run, self._facts.details(run).checkpoints if run else ())
        except UnknownNameError:  # the list of runs is a moment old
            draft.load(run, ())
            missing = "This run was deleted."
        self._place.clear()
        with self._place:
            if draft.offers:
                select(draft.offers, draft.checkpoint, label="Checkpoint", on_change=self._choose_checkpoint)
            else:
                raw(missing, "m-note")
        self._draw_policies()

    def _choose_checkpoint(self, which: str) -> None:
        self._draft.choose_checkpoint(which)
        self._draw_policies()

    def _draw_policies(self) -> None:
        chosen = self._draft.chosen
        self._policies.clear()
        with self._policies:
            for name, on in chosen.items():
                toggle(escape(name), on, partial(self._choose_policy, name))
            if not chosen:
                empty("None.")
        enable(self._start, bool(chosen))

    def _choose_policy(self, name: str, on: bool) -> None:
        self._draft.chosen[name] = on
