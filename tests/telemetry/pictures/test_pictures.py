"""Pictures: sizes, grids, labels, strips and bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from mosaic.core.errors import InputError
from mosaic.telemetry.pictures.captions import (
    LEAST_WIDTH,
    Label,
    from_line,
    return_labels,
    rows_of,
    to_line,
    with_strip,
)
from mosaic.telemetry.pictures.message import FEW_COLOURS, decoded, encoded, is_drawing
from mosaic.telemetry.pictures.resize import as_rgb, enlarged, fitted, tiled
from mosaic.ui.cli.recording import save_png


def board(height: int = 64, width: int = 96) -> NDArray[np.uint8]:
    picture = np.full((height, width, 3), 250, np.uint8)
    picture[8:24, 8:40] = (200, 30, 10)
    return picture


def noise(height: int = 64, width: int = 96) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def test_drawings_travel_without_loss_and_others_as_jpeg() -> None:
    flat = encoded(board())
    assert flat.format == "webp"
    assert np.array_equal(decoded(flat.data), board())
    rough = encoded(noise())
    assert rough.format == "jpeg"
    assert rough.data.startswith(b"\xff\xd8")
    assert decoded(rough.data).shape == (64, 96, 3)


def test_a_drawing_has_few_colours_however_they_lie() -> None:
    chance = np.random.default_rng(0)
    assert is_drawing(chance.integers(0, 2, (200, 300, 3), np.uint8) * 255)  # eight colours, no two neighbours alike
    assert not is_drawing(noise())
    for colours in (FEW_COLOURS, FEW_COLOURS + 1):
        greys = (np.arange(64 * 64) % colours).astype(np.uint8).reshape(64, 64)
        for picture in (greys, np.dstack([greys] * 3), greys.repeat(5, axis=0).repeat(3, axis=1)):
            assert is_drawing(picture) is (colours == FEW_COLOURS)
    for shape in ((1, 1), (1, 1, 1), (5, 1, 3), (1, 5, 4)):
        assert is_drawing(np.zeros(shape, np.uint8))


def test_grey_and_transparent_pictures_are_encoded() -> None:
    grey = noise()[:, :, 0]
    assert encoded(grey).format == "jpeg"
    assert decoded(encoded(grey).data).shape == grey.shape
    assert np.array_equal(decoded(encoded(board()[:, :, :1]).data), board()[:, :, :1].repeat(3, axis=2))
    assert np.array_equal(decoded(encoded(np.dstack([board(), board()[:, :, 0]])).data), board())


def test_what_webp_cannot_hold_goes_as_jpeg() -> None:
    assert encoded(np.zeros((2, 16_384, 3), np.uint8)).format == "jpeg"


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=40)
def test_a_grid_holds_every_picture_unchanged(count: int, height: int, width: int) -> None:
    pictures = [np.full((height, width, 3), 50 + index, np.uint8) for index in range(count)]
    grid = tiled(pictures)
    for index in range(count):
        assert int(np.all(grid == 50 + index, axis=2).sum()) == height * width


def test_a_grid_of_several_sizes_keeps_their_proportions() -> None:
    small, large = np.full((10, 10), 255, np.uint8), np.full((20, 40, 3), 255, np.uint8)
    assert tiled([large, small]).shape == (20, 82, 3)
    assert int((tiled([large, small]) == 255).all(axis=2).sum()) == 20 * 40 + 10 * 10
    with pytest.raises(InputError, match="at least one picture"):
        tiled([])


def test_every_kind_of_picture_gets_three_channels() -> None:
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for picture in (grey, grey[:, :, None], np.dstack([grey] * 3), np.dstack([grey] * 4)):
        assert np.array_equal(as_rgb(picture), np.dstack([grey] * 3))
    with pytest.raises(InputError, match=r"This is not a picture: float64 of shape \(2, 3\)"):
        as_rgb(np.zeros((2, 3)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="this one has 2"):
        as_rgb(np.zeros((2, 3, 2), np.uint8))


def test_pixels_stay_square_when_a_picture_grows() -> None:
    grown = enlarged(noise(3, 5), 12)
    assert grown.shape == (9, 15, 3)
    assert np.array_equal(grown[::3, ::3], noise(3, 5))
    assert enlarged(board(), 50).shape == board().shape


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 50), st.integers(1, 50))
def test_a_fitted_picture_has_exactly_the_size(height: int, width: int, to_height: int, to_width: int) -> None:
    picture = np.full((height, width, 3), 255, np.uint8)
    inside = (fitted(picture, to_width, to_height) == 255).all(axis=2)
    rows, columns = inside.any(axis=1).sum(), inside.any(axis=0).sum()
    scale = min(1.0, to_width / width, to_height / height)
    assert inside.shape == (to_height, to_width)
    assert abs(rows - max(1, height * scale)) <= 0.5
    assert abs(columns - max(1, width * scale)) <= 0.5


def test_labels_as_one_line_and_back() -> None:
    labels = return_labels({"red_0": 1.5, "red_1": -2.0})
    assert to_line(labels, 256) == "red_0=1.5, red_1=-2"
    assert from_line("red_0=1.5, red_1=-2", 0.0) == labels
    assert from_line("", 3.25) == [Label("return", "3.25")]
    assert from_line("walker", 3.25) == [Label("walker", "3.25")]
    assert to_line([], 256) == ""


@given(st.dictionaries(st.text("abcé_0", min_size=1, max_size=20), st.floats(-1e6, 1e6), max_size=60))
def test_a_line_never_grows_beyond_its_room_and_loses_nobody_unsaid(returns: dict[str, float]) -> None:
    labels = return_labels(returns)
    line = to_line(labels, 256)
    assert len(line.encode()) <= 256
    read = from_line(line, 0.0) if returns else []
    if read and read[-1].value == "":
        left = int(read[-1].name.removeprefix("+").removesuffix(" more"))
        assert read[:-1] == labels[:-left]
    else:
        assert read == labels


def test_a_strip_is_below_the_picture_and_says_something() -> None:
    plain = with_strip(board(64, 300), "", [])
    told = with_strip(board(64, 300), "step 3", [Label("red", "1.5"), Label("blue", "-2")])
    assert np.array_equal(told[:64], board(64, 300))
    assert told.shape[0] > plain.shape[0] > 64
    other = with_strip(board(64, 300), "step 3", [Label("red", "1.5"), Label("blue", "-3")])
    assert not np.array_equal(told, other)


def test_a_strip_of_given_rows_keeps_a_films_size() -> None:
    few = with_strip(board(), "a", [Label("one", "1")], rows=2)
    many = with_strip(board(), "a" * 500, [Label(f"agent_{index}", "1" * index) for index in range(50)], rows=2)
    assert few.shape == many.shape
    assert few.shape[1] >= LEAST_WIDTH
    assert rows_of(1, 84) == 1
    assert rows_of(5, 440) == 3


def test_a_png_appears_whole(tmp_path: Path) -> None:
    save_png(tmp_path / "a.png", noise())
    assert np.array_equal(np.asarray(Image.open(tmp_path / "a.png")), noise())
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    with pytest.raises(InputError, match=r"'a\.jpg' is not a PNG file\. Type: a\.png"):
        save_png(Path("a.jpg"), noise())
    with pytest.raises(InputError, match=r"There is no folder '.*nowhere' for 'a\.png'\. Type: mkdir -p"):
        save_png(tmp_path / "nowhere" / "a.png", noise())
