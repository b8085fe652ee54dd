"""Command line of a process that runs one of Mosaic's modules.

Python puts the working folder in front of `sys.path` for `-m`: without `-P`, a file there named `mosaic.py` or
`random.py` would replace the module of that name.
"""

from __future__ import annotations

import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of Mosaic's in a process of its own."""
    return [sys.executable, "-P", "-m", module, *arguments]
