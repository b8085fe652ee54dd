"""Row tables: selection of a benchmark's rows, a header about the machine, and running them."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from time import perf_counter
from typing import TypeAlias

from ppo_rows.measure import GateFailed, PeerMissing, Plan, Unmeasured

Rows: TypeAlias = Mapping[str, tuple[str, str]]  # name: module and function in its package, and what it shows
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def row_parser(doc: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="those of --list; none: all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repeat, lower goals")
    parser.add_argument("--list", action="store_true", help="name the rows and leave")
    return parser


def asked(parser: argparse.ArgumentParser, rows: Rows) -> argparse.Namespace:
    arguments = parser.parse_args()
    if arguments.list:
        for name, (_, what) in rows.items():
            print(f"{name:18}{what}")
        sys.exit()
    unknown = [name for name in arguments.rows if name not in rows]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}. Rows: {', '.join(rows)}")
    return arguments


def say_where(cores: str, plan: Plan, packages: Sequence[str]) -> None:
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"{_processor()}, {cores}, load {load}; medians of {plan.repeats}")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    print(f"Python {platform.python_version()}, {versions}", flush=True)


def run_rows(package: str, rows: Rows, names: Sequence[str], plan: Plan) -> None:
    """Run the rows; exit with an error if one failed. A peer that is not available is not a failure: it is reported."""
    failed = [name for name in names or rows if not _run(package, rows, name, plan)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _run(package: str, rows: Rows, name: str, plan: Plan) -> bool:
    module, _, function = rows[name][0].partition(":")
    row: Callable[[Plan], None] = getattr(import_module(f"{package}.{module}"), function)
    began = perf_counter()
    try:
        row(plan)
    except GateFailed as reason:
        print(f"{name}: the gate failed, so the speed means nothing: {reason}", flush=True)
        return False
    except Unmeasured as reason:
        print(f"{name}: no figures: {reason}", flush=True)
        return False
    except PeerMissing as reason:
        print(f"{name}: a peer cannot be had here: {reason}", flush=True)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "mosaic":
            raise
        print(f"{name}: a peer cannot be had here: {error}. Type: make setup", flush=True)
    print(f"  ({name}: {perf_counter() - began:.0f} s)", flush=True)
    return True


def _processor() -> str:
    with open("/proc/cpuinfo") as facts:
        return next((line.partition(":")[2].strip() for line in facts if line.startswith("model name")), "unknown")
