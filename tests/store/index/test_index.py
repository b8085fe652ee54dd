"""The index: fast, shared, and never more than a copy of the folders."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError, UnknownNameError
from mosaic.store.archives.archive import delete_run
from mosaic.store.errors import StorageError
from mosaic.store.index.index import Index, reindex
from mosaic.store.index.summary import last_metrics
from mosaic.store.lock import RunLock
from mosaic.store.state import LIVE, State
from mosaic.store.store import Store
from mosaic.store.views import StartRow, details_of
from mosaic.telemetry.events.writer import EventWriter
from tests.store.store_cases import append_events, config, set_state


def ids(runs):
    return [run.run_id for run in runs]


def test_a_summary_says_how_a_run_stands(store):
    folder = store.create(config(name="nightly", tags=["a", "b"], seed=5), group="g", now=50.0)
    append_events(folder, {"kind": "iteration", "env_steps": 300, "episode_reward_mean": 1.5})
    set_state(folder, State.FINISHED)
    (run,) = store.index.list()
    assert (run.run_id, run.name, run.tags, run.state) == (folder.run_id, "nightly", ("a", "b"), State.FINISHED)
    assert (run.env, run.worker, run.algorithm) == ("classic/tictactoe_v3", "toy", "walk")
    assert (run.env_steps, run.episode_reward_mean, run.seed, run.group) == (300, 1.5, 5, "g")
    assert (run.queued_at, run.started, run.ended, run.imported) == (50.0, 100.0, None, False)


def test_the_newest_run_comes_first_and_filters_filter(store):
    old = store.create(config(tags=["x"]), now=1.0, group="g")
    new = store.create(config("gym/CartPole-v1", tags=["x", "y"]), now=2.0)
    assert ids(store.index.list()) == [new.run_id, old.run_id]
    assert ids(store.index.list(tags=["x", "y"])) == [new.run_id]
    assert ids(store.index.list(group="g")) == [old.run_id]
    assert ids(store.index.list(env="gym/CartPole-v1", worker="toy")) == [new.run_id]
    assert ids(store.index.list(states=LIVE)) == []


def test_a_living_run_is_looked_at_and_a_dead_one_is_lost(store, run):
    set_state(run, State.RUNNING)
    with RunLock(run) as lock:
        lock.try_acquire()
        append_events(run, {"env_steps": 10})
        assert [(r.state, r.env_steps) for r in store.index.list()] == [(State.RUNNING, 10)]
        append_events(run, {"env_steps": 20})
        assert store.index.list(states={State.RUNNING})[0].env_steps == 20
    assert store.index.list()[0].state is State.LOST
    assert store.index.refresh(run).state is State.LOST


def test_only_living_runs_have_their_lock_tested(store, monkeypatch):
    asked = []
    for number, state in enumerate(State):
        set_state(store.create(config(run_id=f"r{number}-{state}")), state)
    store.index.list()
    monkeypatch.setattr("mosaic.store.state.held", lambda folder: asked.append(folder.run_id) or True)
    store.index.list()
    assert {name.partition("-")[2] for name in asked} == LIVE


def test_runs_are_found_by_id_beginning_name_or_latest(store):
    first = store.create(config(run_id="aa-1", name="nightly"), now=1.0)
    second = store.create(config(run_id="ab-2", name="nightly"), now=2.0)
    third = store.create(config(run_id="b"), now=0.0)
    assert store.resolve("aa-1") == store.resolve("aa") == first
    assert store.resolve("latest") == second
    assert store.resolve("b") == third
    with pytest.raises(InputError, match=r"^2 runs begin with 'a': ab-2 \(nightly\), aa-1 \(nightly\)\. Type"):
        store.resolve("a")
    with pytest.raises(
        InputError, match=r"^2 runs are called 'nightly': ab-2 \(nightly\), aa-1 \(nightly\)\. Type the id of one\."
    ):
        store.resolve("nightly")
    with pytest.raises(
        UnknownNameError, match=r"^There is no run 'nigthly'\. Did you mean 'nightly'\? The newest: ab-2"
    ):
        store.resolve("nigthly")
    for wrong in ("", "..", "../home", "/etc", ".staged-x", "aa-1/"):
        with pytest.raises(UnknownNameError):
            store.resolve(wrong)
    delete_run(store, second)
    assert store.resolve("nightly") == first


def test_a_run_that_says_latest_means_the_one_before_it(store, monkeypatch):
    first, second, _ = (store.create(config(run_id=name), now=now) for now, name in enumerate("abc"))
    monkeypatch.setenv("MOSAIC_RUN", "b")
    assert store.resolve("latest") == first
    assert store.resolve("b") == second
    monkeypatch.setenv("MOSAIC_RUN", "of-another-home")
    assert store.resolve("latest").run_id == "c"
    monkeypatch.setenv("MOSAIC_RUN", "a")
    with pytest.raises(InputError, match=r"^'latest' is the run before this one, and this is the first\."):
        store.resolve("latest")


def test_no_runs_yet(store):
    with pytest.raises(InputError, match=r"^There are no runs yet\. Start one: mosaic train ENV$"):
        store.resolve("latest")
    with pytest.raises(UnknownNameError, match=r"^There is no run 'x'\. There are no runs yet: mosaic train ENV$"):
        store.resolve("x")


def damage_header(path):
    path.write_bytes(b"this is no database, but it is long enough to be read as one" * 100)


def damage_pages(path):
    data = bytearray(path.read_bytes())
    data[200:] = os.urandom(len(data) - 200)
    path.write_bytes(data)


def damage_row(path):
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET state = 'dancing'")
    connection.close()


def damage_schema(path):
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE runs RENAME TO walks")
    connection.close()


@pytest.mark.parametrize(
    "harm",
    [damage_header, damage_pages, damage_row, damage_schema, lambda path: os.truncate(path, 0),
     lambda path: os.truncate(path, 5000), lambda path: path.unlink()],
)  # fmt: skip
def test_a_bad_index_is_rebuilt_with_a_note(store, run, harm):
    before = store.index.list()
    assert store.index.notes == []
    harm(store.home / "index.sqlite")
    index = Index(store.home)
    assert index.list() == before
    (note,) = index.notes
    assert note.startswith("The index of runs was ")
    assert note.endswith("; it was rebuilt from the run folders.")
    again = Index(store.home)
    assert again.list() == before
    assert again.notes == []


@pytest.mark.parametrize("name", ["index.sqlite", "index.lock"])
def test_without_any_index_the_folders_are_read(store, run, name):
    before = store.index.list()
    (store.home / name).unlink()
    (store.home / name / "in the way").mkdir(parents=True)
    index = Index(store.home)
    assert index.list() == before
    assert "index.sqlite' cannot be " in index.notes[0]
    assert index.resolve("nightly") == run
    assert index.refresh(run) == before[0]
    delete_run(store, run)
    assert Index(store.home).list() == []
    with pytest.raises(StorageError, match=r"index\.sqlite' cannot be "):
        reindex(store.home)


def test_the_index_uses_wal(store, run):
    store.index.list()
    connection = sqlite3.connect(store.home / "index.sqlite")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_an_unreadable_run_is_left_out_with_a_note(store, run):
    broken = store.create(config(run_id="broken"))
    broken.state.write_text("{")
    assert ids(store.index.list()) == [run.run_id]
    assert store.index.notes[0].startswith("Run 'broken' cannot be shown: ")
    (store.home / "runs" / "emptied").mkdir()
    found = store.index.unreadable()
    assert list(found) == ["broken", "emptied"]
    assert "state.json" in found["broken"]
    assert found["emptied"].endswith("it has no state.json.")
    (store.home / "runs" / "emptied").rmdir()
    assert reindex(store.home) == 1
    assert store.resolve("broken") == broken  # so that it can be deleted
    delete_run(store, broken)
    assert ids(Index(store.home).list()) == [run.run_id]


def test_a_callers_word_counts_until_the_next_listing(store, run):
    (truth,) = store.index.list()
    store.index.upsert(replace(truth, env_steps=99))
    assert store.index.list() == [truth]


OPERATIONS = st.lists(
    st.one_of(
        st.just(("create",)),
        st.tuples(st.just("state"), st.integers(0, 9), st.sampled_from(list(State))),
        st.tuples(st.just("progress"), st.integers(0, 9), st.integers(1, 99)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.just(("list",)),
        st.just(("lose index",)),
    ),
    max_size=12,
)


@settings(max_examples=20, deadline=None)
@given(OPERATIONS)
def test_after_any_changes_the_index_is_what_reindex_makes(operations):
    with tempfile.TemporaryDirectory() as home:
        store, runs = Store(Path(home)), []
        for number, (what, *arguments) in enumerate(operations):
            chosen = runs[arguments[0] % len(runs)] if arguments and runs else None
            match what:
                case "create":
                    runs.append(store.create(config(name=f"n{number}"), now=float(number)))
                case "state" if chosen:
                    set_state(chosen, arguments[1])
                case "progress" if chosen:
                    append_events(chosen, {"env_steps": arguments[1]})
                    set_state(chosen, State.FINISHED)
                case "delete" if chosen:
                    delete_run(store, chosen)
                    runs.remove(chosen)
                case "list":
                    store.index.list()
                case "lose index":
                    (store.home / "index.sqlite").unlink(missing_ok=True)
        index = Index(store.home)
        assert set(ids(index.list())) == {run.run_id for run in runs}
        kept = index._database.rows()
        assert index.reindex() == len(runs)
        assert index._database.rows() == kept


CROWD = (
    "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
    "from tests.store.store_cases import config, set_state\n"
    "from mosaic.store.store import Store; from mosaic.store.state import State\n"
    "from mosaic.store.index.index import Index\n"
    "store = Store(Path(sys.argv[1]))\n"
    "for n in range(12):\n"
    "    run = store.create(config(run_id=f'{sys.argv[3]}-{n}'))\n"
    "    Index(store.home).list(); set_state(run, State.FINISHED); store.index.refresh(run)\n"
    "    if n % 5 == 4: (store.home / 'index.sqlite').unlink(missing_ok=True)\n"
    "    index = Index(store.home)\n"
    "    assert run.run_id in [r.run_id for r in index.list()]\n"
    "    assert not [note for note in index.notes + store.index.notes if 'cannot' in note], index.notes\n"
)


@pytest.mark.slow
def test_many_processes_share_one_index_even_while_it_is_lost_again_and_again(store):
    command = [sys.executable, "-c", CROWD, str(store.home), str(Path(__file__).parents[3])]
    crowd = [subprocess.Popen([*command, f"p{n}"], stderr=subprocess.PIPE, text=True) for n in range(4)]
    errors = [process.communicate()[1] for process in crowd]
    assert errors == [""] * 4
    runs = store.index.list()
    assert len(runs) == 48
    assert {run.state for run in runs} == {State.FINISHED}


# The end of metrics.jsonl.


def test_metrics_are_read_from_their_end(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert last_metrics(path).env_steps == 0
    path.write_text("")
    assert last_metrics(path).event == {}
    events = [{"env_steps": n, "episode_reward_mean": n / 2, "filler": "x" * 50_000} for n in range(1, 9)]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    path.write_text(lines + '{"kind": "alert"}\n[1]\nrubbish\n{"env_steps": 9, "episode_reward_mean": null}\n{"env_st')
    metrics = last_metrics(path)
    assert (metrics.env_steps, metrics.episode_reward_mean) == (9, 4.0)
    assert metrics.event == {"env_steps": 9, "episode_reward_mean": None}


@pytest.mark.parametrize("value", ["true", "-1", '"7"', "1e3", "9" * 30, "9" * 9999, "[" * 9999])
def test_foreign_metrics_do_no_harm(tmp_path, value):
    text = f'{{"env_steps": {value}}}'
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"env_steps": 3, "episode_reward_mean": 1' + "0" * 999 + '}\n{"env_steps": 4}\n' + text + "\n")
    assert last_metrics(path).env_steps == 4
    assert last_metrics(path).episode_reward_mean is None


EVENT = st.one_of(
    st.builds(lambda n, r: {"kind": "iteration", "env_steps": n, "episode_reward_mean": r},
              st.integers(0, 20), st.none() | st.integers(-5, 5)),
    st.builds(lambda n: {"kind": "resumed", "from_env_steps": n}, st.integers(0, 20)),
    st.just({"kind": "alert"}),
)  # fmt: skip


@given(st.lists(EVENT, max_size=12))
def test_the_last_metrics_are_the_last_visible_ones(events):
    def is_visible(number, event):
        later = [e["from_env_steps"] for e in events[number + 1 :] if e["kind"] == "resumed"]
        return event["kind"] == "iteration" and all(event["env_steps"] <= start for start in later)

    steps, reward = 0, None
    for number, event in enumerate(events):
        if event["kind"] == "resumed":
            steps = event["from_env_steps"]
        elif is_visible(number, event):
            steps = event["env_steps"]
            reward = reward if event["episode_reward_mean"] is None else float(event["episode_reward_mean"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "metrics.jsonl")
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        found = last_metrics(path)
    assert (found.env_steps, found.episode_reward_mean) == (steps, reward)


def test_an_evaluation_says_nothing_about_training(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(
        '{"kind": "iteration", "env_steps": 10, "episode_reward_mean": 3.0, "agent_steps": 20}\n'
        '{"kind": "evaluation", "env_steps": 10, "episode_reward_mean": 99.0}\n'
        '{"kind": "checkpoint", "env_steps": 10}\n'
    )
    metrics = last_metrics(path)
    assert metrics.episode_reward_mean == 3.0
    assert metrics.event["agent_steps"] == 20


def test_a_start_tells_what_it_is_doing_until_a_step_was_sampled(store, run):
    set_state(run, State.STARTING)
    times = iter((100.0, 103.0, 104.0, 105.0, 106.0))
    with RunLock(run) as lock, EventWriter(run.metrics, attempt=1, clock=lambda: next(times)) as writer:
        lock.try_acquire()
        assert details_of(run).start is None
        writer.report(kind="stage", message="starting Ray")
        assert details_of(run).start.text(112.4) == "starting Ray … 12 s"
        writer.report(kind="compiling", message="compiling update, 3 s")
        assert details_of(run).start.text(112.4) == "compiling update, 3 s"
        writer.report(kind="iteration", env_steps=0)
        assert details_of(run).start is not None
        writer.report(kind="iteration", env_steps=5)
        assert details_of(run).start is None
        writer.report(kind="stage", message="starting Ray")  # of a resumed run
        assert details_of(run).start == StartRow(message="starting Ray", began=106.0)
    assert details_of(run).start is None
