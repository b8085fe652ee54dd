"""Processes that play games leave with the one that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SCRIPT = """
from mosaic.config.sections import EnvironmentConfig
from mosaic.evaluation.evaluate import evaluate

if __name__ == "__main__":
    options = {"failure": "endless and loud"}
    env = EnvironmentConfig(env_id="python:tests.evaluation.evaluation_toys:Line", options=options)
    evaluate(env, {"*": "random"}, episodes=2, num_env_runners=2, max_steps=10**9)
"""


@contextmanager
def playing(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Two processes in the middle of endless episodes. Their output ends when the last of them has ended."""
    path = folder / "script.py"
    path.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["playing\n"] * 2
        yield process
    finally:
        with suppress(ProcessLookupError):  # all gone, as it should be
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with playing(tmp_path) as process:
        process.kill()
        process.communicate(timeout=60)  # waits for the workers too: they hold the other end
        assert process.returncode == -signal.SIGKILL


def test_ctrl_c_ends_everything_and_is_told_once(tmp_path: Path) -> None:
    with playing(tmp_path) as process:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody gets it
        _, errors = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT
        assert errors.count("Traceback") == 1
        assert errors.rstrip().endswith("KeyboardInterrupt")


UNGUARDED = """
import mosaic

class Anyone:
    def key_of(self, agent, episode=0):
        return mosaic.PolicyMapping.of({{"*": "random"}}).key_of(agent)

    def check(self, agents):
        pass

print("from the top", flush=True)
result = mosaic.evaluate("mosaic/gridworld", {mapping}, episodes=4, num_env_runners=2, max_steps=5)
print(len(result.episode_results), "episodes")
"""


def run_unguarded(folder: Path, mapping: str) -> subprocess.CompletedProcess[str]:
    path = folder / "unguarded.py"
    path.write_text(UNGUARDED.format(mapping=mapping))
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)


def test_a_script_without_a_check_of_its_name_may_use_several_processes(tmp_path: Path) -> None:
    """As may one that holds the lines of README.md and nothing else."""
    done = run_unguarded(tmp_path, '{"*": "random"}')
    assert (done.stdout, done.stderr, done.returncode) == ("from the top\n4 episodes\n", "", 0)


def test_a_script_whose_own_class_goes_to_other_processes_runs_there_too(tmp_path: Path) -> None:
    done = run_unguarded(tmp_path, "Anyone()")
    assert done.returncode == 1
    assert done.stdout.count("from the top") > 1
    assert "call Mosaic below `if __name__ == '__main__':`" in done.stderr
