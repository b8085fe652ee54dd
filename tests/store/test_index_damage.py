"""A damaged, read-only or missing index heals itself, and never tells anything but what the folders say."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaic.store.index import database
from mosaic.store.index.index import Index
from mosaic.store.state import State
from mosaic.store.store import Store
from tests.store.store_cases import config, set_state

ENDS = (State.QUEUED, State.FINISHED, State.FAILED)


def fill(store: Store, runs: int = 25):
    """Several pages of rows, with text that is not ASCII."""
    for number in range(runs):
        run = store.create(config(run_id=f"run-{number}", name=f"größe-{number}", tags=["ü"]), now=float(number))
        set_state(run, ENDS[number % 3])
    return store.index.list()


def put(path: Path, data: bytes) -> None:
    for name in (f"{path}-wal", f"{path}-shm"):
        Path(name).unlink(missing_ok=True)
    path.write_bytes(data)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("filled") / "home")
    return store, fill(store), (store.home / "index.sqlite").read_bytes()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4))
def test_any_changed_bytes_are_noticed_or_do_no_harm(filled, changes):
    store, truth, good = filled
    data = bytearray(good)
    for where, value in changes:
        data[int(where * len(data))] = value
    put(store.home / "index.sqlite", bytes(data))
    index = Index(store.home)
    assert index.list() == truth
    assert not [note for note in index.notes if "rebuilt from" not in note]
    healed = Index(store.home)
    assert healed.list() == truth
    assert healed.notes == []


def test_every_single_bad_byte_of_the_text_is_noticed(filled):
    """One byte of one name: SQLite finds nothing wrong with it."""
    store, truth, good = filled
    for offset in (good.index(b"run-7"), good.index("größe-7".encode()), good.index(b"finished"), good.index(b"toy")):
        for value in (0xFF, ord("x")):
            put(store.home / "index.sqlite", good[:offset] + bytes([value]) + good[offset + 1 :])
            index = Index(store.home)
            assert index.list() == truth
            assert index.notes, f"offset {offset}, value {value}"


def test_a_read_only_index_file_is_replaced(store, run, monkeypatch):
    """As file permissions do it: the first file can be read only. (The tests may run as root, which no mode stops.)"""
    path, connect = store.home / "index.sqlite", sqlite3.connect
    before = store.index.list()
    read_only = path.stat().st_ino

    def connect_as_permitted(target, *arguments, **options):
        if path.exists() and path.stat().st_ino == read_only:
            target = str(target).replace("mode=rw", "mode=ro")
        return connect(target, *arguments, **options)

    monkeypatch.setattr(database.sqlite3, "connect", connect_as_permitted)
    assert Index(store.home).list() == before  # reading needs no permission to write
    set_state(run, State.FINISHED)
    index = Index(store.home)
    assert [each.state for each in index.list()] == [State.FINISHED]
    assert index.notes == [
        "The index of runs was unusable (attempt to write a readonly database); it was rebuilt from the run folders."
    ]
    assert path.stat().st_ino != read_only
    healed = Index(store.home)
    assert [each.state for each in healed.list()] == [State.FINISHED]
    assert healed.notes == []


def test_a_file_without_permissions_is_replaced(store, run, monkeypatch):
    path, connect = store.home / "index.sqlite", sqlite3.connect
    before = store.index.list()
    forbidden = path.stat().st_ino

    def connect_as_permitted(target, *arguments, **options):
        if "mode=rw" in str(target) and path.stat().st_ino == forbidden:
            target = f"{(store.home / 'missing' / 'index').as_uri()}?mode=rw"  # cannot be opened either
        return connect(target, *arguments, **options)

    monkeypatch.setattr(database.sqlite3, "connect", connect_as_permitted)
    index = Index(store.home)
    assert index.list() == before
    assert [note.partition(" (")[0] for note in index.notes] == ["The index of runs was unusable"]


def test_a_busy_index_is_not_replaced(store, run, monkeypatch):
    before = store.index.list()
    monkeypatch.setattr(database, "_PATIENCE_S", 0.01)
    node = (store.home / "index.sqlite").stat().st_ino
    other = sqlite3.connect(store.home / "index.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    set_state(run, State.FINISHED)
    index = Index(store.home)
    assert [each.state for each in index.list()] == [State.FINISHED]
    assert ["database is locked" in note for note in index.notes] == [True]
    other.close()
    assert (store.home / "index.sqlite").stat().st_ino == node
    assert len(before) == 1


CROWD = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.store.store_cases import config, set_state
from mosaic.store.store import Store
from mosaic.store.index.index import Index
from mosaic.store.state import State

store = Store(Path(sys.argv[1]))
for number in range(15):
    run = store.create(config(run_id=f"{sys.argv[3]}-{number}", name=f"größe-{number}"))
    assert {each.run_id: each.state for each in Index(store.home).list()}[run.run_id] is State.QUEUED
    set_state(run, State.FINISHED)
    store.index.refresh(run)
    mine = [each for each in Index(store.home).list() if each.run_id.startswith(sys.argv[3])]
    assert len(mine) == number + 1 and {each.state for each in mine} == {State.FINISHED}, mine
    assert {each.name for each in mine} == {f"größe-{n}" for n in range(number + 1)}, mine
"""


@pytest.mark.slow
@pytest.mark.chosen
def test_readers_and_writers_in_other_processes_survive_bytes_damaged_under_them(store):
    """Random bytes are overwritten in place, in the file that the others have open."""
    store.index.prepare()
    command = [sys.executable, "-c", CROWD, str(store.home), str(Path(__file__).parents[2])]
    crowd = [subprocess.Popen([*command, f"p{n}"], stderr=subprocess.PIPE, text=True) for n in range(3)]
    rng, damaged, pause = random.Random(13), 0, threading.Event()
    while any(process.poll() is None for process in crowd):
        try:
            with (store.home / "index.sqlite").open("r+b") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(rng.randrange(max(size, 1)))
                file.write(rng.randbytes(1))
                damaged += 1
        except FileNotFoundError:
            pass  # being replaced
        pause.wait(0.01)  # how often the file is damaged, not what the test waits for
    for process in crowd:
        _, said = process.communicate()
        assert process.returncode == 0, said
    assert damaged > 20
    index = Index(store.home)
    assert {each.run_id for each in index.list()} == {f"p{p}-{n}" for p in range(3) for n in range(15)}
    assert not [note for note in index.notes if "rebuilt from" not in note]
