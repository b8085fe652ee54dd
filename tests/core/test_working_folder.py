"""Files in the working folder never replace modules of Mosaic's or Python's in the processes that Mosaic starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from mosaic.core.child_process import ChildProcess, module_command
from mosaic.server.evaluations.job import EvaluationJob
from mosaic.server.evaluations.request import EvaluationRequest

SOURCES = Path(__file__).parents[2] / "src" / "mosaic"


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Enters a folder whose modules of these names fail when they are imported."""
    monkeypatch.chdir(tmp_path)

    def make(*names: str) -> None:
        for name in names:
            (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the working folder was imported')")

    return make


def test_modules_are_run_without_the_working_folder(hostile: Callable[..., None]) -> None:
    hostile("mosaic", "json")
    ended = subprocess.run(module_command("mosaic", "--help"), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_no_other_code_writes_such_a_command_itself() -> None:
    writers = [path for path in SOURCES.rglob("*.py") if '"-m"' in path.read_text()]
    assert [path.name for path in writers] == ["child_process.py"]


def test_no_other_code_starts_spawned_processes_itself() -> None:
    starters = [path for path in SOURCES.rglob("*.py") if "get_context(" in path.read_text()]
    assert starters == []


def test_an_evaluation_of_the_server_ignores_the_working_folder(hostile: Callable[..., None], tmp_path: Path) -> None:
    hostile("mosaic", "json")
    asked = EvaluationRequest.model_validate(
        {"environment": {"env_id": "gym/CartPole-v1"}, "agents": {"*": "random"}, "episodes": 1}
    )
    folder = tmp_path / "examination"
    folder.mkdir()
    examination = EvaluationJob("e1", "evaluate", asked, folder, tmp_path / "home", lambda: None)
    examination.start()
    examination.join(60)
    row = examination.row()
    assert row.state == "finished", f"{row.error} {(folder / 'log.txt').read_text()}"


def _tell(connection: Connection) -> None:
    connection.send({"safe_path": os.environ.get("PYTHONSAFEPATH"), "path": sys.path})
    connection.close()


def test_spawned_processes_ignore_the_working_folder(hostile: Callable[..., None], tmp_path: Path) -> None:
    """In a program of its own: `multiprocessing` keeps its helper process, once started."""
    hostile("multiprocessing", "struct")
    program = (
        f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
        "import json\nfrom test_working_folder import heard\n"
        "if __name__ == '__main__':\n    print(json.dumps(heard()))\n"
    )
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "start.py"  # elsewhere: Python puts a script's own folder on the path
    script.write_text(program)
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["safe_path"] is None, "programs that it starts are the user's"


def heard() -> dict[str, object]:
    ours, theirs = Pipe()
    process = ChildProcess(target=_tell, args=(theirs,))
    process.start()
    theirs.close()
    try:
        message: dict[str, object] = ours.recv()
    finally:
        process.join()
    assert "PYTHONSAFEPATH" not in os.environ
    return message
