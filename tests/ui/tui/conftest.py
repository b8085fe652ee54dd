"""Keys and home of the terminal app's tests: the app is idle when its own thread is, and remembers no folders."""

import time

import pytest


@pytest.fixture(autouse=True)
def idle_when_its_thread_is(monkeypatch):
    """Let Textual look at the thread of the app only.

    After every key it waits until the process is idle, up to two seconds: beside threads that other tests have left
    (Ray's, a server's), that is each time.
    """
    monkeypatch.setattr("textual._wait.process_time", time.thread_time)


@pytest.fixture(autouse=True)
def no_remembered_folders(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path_factory.mktemp("home")))
