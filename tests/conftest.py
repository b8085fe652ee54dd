"""Signals as a terminal gives them, and the distribution of the tests over worker processes."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

# A shell that runs the tests in the background lets them ignore Ctrl-C, and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What is slow to start (a browser, Ray, a server, compiled code) is started by one worker process only, and once.
GROUPS = {
    "browser": ["ui/web"],
    "ray": ["runs/test_search_ray.py", "runtimes/ray", "workers/rllib"],
    "guard": ["server/auth/test_guard.py"],
    "openapi": ["server/test_openapi.py"],
    "kill": ["runs/test_kill.py"],
    "compiled": ["envs/compiled"],  # numba would compile the same functions in every process
    "tabular": ["learners/tabular"],
}
HERE = Path(__file__).parent
SLOW_FIXTURES = {"chromium", "ray"}  # tests that use them run in `make test`, not in `make check`
NO_BYTECODE = sys.dont_write_bytecode


@pytest.fixture
def runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run that the test starts train to its end in the test's own process."""
    from tests.in_process import attempt_here

    monkeypatch.setattr("mosaic.runs.run.start_attempt", attempt_here)


def pytest_collectstart() -> None:
    """Keep what pytest makes of the test files for the next time: PettingZoo's knights_archers_zombies forbids it."""
    sys.dont_write_bytecode = NO_BYTECODE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    groups = {HERE / place: name for name, places in GROUPS.items() for place in places}
    grouped = set()
    for item in items:
        for place in (item.path, *item.path.parents):
            if place in groups:
                item.add_marker(pytest.mark.xdist_group(groups[place]))
                grouped.add(item)
        if SLOW_FIXTURES & set(item.fixturenames) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.chosen)
    if hasattr(config, "workerinput"):  # long tests first: at the end no worker waits for another's
        items.sort(key=lambda item: item in grouped or item.get_closest_marker("slow") is None)
