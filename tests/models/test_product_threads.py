"""Threads of matrix products."""

from mosaic.models.dense import product_threads, set_product_threads


def test_threads_are_as_many_as_asked_for():
    before = product_threads()
    try:
        for threads in (2, 1):
            set_product_threads(threads)
            assert product_threads() == threads
    finally:
        set_product_threads(before)
