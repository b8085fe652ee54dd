"""The examples, each in a short form."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from examples import demonstrations, league, mpi_tables, self_play, stockfish, team

import mosaic
from tests.docs.not_executed import NOT_EXECUTED
from tests.docs.pages import PAGES, ROOT, commands
from tests.docs.test_commands import parse

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))


@pytest.mark.slow
def test_self_play(runs_here):
    assert set(self_play.main(steps=4_000, episodes=4)) == {"random", "minimax"}


@pytest.mark.slow
def test_league(runs_here):
    ratings = league.main(steps=4_000, games=1)
    assert len(ratings) == 3


@pytest.mark.slow
def test_team(runs_here, capsys):
    returns = team.main("random", steps=4_000, max_steps=5)
    assert sorted(returns) == ["adversary_0", "adversary_1", "adversary_2", "agent_0"]
    printed = capsys.readouterr().out
    (command,) = (line.partition(": ")[2] for line in printed.splitlines() if line.startswith("with pictures: mosaic"))
    parse(command)
    assert "--agent 'adversary_0=random' --agent 'adversary_*=run:" in command


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("stockfish") or os.path.exists("/usr/games/stockfish")), reason="needs Stockfish")
def test_stockfish(runs_here):
    ratings = stockfish.main(steps=64, games=1, max_steps=10)
    assert len(ratings) == 3


@pytest.mark.slow
def test_demonstrations():
    assert 0 < demonstrations.main(episodes=60) <= 1
    assert len({*mosaic.load_demo("demo:expert", agents=["player_1"]).trajectory}) == 60


@pytest.mark.slow
def test_mpi_tables():
    assert mpi_tables.main(steps=200_000) > -200


@pytest.mark.slow
def test_ray_cluster(ray_free_environment):
    from examples.ray_cluster import train_on, two_nodes

    with two_nodes() as address:
        run = train_on(address, steps=400)
    assert run.state == "finished"
    resources = json.loads(run.folder.config.read_text())["resources"]
    assert (resources["num_env_runners"], resources["ray_address"]) == (2, address)


@pytest.fixture
def ray_free_environment(monkeypatch):
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")  # restored afterwards
        monkeypatch.delenv(name)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks(path, runs_here):
    """Every cell runs, one after the other, with fewer steps."""
    names = {"__name__": "__main__"}  # as a kernel has it
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 4
    for cell in cells:
        source = "".join(cell["source"]).replace("200_000", "20_000").replace("STEPS = 50_000", "STEPS = 4_000")
        exec(compile(source, path.name, "exec"), names)


def test_every_program_has_a_test():
    """A file of examples/ that can be started is run here; those of its folders are run where the folder is tested."""
    text = Path(__file__).read_text()
    programs = [path.stem for path in (ROOT / "examples").glob("*.py") if "__main__" in path.read_text()]
    assert {"demonstrations", "self_play", "ray_cluster"} <= set(programs)
    called = {name for name in programs if f"{name}.main(" in text or f"from examples.{name} import" in text}
    assert [name for name in programs if name not in called or f"def test_{name}(" not in text] == []


def test_every_script_is_run_by_a_job_of_ci():
    """By `make test-docs`, in a test or as a command of a page; `make test` runs the language model."""
    target = (ROOT / "Makefile").read_text().partition("\ntest-docs:")[2].partition("\n\n")[0]
    files = [*re.findall(r"tests/[\w/]+\.py", target), "tests/docs/page_kit.py", "tests/policies/llm/test_llm_model.py"]
    text = "".join((ROOT / name).read_text() for name in files) + "".join(
        line for page in PAGES for line in commands(page) if line not in NOT_EXECUTED
    )
    scripts = [path for path in (ROOT / "examples" / "scripts").iterdir() if path.suffix in {".py", ".sh"}]
    assert [path.name for path in scripts if path.name != "__init__.py" and path.stem not in text] == []


def test_every_example_is_in_the_documentation():
    text = (ROOT / "docs" / "examples.md").read_text()
    files = {
        path.relative_to(ROOT / "examples")
        for path in (ROOT / "examples").rglob("*")
        if path.suffix in {".py", ".sh", ".mjs", ".ipynb"}
    }
    folders = {"plugin", "project", "godot"}  # of several files, named once each
    assert [name for name in folders if f"(../examples/{name}/" not in text] == []
    missing = [
        str(path)
        for path in files
        if path.name != "__init__.py" and path.parts[0] not in folders and f"{path})" not in text
    ]
    assert missing == []
