"""Benchmark programs: what the folder has, which rows are asked for, and running one of them to its end."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

from mosaic.core.errors import InputError, unknown
from mosaic.core.interrupts import ctrl_c_deferred
from mosaic.core.proc import environment
from mosaic.runs.processes import Row, end_all, list_processes
from mosaic.ui.cli.bench.packages import foreign_imports
from mosaic.ui.cli.bench.report import read_figures

Figures: TypeAlias = list[dict[str, Any]]
TO_INSTALL = "Type: mosaic bench --with-peers"
STILL_MISSING = "although --with-peers has installed what pyproject.toml names"
VARIABLE = "MOSAIC_BENCHMARK_FIGURES"  # path of the figures; also the mark of everything that a program starts
GRACE_S = 15.0  # after Ctrl-C, to stop Ray, servers and runs


class BenchmarkProgram(NamedTuple):
    """Program of the folder benchmarks/."""

    path: Path
    summary: str
    rows: tuple[str, ...]  # empty: it has none to choose from
    options: tuple[str, ...]  # which it knows of those that `mosaic bench` passes on

    @property
    def name(self) -> str:
        return self.path.stem


def find_folder(beside: Path) -> Path:
    here = beside.resolve().parents[5] / "benchmarks"
    if not (here / "figures.py").is_file():
        raise InputError(
            "The benchmarks are part of the repository and not of the installed package. Clone it, type `make setup` "
            "there, and then: .venv/bin/mosaic bench"
        )
    return here


def find_programs(folder: Path) -> dict[str, BenchmarkProgram]:
    """Return the programs of the folder by name; modules that they share are left out."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    return {path.stem: _program(path, text) for path, text in texts.items() if "def main(" in text}


def _program(path: Path, text: str) -> BenchmarkProgram:
    tree = ast.parse(text)
    summary = (ast.get_docstring(tree) or "").partition("\n")[0]
    options = [each for each in ("--quick", "--with-peers") if f'"{each}"' in text]
    if "row_parser(" in text and "--quick" not in options:
        options.append("--quick")
    return BenchmarkProgram(path, summary, tuple(_rows(tree)), tuple(options))


def _rows(tree: ast.Module) -> list[str]:
    """Return the keys of the dictionary ROWS."""
    for node in (node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        named = any(isinstance(each, ast.Name) and each.id == "ROWS" for each in targets)
        if named and isinstance(node.value, ast.Dict):
            return [ast.literal_eval(key) for key in node.value.keys if key is not None]
    return []


def choose(names: Sequence[str], known: dict[str, BenchmarkProgram]) -> dict[str, list[str]]:
    """Return the rows that are asked for of each benchmark; none: all."""
    chosen: dict[str, list[str]] = {}
    whole = set[str]()
    for name, colon, row in (each.partition(":") for each in names):
        if name not in known:
            raise unknown("benchmark", name, known)
        if colon and not known[name].rows:
            raise InputError(f"The benchmark '{name}' has no rows to choose from. Type: mosaic bench {name}")
        if colon and row not in known[name].rows:
            raise unknown(f"row of '{name}'", row, known[name].rows)
        whole |= set() if colon else {name}
        chosen.setdefault(name, []).extend([row] if colon else [])
    return {name: [] if name in whole else list(dict.fromkeys(rows)) for name, rows in chosen.items()}


def run_program(program: BenchmarkProgram, arguments: list[str], figures: Figures, *, installed: bool) -> bool:
    """Run a program, print its lines to stderr and add its figures; return whether it passed.

    Figures of a program that is interrupted are kept. `installed`: everything was installed before, so what is missing
    now is a failure.
    """
    name, last, interrupted = program.name, [""], True
    with tempfile.TemporaryDirectory(prefix="mosaic-bench-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "figures.jsonl")
        command = [sys.executable, "-u", str(program.path), *arguments]
        try:
            with _started(command, path) as process:
                for line in process.stdout or ():
                    print(line, end="", file=sys.stderr, flush=True)
                    last = [line.strip()] if line.strip() else last
            interrupted = False
        finally:
            found = read_figures(path, name)
            figures += found
            if interrupted:
                figures.append({"benchmark": name, "what": name, "failed": "interrupted before its end"})
    for figure in found:
        if installed and figure.get("package"):
            figure["failed"] = f"{figure['package']} is not installed, {STILL_MISSING}"
            del figure["skipped"]
    code = process.returncode
    absent = last[0].removeprefix("ModuleNotFoundError: No module named ").strip("'")
    if code and not installed and absent.partition(".")[0] in foreign_imports(program.path.parent):
        figures.append({"benchmark": name, "what": name, "skipped": f"{absent} is not installed. {TO_INSTALL}"})
        return True
    if code and not any(figure.get("failed") for figure in found):
        figures.append({"benchmark": name, "what": name, "failed": f"ended with exit code {code}: {last[0]}"})
    return code == 0


@contextmanager
def _started(command: list[str], figures: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a program in a session of its own; when it or the block ends, end everything that it has started.

    Ctrl-C reaches it once, from here, so that it can clean up. What it leaves running holds the end of its output,
    which would never end, and counts in the figures of the next program.
    """
    mark = f"{VARIABLE}={figures}".encode()

    def leftovers() -> list[Row]:
        return [row for row in list_processes().values() if mark in environment(row.pid)]

    def end_leftovers() -> None:
        end_all(leftovers, monotonic() + GRACE_S)

    def wait(process: subprocess.Popen[str]) -> None:
        process.wait()
        end_leftovers()

    process = waiting = None
    try:
        with ctrl_c_deferred():
            process = subprocess.Popen(
                command,
                env={**os.environ, VARIABLE: str(figures)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=figures.parent,
                start_new_session=True,
            )
            waiting = Thread(target=wait, args=(process,), daemon=True)
            waiting.start()
        yield process
    except BaseException:
        if process is not None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
        end_leftovers()  # the program too, if it has not ended by itself
        raise
    finally:
        if process is not None and waiting is not None:
            waiting.join()
            process.communicate()
