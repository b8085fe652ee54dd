"""Folder of small programs in the place of benchmarks/, and small programs beside the modules of benchmarks/."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.ui.cli.bench import packages
from mosaic.ui.cli.commands import bench as command

FIGURES = Path(command.__file__).parents[5] / "benchmarks" / "figures.py"
HEAD = f"import sys; sys.path.insert(0, {str(FIGURES.parent)!r}); sys.argv = ['bench']\n"
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


@pytest.fixture
def ask(tmp_path):
    """Run a program beside the benchmarks' modules; return its end and the figures that it wrote down."""

    def run(text):
        found = tmp_path / "figures"
        environ = {**os.environ, "MOSAIC_BENCHMARK_FIGURES": str(found), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-c", HEAD + text], env=environ, capture_output=True, text=True, cwd=tmp_path
        )
        return done, [json.loads(line) for line in (found.read_text().splitlines() if found.exists() else ())]

    return run


def program(goal="1.5", does=""):
    return PROGRAM.replace("GOAL", goal).replace("FAILURE", does)
