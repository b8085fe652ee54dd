"""Picture and files of the tests of one frame ring."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mosaic.telemetry.frames.paths import ring_paths, unfinished

GREY = np.arange(12, dtype=np.uint8).reshape(3, 4)


def files(folder: Path) -> list[Path]:
    return [each for path in ring_paths(folder) for each in (path, unfinished(path)) if each.exists()]
