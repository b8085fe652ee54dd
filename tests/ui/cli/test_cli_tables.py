"""Tables of the command line: numbers are whole at 80 columns."""

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
