"""Names shared by the processes of a user: sockets and names that are held, in both forms."""

import errno
import os
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from mosaic.core.errors import MosaicError
from mosaic.envs.godot import names

AMPLE_S = 60.0


@pytest.fixture(params=[False, True], ids=["here", "portable"], autouse=True)
def form(request, monkeypatch, tmp_path):
    if request.param:
        monkeypatch.setattr(names, "PORTABLE", True)
        monkeypatch.setattr(names, "_TEMPORARY", tmp_path)
    return request.param


@pytest.fixture
def name():
    return f"test-{os.getpid()}"


def end_by_force(code, name):
    """Run code in a process that prints a line and is killed."""
    start = (
        "import sys; from pathlib import Path; from mosaic.envs.godot import names;"
        "names.PORTABLE = bool(int(sys.argv[2])); names._TEMPORARY = Path(sys.argv[3]);"
    )
    command = [sys.executable, "-c", f"{start}{code}; print('ready', flush=True); input()", name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*command, str(int(names.PORTABLE)), str(names._TEMPORARY)], **pipes) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
        finally:
            process.kill()


def test_one_process_listens_under_a_name(name):
    assert names.connect_local(name, AMPLE_S) is None
    with closing(names.LocalListener(name)) as listener:
        with closing(names.connect_local(name, AMPLE_S)) as asking, closing(listener.accept()) as asked:
            assert names.is_same_user(asked)
            asking.sendall(b"hello")
            assert asked.recv(10) == b"hello"
        with pytest.raises(OSError, match="in use") as error:
            names.LocalListener(name)
        assert error.value.errno == errno.EADDRINUSE
        with closing(names.connect_local(name, AMPLE_S)) as asking:  # the failed one has not taken the name away
            assert asking is not None
    assert names.connect_local(name, AMPLE_S) is None


def test_a_waiting_listener_is_stopped_from_another_thread(name):
    listener, said = names.LocalListener(name), []
    thread = threading.Thread(target=lambda: said.append(listener.accept()))
    thread.start()
    listener.stop()
    thread.join(AMPLE_S)
    listener.close()
    assert said == [None]


def test_a_killed_listener_leaves_its_name_free(name):
    end_by_force("listener = names.LocalListener(sys.argv[1])", name)
    assert names.connect_local(name, AMPLE_S) is None
    names.LocalListener(name).close()


def test_a_name_is_held_once(name):
    held = names.hold_name(name)
    assert names.hold_name(name) is None
    names.release_name(name)
    os.close(held)
    end_by_force("held = names.hold_name(sys.argv[1]); assert held is not None", name)
    held = names.hold_name(name)
    assert held is not None
    names.release_name(name)
    os.close(held)


def test_a_file_that_was_removed_holds_no_name(name, form, monkeypatch):
    """A second process opens the file, and the first one removes it before the second has locked it."""
    if not form:
        pytest.skip("only the portable form has files")
    first, lock = names.hold_name(name), names.fcntl.flock

    def remove_first(descriptor, operation):
        monkeypatch.setattr(names.fcntl, "flock", lock)
        names.release_name(name)
        os.close(first)
        lock(descriptor, operation)

    monkeypatch.setattr(names.fcntl, "flock", remove_first)
    second = names.hold_name(name)
    assert names.hold_name(name) is None
    names.release_name(name)
    os.close(second)


def test_a_folder_that_others_can_enter_is_refused(name, form, tmp_path):
    if not form:
        pytest.skip("only the portable form has files")
    (tmp_path / f"mosaic-{os.getuid()}").mkdir(mode=0o755)
    with pytest.raises(MosaicError, match=r"mosaic-\d+ is not a folder that only you can enter. Remove it"):
        names.LocalListener(name)
