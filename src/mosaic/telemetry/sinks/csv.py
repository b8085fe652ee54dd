"""CSV sink: metrics.csv in the run's folder for spreadsheets, one row per event, one column per number."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import IO

from mosaic.core.files import replace_file
from mosaic.telemetry.events.event import AXES, MetricEvent, leaves

_FIRST = ("kind", "seq", "attempt", *(axis for axis in AXES if axis != "seq"))


class CsvSink:
    """CSV writer that adds a column for each new number by atomically rewriting the file with a longer header."""

    def __init__(self, run_folder: Path) -> None:
        self.path = run_folder / "metrics.csv"
        self._columns = list(_FIRST)
        self._file = self._rewritten([])

    def write(self, event: MetricEvent, /) -> None:
        row = {**{name: event.get(name) for name in _FIRST}, **{name: _cell(value) for name, value in leaves(event)}}
        known = set(self._columns)
        if new := [name for name in row if name not in known]:
            self._file.close()
            with self.path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            self._columns += new
            self._file = self._rewritten(rows)
        csv.DictWriter(self._file, self._columns).writerow(row)
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _rewritten(self, rows: list[dict[str, object]]) -> IO[str]:
        def write(path: Path) -> None:
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, self._columns)
                writer.writeheader()
                writer.writerows(rows)

        replace_file(self.path, write, self.path.with_name("metrics.csv.new"))
        return self.path.open("a", newline="", encoding="utf-8")


def _cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, list) else value
