"""The `mosaic bench` command: the benchmarks of the repository, with one report about all of them."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from mosaic.ui.cli.options import JsonOption

BUSY_PERCENT = 25  # of all cores, by other programs, before the first benchmark


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BENCHMARK[:ROW]",
            help="Benchmarks from --list, or one row such as ppo:a2c; default: all.",
            show_default=False,
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the benchmarks and their rows.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Short form: fewer repeats, looser goals for ratios, none for times.")
    ] = False,
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
    from mosaic.ui.cli.bench import packages
    from mosaic.ui.cli.bench.programs import Figures, choose, find_programs, run_program
    from mosaic.ui.cli.bench.report import COLUMNS, NUMBERS, circumstances, missed, rows, summarized
    from mosaic.ui.cli.output import note, print_json, print_table

    folder = _folder()
    known = find_programs(folder)
    chosen = choose(names or list(known), known)
    if list_:
        programs = [known[name] for name in chosen]
        if json:
            print_json({each.name: {"what": each.summary, "rows": each.rows} for each in programs})
        else:
            cells = [(each.name, each.summary, ", ".join(each.rows)) for each in programs]
            print_table(f"{len(programs)} benchmarks", ["benchmark", "measures", "rows"], cells)
        return
    _make_folder(out)
    absent = packages.missing(folder.parent)
    if absent and with_peers:
        note(f"Installing {', '.join(absent)}")
        packages.install(folder.parent, absent)
    elif absent:
        note(f"Not installed: {', '.join(absent)}. What needs them is left out. Type: mosaic bench --with-peers")
    given = {"--quick": quick, "--with-peers": with_peers}
    words = ["mosaic", "bench", *(names or ()), *(option for option, asked in given.items() if asked)]
    used = _used_percent()
    about = circumstances(folder, shlex.join(words), used, packages.names(folder.parent))
    if used > BUSY_PERCENT:
        note(f"Other programs use {used:.0f} % of the cores: figures will vary. Stop them, or read the intervals.")
    figures: Figures = []
    failed, written = [], list[Path]()
    with _stopped_as_by_ctrl_c():
        for name, asked in chosen.items():
            options = [option for option in known[name].options if given[option]]
            try:
                passed = run_program(known[name], [*asked, *options], figures, installed=with_peers)
            except BaseException:  # hours of figures survive Ctrl-C
                _say_where(_write(out, about, figures))
                raise
            failed += [] if passed else [name]
            written = _write(out, about, figures)
    if json:
        print_json({"machine": about, "figures": summarized(figures), "failed": failed})
    else:
        title = "1 figure" if len(figures) == 1 else f"{len(figures)} figures"
        print_table(title, list(COLUMNS), rows(figures), NUMBERS)
        _say_where(written)
    wrong = missed(figures)
    if wrong or failed:
        note(f"Missed or failed: {', '.join(dict.fromkeys([*wrong, *failed]))}")
    if wrong or failed or not written:
        raise typer.Exit(1)


def _folder() -> Path:
    from mosaic.ui.cli.bench.programs import find_folder

    return find_folder(Path(__file__))


def _make_folder(path: Path) -> None:
    """Create the folder of the report, before hours of measurements."""
    import tempfile

    from mosaic.core.errors import InputError

    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InputError(
            f"The report cannot be written to '{path}': {error.strerror}. Name another folder: --out FOLDER"
        ) from error


def _write(out: Path, about: Mapping[str, Any], figures: Sequence[dict[str, Any]]) -> list[Path]:
    """Write the report so far and return its files; on a full disk return none, and say so: the benchmarks continue."""
    from mosaic.ui.cli.bench.report import write_report
    from mosaic.ui.cli.output import note

    try:
        return write_report(out, about, figures)
    except OSError as error:
        note(f"The report cannot be written to '{out}': {error.strerror}. It is tried again after each benchmark.")
        return []


def _say_where(written: Sequence[Path]) -> None:
    from mosaic.ui.cli.output import note

    if written:
        note(f"Written: {', '.join(map(str, written))}")


def _used_percent() -> float:
    import psutil

    return float(psutil.cpu_percent(interval=1.0))


@contextmanager
def _stopped_as_by_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM and a closed terminal like Ctrl-C: the report is written, and nothing is left running."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
