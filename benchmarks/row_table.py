"""Row tables: selection of a benchmark's rows, a header about the machine, and running them."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

from figures import loosen_goals, note_failure, note_skipped, noted
from ppo_rows.measure import GateFailed, PeerMissing, Plan, Unmeasured

from mosaic.core.errors import MissingExtraError, describe_error
from mosaic.ui.cli.bench.packages import own_modules

Rows: TypeAlias = Mapping[str, tuple[str, str]]  # name: module and function in its package, and what it shows
TO_INSTALL = "mosaic bench --with-peers"
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
    if arguments.quick:
        loosen_goals()
    return arguments


def say_where(cores: str, plan: Plan, packages: Sequence[str]) -> None:
    from mosaic.store.origin import machine_here

    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"{machine_here().cpu}, {cores}, load {load}; medians of {plan.repeats}")
    versions = ", ".join(f"{name} {_version(name)}" for name in packages)
    print(f"Python {platform.python_version()}, {versions}", flush=True)


def run_rows(package: str, rows: Rows, names: Sequence[str], plan: Plan) -> None:
    """Run the rows; exit with an error if one failed. What is not installed is not a failure: it is reported."""
    failed = [name for name in names or rows if not _run(package, rows, name, plan)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _run(package: str, rows: Rows, name: str, plan: Plan) -> bool:
    module, _, function = rows[name][0].partition(":")

    def row() -> None:
        getattr(import_module(f"{package}.{module}"), function)(plan)

    return run_row(name, row)


def run_row(name: str, row: Callable[[], object]) -> bool:
    """Run one row; return False if it failed. What is not installed is noted, with what to type.

    A row that ends without a figure has failed: the report would say nothing about it.
    """
    began, before = perf_counter(), noted()
    try:
        row()
    except GateFailed as reason:
        note_failure(name, f"the gate failed: {reason}")
        print(f"{name}: the gate failed, so the speed means nothing: {reason}", flush=True)
        return False
    except Unmeasured as reason:
        note_failure(name, f"no figures: {reason}")
        print(f"{name}: no figures: {reason}", flush=True)
        return False
    except PeerMissing as reason:
        note_skipped(name, str(reason))
        print(f"{name}: {reason}", flush=True)
    except MissingExtraError as error:
        _leave_out(name, str(error), "what it needs")
    except Exception as error:  # noqa: BLE001 - the other rows are still measured
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or missing.partition(".")[0] in own_modules(Path(__file__).parent):
            traceback.print_exc()
            note_failure(name, describe_error(error))
            return False
        _leave_out(name, f"{missing} is not installed. Type: {TO_INSTALL}", missing)
    if noted() == before:
        note_failure(name, reason := "it ended without a figure")
        print(f"{name}: {reason}", flush=True)
        return False
    print(f"  ({name}: {perf_counter() - began:.0f} s)", flush=True)
    return True


def _leave_out(name: str, reason: str, package: str) -> None:
    note_skipped(name, reason, package)
    print(f"{name}: {reason}", flush=True)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
