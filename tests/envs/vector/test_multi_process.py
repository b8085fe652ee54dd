"""Envs in processes of their own."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium import spaces

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvFacts
from mosaic.envs.vector import multi_process as process_vector
from mosaic.envs.vector.in_process import PythonVector
from mosaic.envs.vector.multi_process import EnvProcessError, ProcessVector
from mosaic.testing.toys import Alternating

NAMES = ("obs", "mask", "who", "active", "rew", "term", "trunc", "fin", "steps")


class Fragile(gymnasium.Env):
    """Action 1 raises, 2 kills the process, 3 has Ctrl-C pressed and never comes back."""

    observation_space = spaces.Box(0, 1, (2,))
    action_space = spaces.Discrete(4)
    render_mode = None

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if action == 1:
            raise EOFError("the pole broke")
        if action == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 3:
            os.kill(os.getppid(), signal.SIGINT)
            threading.Event().wait()
        return np.zeros(2, np.float32), 0.0, False, False, {}


def make_fragile():
    return GymnasiumEnv(Fragile(), EnvFacts(EnvironmentConfig(family="python", env_id="tests:Fragile")))


class Numbered:
    """Plays x by the number of its env and the episode's seed, and leaves a file when it is closed."""

    agents = ("x",)

    def __init__(self, folder):
        self.folder, self.seeds = folder, {}

    def plays(self, index):
        return self.agents

    def begin(self, index, seed):
        self.seeds[index] = seed

    def act(self, index, turn):
        return {"x": (self.seeds[index] + index) % 3}

    def close(self):
        Path(self.folder, f"closed-{os.getpid()}").touch()


class Telling(Alternating):
    """Pays o what x plays."""

    def step(self, actions):
        turn = super().step(actions)
        return turn if "o" in actions else turn._replace(rewards={"x": 0.0, "o": float(actions["x"])})


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    memory = Path("/dev/shm")
    before = set(memory.iterdir()) if memory.exists() else set()
    open_before = len(psutil.Process().open_files())
    yield
    gc.collect()
    assert multiprocessing.active_children() == []
    assert len(psutil.Process().open_files()) <= open_before  # what earlier tests left may be closed meanwhile
    new = set(memory.iterdir()) - before if memory.exists() else set()
    ours = {path for path in new if "mosaic" in path.name and path.is_file()}  # folders hold pictures of other runs
    assert ours == set()


def play_both(spread, local, seed=4, steps=60):
    random = np.random.default_rng(seed)
    shape = spread.shape
    assert shape == local.shape
    spread.reset(seed)
    local.reset(seed)
    paid = ended = 0
    for _ in range(steps):
        act = np.zeros((shape.slots, shape.parts), np.float32)
        for slot in range(shape.slots):
            size = shape.heads[local.who[slot]].sizes[0]
            act[slot, 0] = random.choice(np.flatnonzero(local.mask[slot]) if shape.masked else size)
        spread.step(act)
        local.step(act)
        for name in NAMES:
            np.testing.assert_array_equal(getattr(spread, name), getattr(local, name), err_msg=name)
        paid, ended = paid + np.abs(local.rew).sum(), ended + int(local.term.sum()) + int(local.trunc.sum())
    assert paid > 0
    assert ended > 0
    pictures = [spread.render(shape.envs - 1), local.render(shape.envs - 1)]
    np.testing.assert_array_equal(*pictures)
    spread.close()
    spread.close()
    local.close()


@pytest.mark.parametrize(
    "make",
    [
        partial(make_env, "gym/CartPole-v1", max_episode_steps=15),
        partial(make_env, "classic/tictactoe_v3"),
        partial(make_env, "mpe/simple_spread_v3", max_cycles=9),
    ],
    ids=["CartPole", "tictactoe", "simple_spread"],
)
def test_the_same_numbers_as_in_one_process(make):
    play_both(ProcessVector(make, 3, 2), PythonVector([make() for _ in range(3)]))


def test_others_play_in_the_processes_and_are_closed_there(tmp_path):
    others = partial(Numbered, str(tmp_path))
    play_both(ProcessVector(Telling, 3, 2, others), PythonVector([Telling() for _ in range(3)], others()))
    assert len(list(tmp_path.iterdir())) == 3


RAISED = (
    "An env failed in its own process: EOFError: the pole broke "
    "This came from python:tests:Fragile, env number 2 of the vector."
)
DIED = (
    "The process that stepped python:tests:Fragile (envs number 1 to 2 of the vector) ended with exit code -9 before "
    "it was done (a negative number is a signal). See its output above; in a script, call Mosaic below "
    "`if __name__ == '__main__':`."
)


@pytest.mark.parametrize(("action", "text"), [(1, RAISED), (2, DIED)], ids=["raises", "dies"])
def test_an_env_that_fails_ends_all_processes_and_says_which(action, text):
    vector = ProcessVector(make_fragile, 3, 2)
    vector.reset(0)
    vector.step(np.zeros((3, 1), np.float32))
    with pytest.raises(EnvProcessError) as raised:
        vector.step(np.array([[0], [0], [action]], np.float32))
    assert str(raised.value) == text
    if action == 1:
        assert 'raise EOFError("the pole broke")' in raised.value.__notes__[0]
    assert multiprocessing.active_children() == []
    with pytest.raises(RuntimeError, match=r"^This vector env is closed\.$"):
        vector.step(np.zeros((3, 1), np.float32))
    vector.close()


def test_ctrl_c_ends_a_process_that_is_stuck(monkeypatch):
    monkeypatch.setattr(process_vector, "_END_WITHIN_S", 0.1)
    vector = ProcessVector(make_fragile, 1, 1)
    vector.reset(0)
    with pytest.raises(KeyboardInterrupt):
        vector.step(np.array([[3]], np.float32))
    assert multiprocessing.active_children() == []


def test_ctrl_c_before_the_replies_are_awaited_ends_the_processes(monkeypatch):
    vector = ProcessVector(make_fragile, 2, 2)
    vector.reset(0)
    send = process_vector._send

    def send_and_interrupt(member, message):
        send(member, message)
        raise KeyboardInterrupt

    monkeypatch.setattr(process_vector, "_send", send_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        vector.step(np.zeros((2, 1), np.float32))
    assert multiprocessing.active_children() == []


def test_bad_input_stays_bad_input():
    with pytest.raises(InputError, match=r"^gym/CartPole-v1 does not take these options \{'wheels': 3\}"):
        ProcessVector(partial(make_env, "gym/CartPole-v1", wheels=3), 2, 2)
    with pytest.raises(InputError) as raised:
        ProcessVector(make_fragile, 2, 3)
    assert str(raised.value) == "2 envs cannot be shared by 3 processes: type a number from 1 to 2."


def test_a_vector_that_is_dropped_takes_its_processes_along():
    vector = ProcessVector(make_fragile, 2, 1)
    assert len(multiprocessing.active_children()) == 1
    with pytest.raises(IndexError, match=r"^There is no env number 2: the last is 1\.$"):
        vector.render(2)
    assert vector.render(1) is None
    del vector
    gc.collect()
    assert multiprocessing.active_children() == []


KILLED = """
import multiprocessing, os, signal
from mosaic.envs.vector.multi_process import ProcessVector
from mosaic.testing.toys import Alternating
if __name__ == "__main__":
    vector = ProcessVector(Alternating, 2, 2)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_end_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    answer = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True, check=False)
    assert answer.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in answer.stdout.split()]
    assert len(pids) == 2
    for pid in pids:
        if psutil.pid_exists(pid):
            psutil.Process(pid).wait(timeout=60)
