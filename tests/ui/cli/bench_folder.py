"""Folder of small programs in the place of benchmarks/."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.ui.cli.bench import packages
from mosaic.ui.cli.commands import bench as command

FIGURES = Path(command.__file__).parents[5] / "benchmarks" / "figures.py"
PROGRAM = '''"""Speed of counting.

More about it.
"""
import sys
from figures import Goal, note_failure, note_figure, note_ratio, note_skipped

def main():
    print("counting", *sys.argv[1:])
    note_ratio("counting", "steps/s", [200, 220, 180], [100, 100, 100], "abacus", Goal("at least", GOAL))
    note_figure("a start", "s", [0.25], Goal("at most", 1))
    FAILURE

"--quick"
main()
'''


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "figures.py").write_bytes(FIGURES.read_bytes())
    (folder / "good.py").write_text(program())
    (folder / "slow.py").write_text(program("3"))
    (folder / "broken.py").write_text(program(does="sys.exit('no abacus')"))
    monkeypatch.setattr(command, "_folder", lambda: folder)
    monkeypatch.setattr(command, "_used_percent", lambda: 80.0)
    monkeypatch.setattr(packages, "missing", lambda root: [])
    monkeypatch.setattr(packages, "names", lambda root: ["pytest"])
    monkeypatch.chdir(tmp_path)
    return folder


def program(goal="1.5", does=""):
    return PROGRAM.replace("GOAL", goal).replace("FAILURE", does)
