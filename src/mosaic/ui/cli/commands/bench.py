"""The `mosaic bench` command: the benchmarks of the repository, with one report about all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mosaic.ui.cli.options import JsonOption

TO_INSTALL = "Type: mosaic bench --with-peers"
OWN_PLACES = "own"  # folders of peers that run in environments of their own
BUSY_PERCENT = 25  # of all cores, by other programs, before the first benchmark


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BENCHMARK[:ROW]]…",
            help="Those of --list, or one row such as ppo:a2c; none: all.",
            show_default=False,
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Short form, where a benchmark has one.")] = False,
    with_peers: Annotated[
        bool,
        typer.Option("--with-peers", help="Install what is missing, conflicting peers in environments of their own."),
    ] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder of report.json, report.md and report.png.")] = Path(
        "benchmark-report"
    ),
    json: JsonOption = False,
) -> None:
    """Measure Mosaic beside other libraries.

    Runs the programs of the folder benchmarks/ of a copy of the repository, one after the other: ours and the peers
    take turns, and speed counts only if something was learned. Exits with 1 if a figure misses its goal.
    """
    from mosaic.ui.cli.bench_report import COLUMNS, machine, missed, rows, write_report
    from mosaic.ui.cli.output import note, print_json, print_table

    folder = _folder()
    known = _benchmarks(folder)
    if list_:
        said = {name: _summary(path) for name, path in known.items()}
        if json:
            print_json(said)
        else:
            print_table(f"{len(known)} benchmarks", ["benchmark", "what it measures"], list(said.items()))
        return
    chosen = _chosen(names or list(known), known)
    absent = missing_packages(folder)
    if absent and with_peers:
        _install(folder, absent)
    elif absent:
        note(f"Not installed: {', '.join(absent)}. Rows that need them are left out. {TO_INSTALL}")
    about = machine(folder)
    if (used := _used_percent()) > BUSY_PERCENT:
        note(f"Other programs use {used:.0f} % of the cores: figures will vary. Stop them, or read the intervals.")
    figures: list[dict[str, object]] = []
    failed, written = [], list[Path]()
    for name, asked in chosen.items():
        options = _options(known[name], quick=quick, with_peers=with_peers)
        try:
            failed += [name] if _run(known[name], [*asked, *options], figures) else []
        finally:  # hours of figures survive Ctrl-C
            written = write_report(out, about, figures)
    if json:
        print_json({"machine": about, "figures": figures, "failed": failed})
    else:
        print_table(
            "1 figure" if len(figures) == 1 else f"{len(figures)} figures",
            list(COLUMNS),
            rows(figures),
            ["ours", "ratio (95 %)"],
        )
        note(f"Written: {', '.join(map(str, written))}")
    wrong = missed(figures)
    if wrong or failed:
        note(f"Missed or failed: {', '.join(dict.fromkeys([*wrong, *failed]))}")
        raise typer.Exit(1)


def _folder() -> Path:
    from mosaic.core.errors import InputError

    here = Path(__file__).resolve().parents[5] / "benchmarks"
    if not (here / "figures.py").is_file():
        raise InputError(
            "The benchmarks are part of the repository and not of the installed package. Clone it, type `make setup` "
            "there, and then: .venv/bin/mosaic bench"
        )
    return here


def _benchmarks(folder: Path) -> dict[str, Path]:
    """Return the programs of the folder by name; modules that they share are left out."""
    programs = sorted(path for path in folder.glob("*.py") if "def main(" in path.read_text(encoding="utf-8"))
    return {path.stem: path for path in programs}


def _chosen(names: list[str], known: dict[str, Path]) -> dict[str, list[str]]:
    """Return the rows that are asked for of each benchmark; none: all."""
    from mosaic.core.errors import InputError, unknown

    chosen: dict[str, list[str]] = {}
    for name, _, row in (each.partition(":") for each in names):
        if name not in known:
            raise unknown("benchmark", name, known)
        if row and not _has_rows(known[name]):
            raise InputError(f"The benchmark '{name}' has no rows to choose from. Type: mosaic bench {name}")
        chosen.setdefault(name, []).extend([row] if row else [])
    return chosen


def _has_rows(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return "row_parser(" in text or 'add_argument("rows"' in text


def foreign_imports(folder: Path) -> set[str]:
    """Return the packages, by import name, that benchmarks and peers import into our environment."""
    import ast
    import sys

    imported, files = set[str](), [path for path in folder.rglob("*.py") if OWN_PLACES not in path.parts]
    for node in (node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        imported |= {name.partition(".")[0] for name in names}
    ours = {"mosaic", *(path.stem for path in [*folder.iterdir(), *folder.glob("*/*.py")])}
    return imported - ours - set(sys.stdlib_module_names)


def missing_packages(folder: Path) -> list[str]:
    """Return what pip calls the packages that benchmarks import and that are not installed."""
    from importlib.util import find_spec

    return sorted(name.replace("_", "-") for name in foreign_imports(folder) if find_spec(name) is None)


def _install(folder: Path, packages: list[str]) -> None:
    """Install packages beside ours, in the versions that the repository is tested with."""
    import importlib
    import shlex
    import subprocess

    from mosaic.core.child_process import module_command
    from mosaic.core.errors import MosaicError
    from mosaic.ui.cli.output import note

    limits = ["-c", str(folder.parent / "constraints.txt")]
    command = module_command("pip", "install", "-q", "--disable-pip-version-check", *limits, *packages)
    note(f"Installing {', '.join(packages)}")
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        raise MosaicError(f"{shlex.join(command)} failed: {said[-1] if said else ended.returncode}")
    importlib.invalidate_caches()


def _summary(path: Path) -> str:
    import ast

    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def _used_percent() -> float:
    import psutil

    return float(psutil.cpu_percent(interval=1.0))


def _options(path: Path, *, quick: bool, with_peers: bool) -> list[str]:
    """Return the options that this program knows."""
    text = path.read_text(encoding="utf-8")
    short = quick and ('"--quick"' in text or "row_parser(" in text)
    return ["--quick"] * short + ["--with-peers"] * (with_peers and '"--with-peers"' in text)


def _run(path: Path, options: list[str], figures: list[dict[str, object]]) -> int:
    """Run one program, print its lines to stderr, add its figures even if it is interrupted; return its exit code."""
    import os
    import subprocess
    import sys
    import tempfile
    from time import perf_counter

    from mosaic.ui.cli.bench_report import read_figures
    from mosaic.ui.cli.output import note
    from mosaic.ui.web.components.theme import duration

    note(f"{path.stem}: {_summary(path)}")
    began, last = perf_counter(), ""
    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as folder:
        written_down = Path(folder, "figures.jsonl")
        surroundings = {**os.environ, "MOSAIC_BENCHMARK_FIGURES": str(written_down)}
        command = [sys.executable, "-u", str(path), *options]
        try:
            with subprocess.Popen(
                command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder
            ) as process:
                try:
                    for line in process.stdout or ():
                        print(line, end="", file=sys.stderr, flush=True)
                        last = line.strip() or last
                except BaseException:
                    process.terminate()
                    raise
        finally:
            found = read_figures(written_down, path.stem)
            figures += found
    note(f"{path.stem}: {duration(perf_counter() - began)}")
    absent = last.removeprefix("ModuleNotFoundError: No module named ").strip("'")
    if process.returncode and absent.partition(".")[0] in foreign_imports(path.parent):
        reason = f"{absent} is not installed. {TO_INSTALL}"
        figures.append({"benchmark": path.stem, "what": path.stem, "skipped": reason})
        return 0
    if process.returncode and not any(figure.get("failed") for figure in found):
        reason = f"ended with exit code {process.returncode}"
        figures.append({"benchmark": path.stem, "what": path.stem, "failed": reason})
    return process.returncode
