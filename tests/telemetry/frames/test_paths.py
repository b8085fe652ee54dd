"""Where frame rings lie: unguessable names in private folders, removed with their writer."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.telemetry.frames import paths as fastlane_place
from mosaic.telemetry.frames.paths import make_ring_folder, remove_dead_rings, remove_ring, ring_paths


@pytest.fixture(autouse=True)
def shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    memory = tmp_path / "shm"
    memory.mkdir()
    monkeypatch.setattr(fastlane_place, "SHARED_MEMORY", memory)
    return memory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_the_place_is_private_found_again_and_different_each_time(folder: Path, shared_memory: Path) -> None:
    seen = set()
    for _ in range(3):
        place = make_ring_folder(folder)
        assert make_ring_folder(folder) == place == ring_paths(folder)
        private = place[0].parent
        assert private.parent == shared_memory
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        seen.add(private.name)
        remove_ring(folder)
        assert ring_paths(folder) == (folder / "frames.ring",)
        assert list(shared_memory.iterdir()) == list(folder.iterdir()) == []
    assert len(seen) == 3


@pytest.mark.parametrize("name", ["../run", "mosaic-" + "0" * 32, "mosaic-x", "", "\0"])
def test_a_name_that_is_not_ours_leads_nowhere(folder: Path, shared_memory: Path, name: str) -> None:
    """As an imported run might bring along: also a folder that others may enter, or a link."""
    (shared_memory / ("mosaic-" + "0" * 32)).mkdir(mode=0o755)
    (folder / ".frames").write_text(name)
    assert ring_paths(folder) == (folder / "frames.ring",)
    remove_ring(folder)
    assert (shared_memory / ("mosaic-" + "0" * 32)).exists()


def test_a_link_is_not_followed(folder: Path, shared_memory: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o700)
    name = "mosaic-" + "1" * 32
    (shared_memory / name).symlink_to(tmp_path / "target")
    (folder / ".frames").write_text(name)
    assert ring_paths(folder) == (folder / "frames.ring",)


def test_rings_of_dead_writers_are_removed_and_others_stay(folder: Path, shared_memory: Path, tmp_path: Path) -> None:
    mine = make_ring_folder(folder)[0].parent
    other = tmp_path / "other"
    other.mkdir()
    program = (
        "import sys; from pathlib import Path; from mosaic.telemetry.frames import paths as place; "
        "place.SHARED_MEMORY = Path(sys.argv[1]); place.make_ring_folder(Path(sys.argv[2]))[0].write_bytes(b'ring')"
    )
    subprocess.run([sys.executable, "-c", program, str(shared_memory), str(other)], check=True)
    assert len(list(shared_memory.iterdir())) == 2
    remove_dead_rings()
    assert list(shared_memory.iterdir()) == [mine]
    assert os.listdir(mine) == ["owner"]
    remove_ring(folder)
