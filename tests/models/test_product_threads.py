"""Threads of matrix products, and the library that they belong to."""

import ctypes

import pytest

from mosaic.models import dense
from mosaic.models.dense import bundled_openblas, product_threads, set_product_threads


def test_threads_are_as_many_as_asked_for():
    before = product_threads()
    if before is None:
        pytest.skip("this scipy brings no OpenBLAS with it")
    try:
        for threads in (2, 1):
            set_product_threads(threads)
            assert product_threads() == threads
    finally:
        set_product_threads(before)


@pytest.mark.parametrize("folder", ["scipy.libs", "scipy/.dylibs"])  # wheels for Linux and for macOS
def test_the_library_of_a_wheel_is_found(tmp_path, monkeypatch, folder):
    library = tmp_path / folder / "libscipy_openblas.so"
    library.parent.mkdir(parents=True)
    library.touch()

    class Library:
        scipy_openblas_set_num_threads = print

        def __init__(self, path):
            self.path = path

    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert bundled_openblas(tmp_path / "scipy").path == str(library)


def test_without_one_the_threads_are_left_as_they_are(tmp_path, monkeypatch):
    assert bundled_openblas(tmp_path) is None
    monkeypatch.setattr(dense, "_blas", lambda: None)
    set_product_threads(1)
    assert product_threads() is None
