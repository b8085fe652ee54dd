"""Wrapper that runs a command as on a CPU without AVX2 and AVX-512: NumPy, torch and numba use plain x86-64.

Usage: python scripts/generic-cpu.py COMMAND [ARGUMENT]...
"""

import os
import sys

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

disabled = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
generic = {
    "NPY_DISABLE_CPU_FEATURES": " ".join(disabled),
    "ATEN_CPU_CAPABILITY": "default",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "OPENBLAS_CORETYPE": "Prescott",
}
os.execvpe(sys.argv[1], sys.argv[1:], os.environ | generic)
