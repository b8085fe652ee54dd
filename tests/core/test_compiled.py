"""Machine code never outlives the source it was made from."""

from pathlib import Path

import numba

from mosaic.core import compiled
from mosaic.core.compiled import cache_folder, fingerprint, njit

MARKED = "from mosaic.core.compiled import njit\n"


def test_a_change_in_any_compiled_file_is_a_new_cache(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(MARKED)
    (tmp_path / "other.py").write_text("x = 1\n")
    before = fingerprint(tmp_path)
    (tmp_path / "other.py").write_text("x = 2\n")
    assert fingerprint(tmp_path) == before  # code that is not compiled does not count
    (tmp_path / "b.py").write_text(MARKED + "y = 1\n")
    assert fingerprint(tmp_path) != before


def test_ours_is_cached_there_and_others_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)
    setting = numba.config.CACHE_DIR

    @njit(cache=True)
    def one(x):
        return x + 1

    assert one(1) == 2
    assert setting == numba.config.CACHE_DIR
    assert list(tmp_path.rglob("*.nbc"))


def test_every_compiled_file_uses_it():
    sources = Path(compiled.__file__).parent.parent
    bare = [
        p for p in sources.rglob("*.py") if "from numba import njit" in p.read_text() or "numba.njit(" in p.read_text()
    ]
    assert bare == [Path(compiled.__file__)]
    assert cache_folder().name.startswith("compiled-")
