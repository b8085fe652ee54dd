"""Cost of each part, and what limits many env runners, episodes and runs: the tables of docs/scale.md.

python benchmarks/scale.py [--quick] [--write]     # measure; --write: into docs/scale.md and scale_rows/measured.json
python benchmarks/scale.py --only server --write   # some parts again, the others as they were
python benchmarks/scale.py --table [--write]       # the tables again, from scale_rows/measured.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from figures import loosen_goals, note_figure
from ppo_rows.measure import usable_cores
from row_table import ONE_THREAD
from scale_rows.model import driver_full_at, learner_full_at, tables

PACKAGES = ("mosaic-rl", "ray", "torch", "numpy")
PARTS = ("run", "server", "runners")
MEASURED = Path(__file__).parent / "scale_rows" / "measured.json"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- tables: python benchmarks/scale.py --write -->\n", "<!-- end of the tables -->\n"


def measure(parts: Sequence[str], quick: bool) -> dict[str, Any]:
    from scale_rows.costs import run_costs, runner_costs, server_costs

    cores = sorted(usable_cores())
    found: dict[str, Any] = {"machine": machine(), "load": {}}
    found["versions"] = {name: version(name) for name in PACKAGES}
    found["at"] = {part: f"{datetime.now(UTC):%Y-%m-%d}" for part in parts}
    for part in parts:
        found["load"][part] = round(os.getloadavg()[0], 1)
        with tempfile.TemporaryDirectory() as folder:
            if part == "run":
                found["run"] = run_costs(Path(folder))
            elif part == "server":
                counts = (1_000, 2_000) if quick else (1_000, 10_000, 100_000)
                found |= server_costs(Path(folder), counts, cores[-1], cores[0], 1.0 if quick else 3.0)
            else:
                found |= runner_costs((1, 2) if quick else (1, 2, 4, 8), 2 if quick else 6)
    return found


def machine() -> str:
    from mosaic.store.origin import machine_here

    return f"{len(usable_cores())} cores of {machine_here().cpu}, {platform.system()}"


def joined(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the costs with those that were measured again; each part keeps its own load and date."""
    by_part = {name: {**before.get(name, {}), **found[name]} for name in ("load", "at")}
    return {**before, **found, **by_part}


def page_with(text: str, made: str) -> str:
    """Return the page with other tables."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}"


def note(costs: dict[str, Any]) -> None:
    """Write down the figures for the report of `mosaic bench`."""
    for name, unit in (("report_us", "µs"), ("publish_us", "µs"), ("checkpoint_ms", "ms")):
        note_figure(name.partition("_")[0], unit, [costs["run"][name]])
    for name in ("ws_us", "http_us"):
        note_figure(f"decision, {name.partition('_')[0]}", "µs", [costs["server"][name]])
    for name, seen in costs["runners"].items():
        note_figure(f"env runners that fill the learner, {name}", "", [learner_full_at(seen)])
        note_figure(f"env runners that fill the driver, {name}", "", [driver_full_at(seen)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer episodes, runners and repeats")
    parser.add_argument("--write", action="store_true", help="into the page, with the measured costs beside the model")
    parser.add_argument("--table", action="store_true", help="measure nothing; use the costs that were written last")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="measure these parts only")
    asked = parser.parse_args()
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"), RAY_USAGE_STATS_ENABLED="0")
    warnings.simplefilter("ignore")
    if asked.quick:
        loosen_goals()
    costs = json.loads(MEASURED.read_text())
    if set(asked.only) < set(PARTS) and not asked.table and machine() != costs["machine"]:
        parser.error(f"the other parts were measured on {costs['machine']}, and this is {machine()}: leave out --only")
    if not asked.table:
        found = measure(asked.only, asked.quick)
        costs = joined(costs, found)
    made = tables(costs)
    print(made, flush=True)
    note(costs)
    if asked.write:
        MEASURED.write_text(json.dumps(costs, indent=1) + "\n")
        PAGE.write_text(page_with(PAGE.read_text(), made))


if __name__ == "__main__":
    main()
