"""Thread count of the BLAS library that compiled code uses for matrix products.

numba multiplies with scipy's OpenBLAS. Its threads wait by spinning: minibatches are too small to gain from them, and
on a busy machine they cost many times the product itself. The environment variable OPENBLAS_NUM_THREADS does the same
if it is set before scipy is imported; the functions here work at any time.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import scipy.linalg.cython_blas  # loads the same library that numba will find

from mosaic.core.errors import MosaicError


def set_product_threads(threads: int) -> None:
    _library().scipy_openblas_set_num_threads(ctypes.c_int(threads))


def product_threads() -> int:
    return int(_library().scipy_openblas_get_num_threads())


@cache
def _library() -> Any:
    folder = Path(scipy.__file__).parent.parent / "scipy.libs"
    found = sorted(folder.glob("libscipy_openblas*"))
    if not found:
        raise MosaicError(f"scipy has no bundled OpenBLAS in {folder}: set OPENBLAS_NUM_THREADS=1 instead.")
    return ctypes.CDLL(str(found[0]))
