"""Packed rows hold pictures as bytes, take as much memory as they say, and give back the same numbers."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mosaic.core.errors import MosaicError
from mosaic.envs.vector.encoding import row_code
from mosaic.models.packed_rows import PackedRows, row_bytes, row_packing, zero_rows
from mosaic.models.torch_rows import PackedTensor

GREY = spaces.Box(0, 255, (9, 10), np.uint8)
FIRST = spaces.Box(0, 255, (3, 12, 11), np.uint8)
LAST = spaces.Box(0, 255, (12, 11, 3), np.uint8)
NUMBERS = spaces.Box(-np.inf, np.inf, (5,), np.float32)
SPACES = {
    "grey": GREY,
    "channels first": FIRST,
    "channels last": LAST,
    "before numbers": spaces.Tuple((GREY, NUMBERS)),
    "between numbers": spaces.Tuple((spaces.Discrete(3), LAST, NUMBERS, FIRST)),
}


def rows_of(space, count=7):
    code = row_code(space)
    rows = np.zeros((count, code.width), np.float32)
    space.seed(0)
    for row in rows:
        code.write(space.sample(), row)
    return code, rows


@pytest.mark.parametrize("name", SPACES)
def test_the_same_numbers_come_back(name):
    code, rows = rows_of(SPACES[name])
    kept = zero_rows(len(rows), code.width, row_packing([code]))
    assert isinstance(kept, PackedRows)
    kept[:] = rows
    assert kept.data.dtype == np.uint8
    assert kept[:].dtype == np.float32
    assert (kept[:] == rows).all()
    assert (kept[np.array([3, 1])] == rows[[3, 1]]).all()
    packed = PackedTensor(kept, torch.device("cpu"))
    assert (packed[torch.arange(7)].numpy() == rows).all()
    assert (packed[torch.tensor([2])].numpy() == rows[[2]]).all()
    assert (packed[torch.tensor([[4, 1], [0, 6]])].numpy() == rows[[[4, 1], [0, 6]]]).all()


def test_every_byte_comes_back():
    packing = row_packing([row_code(spaces.Box(0, 255, (16, 16), np.uint8))])
    scaled = (np.arange(256, dtype=np.uint8) / np.float32(255)).reshape(1, 256)
    assert packing.pack(scaled).tolist() == [list(range(256))]
    assert (packing.unpack(packing.pack(scaled)) == scaled).all()


@pytest.mark.parametrize("name", SPACES)
def test_a_number_of_a_picture_takes_one_byte(name):
    code = row_code(SPACES[name])
    pictures = sum(part.size for part in code.parts if part.picture)
    packing = row_packing([code])
    kept = zero_rows(7, code.width, packing)
    assert packing.size == pictures + 4 * (code.width - pictures)
    assert kept.nbytes == 7 * row_bytes(code.width, packing) == 7 * packing.size


def test_rows_without_pictures_stay_numbers():
    code = row_code(NUMBERS)
    assert row_packing([code]) is None
    kept = zero_rows(4, code.width)
    assert isinstance(kept, np.ndarray)
    assert kept.dtype == np.float32
    assert kept.nbytes == 4 * row_bytes(code.width, None)


def test_agents_that_see_different_things_share_rows():
    """A column is a byte only where it is one for both; a narrower row ends in zeros."""
    mixed, eye = row_code(spaces.Tuple((NUMBERS, GREY))), row_code(GREY)
    packing = row_packing([mixed, eye])
    assert packing.width == mixed.width == 95
    assert packing.size == 4 * 5 + 90
    rows = np.zeros((2, 95), np.float32)
    mixed.write((np.full(5, -1.5, np.float32), np.full((9, 10), 200, np.uint8)), rows[0])
    eye.write(np.full((9, 10), 77, np.uint8), rows[1, :90])
    kept = zero_rows(2, 95, packing)
    kept[:] = rows
    assert (kept[:] == rows).all()
    narrow = kept.first(90)
    assert narrow.shape == (2, 90)
    assert (narrow[:] == rows[:, :90]).all()
    assert (PackedTensor(narrow, torch.device("cpu"))[torch.arange(2)].numpy() == rows[:, :90]).all()
    both = packing.repeated(2)
    joined = np.concatenate((rows, rows[::-1]), axis=1)
    assert both.width == 190
    assert (both.unpack(both.pack(joined)) == joined).all()


@pytest.mark.parametrize("shown", [np.int64(3), np.float64(250.0)])
def test_whole_numbers_of_another_type_are_pixels(shown):
    code, out = row_code(GREY), np.zeros(90, np.float32)
    code.write(np.full((9, 10), shown), out)
    assert (out == np.float32(shown) / np.float32(255)).all()


@pytest.mark.parametrize("shown", [0.5, -1.0, 256.0, np.nan])
def test_what_is_not_a_byte_is_refused(shown):
    """Packing would make other numbers of it without a word."""
    code, out = row_code(GREY), np.zeros(90, np.float32)
    with pytest.raises(MosaicError, match=r"uint8 from 0 to 255, and it showed float64 from .* Make it return uint8"):
        code.write(np.full((9, 10), shown), out)
