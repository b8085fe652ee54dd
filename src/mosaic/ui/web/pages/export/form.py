"""Form for an export: run, checkpoint, policies, and the options of the files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape

from mosaic.config.export import ExportOptions
from mosaic.core.errors import MosaicError
from mosaic.core.ids import JsonObject
from mosaic.store.views import CheckpointRow
from mosaic.ui.web.components.schema_form import SchemaForm
from mosaic.ui.web.components.theme import title
from mosaic.ui.web.components.widgets import box, button, empty, enable, panel, raw, select, toggle
from mosaic.ui.web.data.facts import Facts

_LATEST, _BEST = "latest", "best"


class ExportForm:
    """The form; `request` returns the body for the API and raises where a field is invalid."""

    def __init__(self, facts: Facts, run: str, begin: Callable[[], object]) -> None:
        self._facts, self._run, self._begin = facts, run, begin
        self._checkpoint = _LATEST
        self._saved: dict[str, CheckpointRow] = {}
        self._chosen: dict[str, bool] = {}
        self._options: JsonObject = {}
        with panel("What to export") as end:
            with end:
                self._start = button("Export", begin, glyph="export", kind="primary")
            runs = {row.run_id: f"{title(row)} · {row.run_id}" for row in facts.rows()}
            with box("x-choices"):
                with box("stack gap-1"):
                    raw("Run", "m-label")
                    select(runs, run or None, label="Run", on_change=self._choose_run, with_input=True)
                with box("stack gap-1"):
                    raw("Checkpoint", "m-label")
                    self._place = box()
            raw("Policies", "m-label")
            self._policies = box("row wrap")
        with panel("Options", hint="how the files are written and compared"):
            self._form = SchemaForm(ExportOptions, self._options, lambda: None)
        self._load()

    def request(self) -> JsonObject:
        """Return the request; raise MosaicError with what is missing."""
        if self._form.problems:
            name, text = next(iter(self._form.problems.items()))
            raise MosaicError(f"{name}: {text}")
        if not self._run:
            raise MosaicError("Choose a run.")
        wanted = [name for name, on in self._chosen.items() if on]
        if not wanted:
            raise MosaicError("Choose at least one policy.")
        everything = len(wanted) == len(self._chosen)
        return {
            "run": self._run,
            "checkpoint": self._checkpoint,
            "policies": [] if everything else wanted,
            **self._options,
        }

    def busy(self, on: bool) -> None:
        """Disable or enable the button."""
        enable(self._start, not on)

    def _choose_run(self, run: str | None) -> None:
        if run and run != self._run:
            self._run = run
            self._load()

    def _load(self) -> None:
        """Show the checkpoints of the run, and the policies of the chosen one."""
        rows = self._facts.details(self._run).checkpoints if self._run else ()
        newest = rows[-1] if rows else None
        best = next((row for row in rows if row.best), None)
        self._saved = {}
        offers: dict[str, str] = {}
        for key, word, row in ((_LATEST, "Latest", newest), (_BEST, "Best", best)):
            if row is not None:
                self._saved[key], offers[key] = row, f"{word}: {row.env_steps:,} env steps{_score(row)}"
        for row in reversed(rows):
            self._saved[str(row.env_steps)] = row
            offers[str(row.env_steps)] = f"{row.env_steps:,} env steps{_score(row)}"
        self._checkpoint = _LATEST
        self._place.clear()
        with self._place:
            if offers:
                select(offers, _LATEST, label="Checkpoint", on_change=self._choose_checkpoint)
            else:
                raw("This run has saved nothing yet." if self._run else "Choose a run first.", "m-note")
        self._draw_policies()

    def _choose_checkpoint(self, which: str) -> None:
        self._checkpoint = which
        self._draw_policies()

    def _draw_policies(self) -> None:
        saved = self._saved.get(self._checkpoint)
        names = saved.policies if saved else ()
        self._chosen = {name: self._chosen.get(name, True) for name in names}
        self._policies.clear()
        with self._policies:
            for name, on in self._chosen.items():
                toggle(escape(name), on, partial(self._flip, name))
            if not names:
                empty("None.")
        enable(self._start, bool(names))

    def _flip(self, name: str, on: bool) -> None:
        self._chosen[name] = on


def _score(row: CheckpointRow) -> str:
    score = row.rating if row.best_by == "rating" else row.reward
    return "" if score is None else f", {row.best_by} {score:.4g}"
