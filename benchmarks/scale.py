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
import sys
import tempfile
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from figures import at_least, loosen_goals, note_figure, note_ratio
from ppo_rows.measure import usable_cores
from rllib_rows.scale import estimate
from row_table import ONE_THREAD, run_row
from scale_rows.model import driver_full_at, learner_full_at, tables

PACKAGES = ("mosaic-rl", "ray", "torch", "numpy")
PARTS = ("run", "server", "runners")
OF_PARTS = ("load", "at", "versions")  # what is kept for each of them
LEAST_OF_MODEL = 0.8  # measured steps per second, as a share of those computed
MEASURED = Path(__file__).parent / "scale_rows" / "measured.json"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- tables: python benchmarks/scale.py --write -->\n", "<!-- end of the tables -->\n"


def measure(parts: Sequence[str], quick: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the costs of the parts that could be measured, and the parts that failed."""
    found: dict[str, Any] = {"machine": machine(), **{name: {} for name in OF_PARTS}}
    return found, [part for part in parts if not run_row(part, partial(measure_part, found, part, quick))]


def measure_part(found: dict[str, Any], part: str, quick: bool) -> None:
    """Add the costs of a part, and note its figures for the report of `mosaic bench`."""
    load = round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory() as folder:
        found.update(costs_of(part, Path(folder), quick))
    found["load"][part] = load
    found["at"][part] = f"{datetime.now(UTC):%Y-%m-%d}"
    found["versions"][part] = {name: version(name) for name in PACKAGES}
    note(part, found)


def costs_of(part: str, folder: Path, quick: bool) -> dict[str, Any]:
    from scale_rows.costs import run_costs, runner_costs, server_costs

    if part == "run":
        return {"run": run_costs(folder)}
    if part == "server":
        cores, counts = sorted(usable_cores()), (1_000, 2_000) if quick else (1_000, 10_000, 100_000)
        return server_costs(folder, counts, cores[-1], cores[0], 1.0 if quick else 3.0)
    return runner_costs((1, 2) if quick else (1, 2, 4, 8), 2 if quick else 6)


def machine() -> str:
    from mosaic.store.origin import machine_here

    return f"{len(usable_cores())} cores of {machine_here().cpu}, {platform.system()}"


def joined(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the costs with those that were measured again; each part keeps its own load, day and versions."""
    by_part = {name: {**before.get(name, {}), **found[name]} for name in OF_PARTS}
    return {**before, **found, **by_part}


def page_with(text: str, made: str) -> str:
    """Return the page with other tables."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}"


def note(part: str, costs: dict[str, Any]) -> None:
    if part == "run":
        for name in ("report_us", "publish_us", "draw_us", "encode_us", "checkpoint_ms"):
            what, _, unit = name.partition("_")
            note_figure(what, unit.replace("us", "µs"), [costs["run"][name]])
    elif part == "server":
        for name in ("ws_us", "http_us"):
            note_figure(f"decision, {name.partition('_')[0]}", "µs", [costs["server"][name]])
    else:
        for name, seen in costs["runners"].items():
            note_figure(f"env runners that fill the learner, {name}", "", [learner_full_at(seen)])
            note_figure(f"env runners that fill the driver, {name}", "", [driver_full_at(seen)])
        seen, cores = costs["runners"]["cartpole"], len(usable_cores())
        for count, measured in costs["measured_runners"].items():
            model = estimate(int(count), seen, cores)
            speeds = [measured["per_s"]], [model.steps / model.whole_s]
            what = f"{count} env runners on {cores} cores"
            note_ratio(what, "steps/s", *speeds, "the model", at_least(LEAST_OF_MODEL))


def show(costs: dict[str, Any], write: bool) -> None:
    made = tables(costs)
    print(made, flush=True)
    if write:
        MEASURED.write_text(json.dumps(costs, indent=1) + "\n")
        PAGE.write_text(page_with(PAGE.read_text(), made))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer episodes, runners and repeats")
    parser.add_argument("--write", action="store_true", help="into the page, with the measured costs beside the model")
    parser.add_argument("--table", action="store_true", help="measure nothing; use the costs that were written last")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="measure these parts only")
    asked = parser.parse_args()
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"), RAY_USAGE_STATS_ENABLED="0", SDL_VIDEODRIVER="dummy")
    os.environ["SDL_AUDIODRIVER"] = "dummy"  # else pygame says that there is no sound card
    warnings.simplefilter("ignore")
    if asked.quick:
        loosen_goals()
    costs = json.loads(MEASURED.read_text())
    if set(asked.only) < set(PARTS) and not asked.table and machine() != costs["machine"]:
        parser.error(f"the other parts were measured on {costs['machine']}, and this is {machine()}: leave out --only")
    found, failed = ({}, list[str]()) if asked.table else measure(asked.only, asked.quick)
    if found and found["load"].keys() < set(PARTS) and found["machine"] != costs["machine"]:
        print(f"No tables: parts that were not measured here are known of {costs['machine']} only.", flush=True)
    else:
        show(joined(costs, found) if found else costs, asked.write)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
