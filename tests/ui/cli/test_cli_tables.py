"""Tables of the command line: numbers are whole at 80 columns, and names are shortened in their middle."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mosaic.ui.cli import output as screen


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    text = io.StringIO()
    monkeypatch.setattr(screen, "out", Console(file=text, width=80, highlight=False))
    return text


RUN = "20261116-042202-cliffwalking-xp6i"


def test_a_table_that_fits_is_a_table(terminal: io.StringIO) -> None:
    screen.print_table("Runs", ["run", "steps"], [[RUN, "300,001"]], ["steps"])
    lines = terminal.getvalue().splitlines()
    assert any(RUN in line and "300,001" in line for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("columns", range(1, 14))
def test_numbers_are_never_cut(terminal: io.StringIO, columns: int) -> None:
    """Whatever does not fit becomes a block of lines per row."""
    names = [f"column {index}" for index in range(columns)]
    cells = [f"{300_001 + index:,}" for index in range(columns)]
    screen.print_table("Many", ["run", *names, "why"], [[RUN, *cells, "long words " * 20]], names)
    shown = terminal.getvalue()
    assert all(cell in shown for cell in cells)
    assert RUN in shown
    assert all(name in shown for name in names)
    assert max(map(len, shown.splitlines())) <= 80


def test_numbers_in_columns_of_words_are_whole(terminal: io.StringIO) -> None:
    names = ["setting", *(f"{RUN[:-1]}{index}" for index in range(11))]
    values = ["training.total_timesteps", *(f"{1_234_567_890_123 + index}" for index in range(11))]
    screen.print_table("Settings that differ", names, [values])
    shown = terminal.getvalue()
    assert all(name in shown for name in names)
    assert all(value in shown for value in values)


def test_names_are_shortened_in_their_middle_until_the_table_fits(terminal: io.StringIO) -> None:
    rows = [[RUN, "abcdefghij", "x" * 40], [RUN, "short", "first and last"]]
    screen.shorten(rows, ["run", "env", "name"], [("name", 30), ("env", 4), ("name", 8)])
    assert rows == [[RUN, "abcdefghij", f"{'x' * 15}…{'x' * 15}"], [RUN, "short", "first and last"]]
    screen.print_table("Runs", ["run", "env", "name"], rows, whole=3)
    assert max(map(len, terminal.getvalue().splitlines())) <= 80


def test_a_second_column_is_shortened_only_where_the_first_is_not_enough(terminal: io.StringIO) -> None:
    rows = [["r" * 60, "abcdefghij", "first and last"]]
    screen.shorten(rows, ["run", "env", "name"], [("name", 8), ("env", 4), ("name", 4)])
    assert rows == [["r" * 60, "abc…ij", "firs…ast"]]


def test_what_cannot_fit_stays_whole(terminal: io.StringIO) -> None:
    rows = [["r" * 70, "first and last"]]
    screen.shorten(rows, ["run", "name"], [("name", 12)])
    assert rows == [["r" * 70, "first and last"]]
