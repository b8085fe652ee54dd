"""Pictures in character cells, for every kind of terminal."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from rich.console import Console

from mosaic.ui.cli.pictures import HalfBlocks, cells, to_256


def shown(picture, system, width=10, most_rows=None, no_color=False):
    console = Console(
        file=io.StringIO(),
        color_system=system,
        width=width,
        force_terminal=True,
        no_color=no_color,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(HalfBlocks(picture, most_rows=most_rows), end="")
    return captured.get()


def two_halves():
    picture = np.zeros((20, 20, 3), np.uint8)
    picture[:, :10] = (255, 0, 0)
    picture[:, 10:] = (0, 0, 255)
    return picture


def test_a_cell_shows_two_pixels_in_their_true_colours():
    picture = np.array([[[1, 2, 3]], [[4, 5, 6]]], np.uint8)
    assert shown(picture, "truecolor", width=1) == "\x1b[38;2;1;2;3;48;2;4;5;6m▀\x1b[0m\n"


def test_equal_neighbours_share_their_colours():
    lines = shown(two_halves(), "truecolor").splitlines()
    assert len(lines) == 5
    assert all(line.count("▀") == 10 and line.count("\x1b[38;2;") == 2 for line in lines)


def test_256_colours_and_16():
    assert "38;5;196;48;5;196m▀▀▀▀▀" in shown(two_halves(), "256")
    text = shown(two_halves(), "standard")
    assert "38;" not in text
    assert "\x1b[31;41m▀▀▀▀▀" in text


@pytest.mark.parametrize("how", [{"system": None}, {"system": "truecolor", "no_color": True}])
def test_without_colours_letters_are_the_shades(how):
    picture = np.zeros((4, 4, 3), np.uint8)
    picture[:, 2:] = 255
    assert shown(picture, width=4, **how) == "  @@\n  @@\n"


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 200), st.integers(1, 60) | st.none())
def test_a_picture_fits_and_keeps_its_proportions(height, width, columns, rows):
    got_rows, got_columns = cells(height, width, columns, rows)
    assert 1 <= got_columns <= columns
    assert got_rows >= 1
    if rows is not None:
        assert got_rows <= rows
    # one side is as large as it may be, the other as near as whole cells allow
    assert got_columns == columns or got_rows == rows
    ideal_rows, ideal_columns = got_columns * height / width / 2, 2 * got_rows * width / height
    assert abs(got_rows - max(1, ideal_rows)) <= 0.5 or abs(got_columns - max(1, ideal_columns)) <= 0.5


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_256_colours_are_the_nearest_there_are(colour):
    palette = np.array([Color.from_ansi(n).get_truecolor() for n in range(16, 256)])
    far = ((palette - colour) ** 2).sum(axis=1)
    chosen = int(to_256(np.array([[colour]], np.uint8))[0, 0])
    assert far[chosen - 16] == far.min()
