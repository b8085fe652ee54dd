"""Who is alive, and what a run says of itself."""

import os
import subprocess
import sys

import pytest

from mosaic.store.errors import DamagedError, StorageError
from mosaic.store.lock import RunLock, held
from mosaic.store.staging import discard
from mosaic.store.state import LIVE, State, read_state, read_written_state
from tests.store.store_cases import set_state

HOLDER = (
    "import sys; from pathlib import Path; from mosaic.store.run_folder import RunFolder; "
    "from mosaic.store.lock import RunLock\n"
    "lock = RunLock(RunFolder(Path(sys.argv[1]))); print(lock.try_acquire(), flush=True); sys.stdin.read()"
)


@pytest.fixture
def holder(run):
    """Another process that holds the run's lock."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(run.path)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


def test_looking_at_a_lock_takes_nothing_from_anybody(run):
    assert not held(run)
    with RunLock(run) as lock:
        assert lock.try_acquire()
        assert lock.try_acquire()
        assert held(run)
        assert held(run)
        assert not RunLock(run).try_acquire()
        assert held(run)
    assert not held(run)
    assert RunLock(run).try_acquire()


def test_a_lock_that_cannot_be_opened_is_named(run):
    run.lock.unlink(missing_ok=True)
    run.lock.mkdir()
    with pytest.raises(StorageError, match=r"lock' could not be opened: Is a directory\."):
        RunLock(run).try_acquire()


def test_the_kernel_drops_the_lock_of_a_killed_process(run, holder):
    set_state(run, State.RUNNING)
    assert held(run)
    assert not RunLock(run).try_acquire()
    assert read_state(run).state is State.RUNNING
    holder.kill()
    holder.wait()
    assert not held(run)
    assert read_state(run).state is State.LOST
    assert read_written_state(run).state is State.RUNNING


def test_a_started_program_does_not_inherit_the_lock(run):
    lock = RunLock(run)
    assert lock.try_acquire()
    program = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as child:
        child.stdout.readline()
        lock.release()
        assert not held(run)
        child.communicate()


def test_a_lock_on_a_deleted_run_is_not_given(run):
    discard(run)
    assert not RunLock(run).try_acquire()
    assert not run.path.exists()


def test_a_lock_opened_before_the_deletion_is_not_given(run, monkeypatch):
    really_open = os.open

    def open_then_delete(path, *rest):
        descriptor = really_open(path, *rest)
        monkeypatch.undo()
        discard(run)
        return descriptor

    monkeypatch.setattr(os, "open", open_then_delete)
    assert not RunLock(run).try_acquire()


@pytest.mark.parametrize("state", list(State))
def test_only_living_states_need_the_lock(run, state):
    set_state(run, state)
    assert read_state(run).state is (State.LOST if state in LIVE else state)
    with RunLock(run) as lock:
        lock.try_acquire()
        assert read_state(run).state is state


def test_a_run_that_ends_while_it_is_looked_at_is_not_lost(run, monkeypatch):
    """The supervisor writes `finished` and lets go between our look at the state and our look at the lock."""
    set_state(run, State.RUNNING)

    def ends_now(folder):
        set_state(folder, State.FINISHED)
        return False

    monkeypatch.setattr("mosaic.store.state.held", ends_now)
    assert read_state(run).state is State.FINISHED


def test_a_damaged_state_is_named(run):
    run.state.write_text('{"version": 1, "run_id"')
    with pytest.raises(DamagedError, match=r"state\.json' is damaged: Invalid JSON"):
        read_state(run)
    run.state.write_text(run.config.read_text())
    with pytest.raises(DamagedError, match=r"state\.json' is damaged: "):
        read_state(run)
    run.state.unlink()
    with pytest.raises(DamagedError, match=r"There is no run in '.*': it has no state\.json\."):
        read_state(run)
