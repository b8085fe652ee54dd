"""Whole files, run ids, new runs."""

import os
import random
import re
import string
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.config.run import check_run_id
from mosaic.core.episode import Episode
from mosaic.core.errors import InputError
from mosaic.server.auth.token import ensure_token
from mosaic.server.play.registry import Matches
from mosaic.store.atomic import write_atomic, write_once
from mosaic.store.errors import StorageError
from mosaic.store.live_sessions import begin_session
from mosaic.store.run_folder import new_run_id
from mosaic.store.staging import staged, sweep
from mosaic.store.state import State, read_state
from mosaic.store.store import Store, home
from tests.store.store_cases import config


def test_a_file_is_replaced_and_nothing_else_stays(tmp_path):
    path = tmp_path / "a.json"
    write_atomic(path, "old")
    write_atomic(path, b"new", mode=0o600)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    program = (
        "import resource, sys; from pathlib import Path; from mosaic.store.atomic import write_atomic\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_atomic(Path(sys.argv[1]), b'x' * 5000)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert f"StorageError: '{path}' could not be written: File too large." in done.stderr
    assert os.listdir(tmp_path) == ["a.json"]
    assert path.read_text() == "old"


def test_writing_into_a_folder_that_is_not_there_says_so(tmp_path):
    with pytest.raises(StorageError, match=r"gone/a' could not be written: No such file or directory\."):
        write_atomic(tmp_path / "gone" / "a", "x")


def test_write_once_never_replaces(tmp_path):
    assert write_once(tmp_path / "key", b"first")
    assert not write_once(tmp_path / "key", b"second")
    assert (tmp_path / "key").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["key"]


def test_run_ids_are_readable_and_sort_by_time():
    chance = random.Random(1).randrange
    ids = [new_run_id("classic/tictactoe_v3", 1794752730.0 + second, chance) for second in (0, 1, 100, 1e6)]
    assert re.fullmatch(r"20261115-142530-tictactoe-[a-z0-9]{4}", ids[0])
    assert ids == sorted(ids)
    assert "-make-maze-" in new_run_id("python:my.module:make_maze", 0.0, chance)
    assert "-cartpole-" in new_run_id("gym/CartPole-v1", 0.0, chance)


@given(st.text(alphabet=string.printable + "äß/:._-", max_size=200), st.floats(0, 4e9))
def test_every_env_gives_a_safe_folder_name(env, now):
    assert check_run_id(new_run_id(env, now, random.Random(0).randrange))


def test_home_is_what_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "mine"))
    assert home() == tmp_path / "mine"
    monkeypatch.delenv("MOSAIC_HOME")
    assert home().name == "mosaic"


def test_a_new_run_is_queued_and_holds_exactly_what_was_asked(store):
    asked = config(name="nightly", tags=["a"], seed=7)
    folder = store.create(asked, group="g")
    assert folder.read_config() == asked
    state = read_state(folder)
    assert (state.state, state.run_id, state.group, state.attempts) == (State.QUEUED, folder.run_id, "g", ())
    assert folder.home == store.home
    assert os.listdir(store.runs) == [folder.run_id]


def test_a_given_run_id_is_used_once(store):
    assert store.create(config(run_id="mine")).run_id == "mine"
    with pytest.raises(InputError, match=r"^There is already a run 'mine'\. Choose another run_id, or leave it out\.$"):
        store.create(config(run_id="mine"))
    assert os.listdir(store.runs) == ["mine"]


def test_a_clash_of_made_ids_makes_another(store, monkeypatch):
    marks = iter([*[0] * 4, *[0] * 4, *[1] * 4])
    monkeypatch.setattr("mosaic.store.store.secrets.randbelow", lambda _: next(marks))
    ids = [store.create(config(), now=0.0).run_id for _ in range(2)]
    assert ids == ["19700101-000000-tictactoe-aaaa", "19700101-000000-tictactoe-bbbb"]
    assert read_state(store.folder(ids[1])).run_id == ids[1]


def test_ids_that_are_paths_are_refused(store):
    with pytest.raises(InputError, match=r"'\.\./x' is not a valid run id"):
        store.folder("../x")


def test_sweep_takes_what_the_dead_left_and_nothing_else(store, run):
    (store.runs / ".staged-dead").mkdir()
    (store.runs / ".trash-dead" / "deep").mkdir(parents=True)
    with staged(store.runs) as living:
        sweep(store.runs)
        assert set(os.listdir(store.runs)) == {run.run_id, living.folder.path.name}
    assert os.listdir(store.runs) == [run.run_id]


def test_making_a_store_writes_nothing(tmp_path):
    assert Store(tmp_path / "s").index.list() == []
    assert not (tmp_path / "s" / "runs").exists()


FIRST = {
    "run": lambda home: Store(home).create(config()),
    "list": lambda home: Store(home).index.list(),
    "token": ensure_token,
    "show": lambda home: begin_session(home, "play", "e", {}),
    "episode": lambda home: Matches(home).kept.keep("a", Episode({"env_id": "e"}, 0, {})),
}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
@pytest.mark.parametrize("first", FIRST)
def test_the_home_is_its_owners_alone_whatever_the_umask(tmp_path, umask, first):
    new, wide = tmp_path / "new", tmp_path / "wide"
    wide.mkdir(mode=0o755)
    before = os.umask(umask)
    try:
        for place in (new, wide):
            FIRST[first](place)
    finally:
        os.umask(before)
    if first == "list":
        assert not new.exists() or new.stat().st_mode & 0o777 == 0o700
        return
    assert [place.stat().st_mode & 0o777 for place in (new, wide)] == [0o700, 0o700]


def test_a_shared_folder_is_left_as_it_is(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    Store(shared).create(config())
    assert shared.stat().st_mode & 0o7777 == 0o1777
    assert (shared / "runs").stat().st_mode & 0o777 == 0o700
