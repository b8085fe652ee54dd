"""Code that ends the process is an error that names it, not a silent success."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.core.user_code import ProcessExitError, exits_refused

POLICY = """
import os, sys
def act(observation, mask):
    {call}
"""


@pytest.mark.parametrize("call", ["sys.exit()", "sys.exit(0)", "os._exit(0)", "raise SystemExit"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_policy_that_exits_fails_the_evaluation(mosaic, tmp_path: Path, call: str, as_json: bool) -> None:
    name = f"quitter{abs(hash(call))}"
    (tmp_path / f"{name}.py").write_text(POLICY.format(call=call))
    flags = ("--json",) if as_json else ()
    answer = mosaic("evaluate", "classic/tictactoe_v3", "--agent", f"*=python:{name}:act", "--episodes", "2", *flags)
    said = " ".join(answer.err.split())
    assert answer.code == 1
    assert answer.out == ""
    assert f"policy 'python:{name}:act'" in said
    assert "tried to end the process" in said


@pytest.mark.parametrize("call", ["sys.exit(0)", "os._exit(0)"])
def test_a_policy_that_exits_fails_an_evaluation_from_python(tmp_path: Path, call: str) -> None:
    (tmp_path / "quits_in_python.py").write_text(POLICY.format(call=call))
    program = "import mosaic; mosaic.evaluate('classic/tictactoe_v3', {'*': 'python:quits_in_python:act'}, episodes=1)"
    argv = [sys.executable, "-c", program]
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "to end the process with" in ended.stderr
    assert call in ended.stderr


def test_a_module_that_exits_is_named(mosaic, tmp_path: Path) -> None:
    (tmp_path / "exiting_module.py").write_text("import sys; sys.exit(0)")
    answer = mosaic("check", "python:exiting_module:make")
    assert answer.code == 2
    assert "importing exiting_module failed: SystemExit: 0" in " ".join(answer.err.split())


def test_the_process_of_the_command_itself_survives(tmp_path: Path) -> None:
    (tmp_path / "quits.py").write_text(POLICY.format(call="os._exit(0)"))
    argv = [sys.executable, "-m", "mosaic", "play", "classic/tictactoe_v3", "--agent", "*=python:quits:act"]
    environment = {**os.environ, "MOSAIC_HOME": str(tmp_path / "home")}
    ended = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "os._exit(0)" in ended.stderr


def test_blocks_nest_and_everything_is_as_before_afterwards() -> None:
    before = os._exit
    with (  # noqa: PT012
        pytest.raises(ProcessExitError, match=r"^Outer tried to end the process with sys.exit\(3\)\.$"),
        exits_refused("Outer"),
    ):
        with exits_refused("Inner"):
            pass
        with pytest.raises(ProcessExitError, match=r"os\._exit\(4\)"):
            os._exit(4)
        sys.exit(3)
    assert os._exit is before


def test_forked_children_may_exit() -> None:
    with exits_refused():
        child = multiprocessing.get_context("fork").Process(target=int)
        child.start()
        child.join()
    assert child.exitcode == 0


def test_other_threads_may_exit() -> None:
    """One of ours ends a process whose parent has died, whatever its main thread is doing."""
    code = (
        "import os, threading; from mosaic.core.user_code import exits_refused\n"
        "with exits_refused():\n"
        "    threading.Thread(target=lambda: os._exit(7)).start()\n"
        "    threading.Event().wait(60)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7
