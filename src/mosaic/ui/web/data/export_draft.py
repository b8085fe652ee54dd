"""Draft of an export: the checkpoints of a run to choose from, its policies, and the options of the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mosaic.config.run import LATEST
from mosaic.core.errors import InputError
from mosaic.core.ids import JsonObject

if TYPE_CHECKING:
    from mosaic.store.views import CheckpointRow

_BEST = "best"


class ExportDraft:
    """State of an export form; `request` returns the body for the API."""

    def __init__(self, run: str = "") -> None:
        self.run = run
        self.checkpoint = LATEST
        self.offers: dict[str, str] = {}  # checkpoint -> words about it
        self.chosen: dict[str, bool] = {}  # policy -> whether it is exported
        self.options: JsonObject = {}
        self._saved: dict[str, CheckpointRow] = {}

    def load(self, run: str, rows: Sequence[CheckpointRow]) -> None:
        """Take another run, or the same one with more checkpoints; a choice that is still there stays."""
        kept = self.checkpoint if run == self.run else LATEST
        self.run, self._saved, self.offers = run, {}, {}
        newest = rows[-1] if rows else None
        best = next((row for row in rows if row.best), None)
        for key, word, row in ((LATEST, "Latest", newest), (_BEST, "Best", best)):
            if row is not None:
                self._saved[key], self.offers[key] = row, f"{word}: {row.env_steps:,} env steps{_score(row)}"
        for row in reversed(rows):
            self._saved[str(row.env_steps)] = row
            self.offers[str(row.env_steps)] = f"{row.env_steps:,} env steps{_score(row)}"
        self.choose_checkpoint(kept if kept in self._saved else LATEST)

    def choose_checkpoint(self, which: str) -> None:
        self.checkpoint = which
        saved = self._saved.get(which)
        self.chosen = {name: self.chosen.get(name, True) for name in (saved.policies if saved else ())}

    def flip(self, policy: str) -> None:
        self.chosen[policy] = not self.chosen[policy]

    def request(self) -> JsonObject:
        """Return the request; raise InputError with what is missing."""
        if not self.run:
            raise InputError("Choose a run.")
        if not self.offers:
            raise InputError(f"The run {self.run} has saved nothing yet.")
        wanted = [name for name, on in self.chosen.items() if on]
        if not wanted:
            raise InputError("Choose at least one policy.")
        everything = len(wanted) == len(self.chosen)
        return {
            "run": self.run,
            "checkpoint": self.checkpoint,
            "policies": [] if everything else wanted,
            **self.options,
        }


def _score(row: CheckpointRow) -> str:
    name, score = ("rating", row.rating) if row.best_by == "rating" else ("reward", row.reward)
    return "" if score is None else f", {name} {score:.4g}"
