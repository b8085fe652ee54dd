"""Demonstrations on disk: edited, merged, imported and exported whole; kills and full disks lose nothing finished."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mosaic import play_episode
from mosaic.core.errors import FormatError, InputError, UnknownNameError
from mosaic.envs.catalog import make_env
from mosaic.evaluation.evaluate import evaluate
from mosaic.evaluation.tournament import tournament
from mosaic.store.demos.dataset import read_dataset
from mosaic.store.demos.demonstration import Demonstrations
from mosaic.store.demos.editing import drop, drop_last, filter_by_return, trim
from mosaic.store.demos.recording import record_demo, recording, recover
from mosaic.store.demos.reference import load_trajectories
from mosaic.store.demos.summary import demo_details, demo_rows
from mosaic.store.demos.transfer import export_demo, import_archive, import_dataset, import_episode
from mosaic.store.errors import StorageError
from tests.store.demos.demo_cases import PLAYERS, TICTACTOE, played, record_games, same_rows

pytest.importorskip("minari", reason="the extra 'demos' is not installed")

POLE = "gym/CartPole-v1"


def environment(env_id: str = TICTACTOE) -> dict[str, Any]:
    env = make_env(env_id)
    env.close()
    return env.spec.facts.config.model_dump(mode="json")


def seeds(home: Path, name: str = "games") -> list[int | None]:
    return [row.seed for row in demo_details(Demonstrations(home), name).episode_rows]


def test_recording_again_appends(tmp_path: Path) -> None:
    record_games(tmp_path, episodes=2)
    demo = record_games(tmp_path, episodes=3)
    assert demo.count() == 5
    assert seeds(tmp_path) == [0, 1, 0, 1, 2]
    assert [len(episode.trajectories) for episode in demo.episodes()] == [2] * 5


def test_another_env_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    record_games(tmp_path, episodes=1)
    told = "The demonstration 'games' was recorded in classic/tictactoe_v3, not in gym/CartPole-v1. Choose another"
    with pytest.raises(InputError, match=told), recording(Demonstrations(tmp_path), "games", environment(POLE)):
        raise AssertionError("the block was entered")


def test_two_recordings_of_one_name_are_both_kept(tmp_path: Path) -> None:
    store, env = Demonstrations(tmp_path), make_env(TICTACTOE)
    with recording(store, "games", environment()) as first:
        first.add(0, *played(env, PLAYERS, 10))
        with recording(store, "games", environment()) as second:
            second.add(0, *played(env, PLAYERS, 20))
        first.add(1, *played(env, PLAYERS, 11))
    assert seeds(tmp_path) == [20, 10, 11]  # in the order in which they ended


def test_an_empty_recording_leaves_nothing(tmp_path: Path) -> None:
    store = Demonstrations(tmp_path)
    with recording(store, "games", environment()):
        pass
    assert store.names() == []
    assert not list(store.folder.glob(".recording*"))


def test_an_error_keeps_the_finished_episodes(tmp_path: Path) -> None:
    def record() -> None:
        with recording(Demonstrations(tmp_path), "games", environment()) as sink:
            sink.add(0, *played(make_env(TICTACTOE), PLAYERS, 5))
            raise RuntimeError("the env died")

    with pytest.raises(RuntimeError, match="the env died"):
        record()
    assert seeds(tmp_path) == [5]


_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.store.demos.demo_cases import PLAYERS, TICTACTOE, played
from mosaic.envs.catalog import make_env
from mosaic.store.demos.demonstration import Demonstrations
from mosaic.store.demos.recording import recording
env = make_env(TICTACTOE)
with recording(Demonstrations(Path(sys.argv[1])), "games", env.spec.facts.config.model_dump(mode="json")) as sink:
    for seed in range(3):
        sink.add(seed, *played(env, PLAYERS, seed))
    print("recording", flush=True)
    signal.pause()
"""


def test_a_kill_loses_at_most_the_current_episode(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "recording\n"
    store = Demonstrations(tmp_path)
    rows, problems = demo_rows(store)
    assert ([row.episodes for row in rows], problems) == ([0], [])  # a recording in progress is left alone
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert recover(store) == []
    assert seeds(tmp_path) == [0, 1, 2]
    assert recover(store) == []
    assert len(load_trajectories("demo:games/player_1", home=tmp_path)) == 3


def test_a_recording_that_was_added_is_not_added_again(tmp_path: Path) -> None:
    store = Demonstrations(tmp_path)
    demo = record_games(tmp_path, episodes=2)
    (added,) = demo.about.recordings
    assert store.append("games", demo.episodes(), added).count() == 2


def test_a_full_disk_keeps_what_there_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_games(tmp_path, episodes=1)

    def full(*given: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store, game = Demonstrations(tmp_path), played(make_env(TICTACTOE), PLAYERS, 7)

    def record(place: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(place, full)
            with recording(store, "games", environment()) as sink:
                sink.add(0, *game)

    with pytest.raises(StorageError, match="An episode of the demonstration 'games' could not be written: No space l"):
        record("mosaic.store.demos.recording.write_atomic")
    assert seeds(tmp_path) == [0]
    with pytest.raises(StorageError, match="The demonstration 'games' could not be written: No space left"):
        record("mosaic.store.demos.demonstration.shutil.copytree")
    with monkeypatch.context() as patch:
        patch.setattr("mosaic.store.demos.demonstration.shutil.copytree", full)
        (problem,) = recover(store)
    assert problem.startswith("Episodes of a recording that was interrupted are in")
    assert recover(store) == []  # there is room again
    assert seeds(tmp_path) == [0, 7]


def test_a_replacement_that_was_killed_half_way_is_undone(tmp_path: Path) -> None:
    demo = record_games(tmp_path, episodes=2)
    os.rename(demo.path, demo.path.with_name(".old-games"))
    (demo.path.parent / ".new-games.abcd").mkdir()
    store = Demonstrations(tmp_path)
    assert store.append("games", []).count() == 2
    assert sorted(path.name for path in store.folder.iterdir()) == [".lock-games", "games"]


def test_episodes_are_dropped_and_filtered(tmp_path: Path) -> None:
    record_games(tmp_path, episodes=6)
    store = Demonstrations(tmp_path)
    before = {row.seed: row.returns["player_1"] for row in demo_details(store, "games").episode_rows}
    assert drop_last(store, "games") == 5
    assert drop(store, "games", {0, 2}) == 3
    assert seeds(tmp_path) == [1, 3, 4]
    least = max(before[seed] for seed in (1, 3, 4))
    left = [seed for seed in (1, 3, 4) if before[seed] >= least]
    assert filter_by_return(store, "games", "player_1", least, None) == len(left)
    assert seeds(tmp_path) == left
    numbers = [number for number, _ in store.open("games").datasets()["player_2"].trajectories()]
    assert numbers == list(range(len(left)))


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (
            lambda store: drop_last(store, "games", 2),
            "Its 2 episodes would all be dropped; nothing was changed. To del",
        ),
        (lambda store: drop(store, "games", {0, 1}), "Its 2 episodes would all be dropped; nothing was changed"),
        (lambda store: drop(store, "games", {2}), "'games' has no episode 2; it has 0 to 1."),
        (
            lambda store: filter_by_return(store, "games", "player_1", 99, None),
            "No episode has such a return of 'player",
        ),
        (lambda store: filter_by_return(store, "games", None, 0, None), "whose return counts"),
        (lambda store: filter_by_return(store, "games", "player_3", 0, None), "Did you mean 'player_"),
        (lambda store: filter_by_return(store, "games", "player_1", None, None), "Name the least or the most return"),
        (lambda store: trim(store, "games", 0, 90, None), "Episode 0 of 'games' has no step between 90 and its end."),
        (lambda store: trim(store, "games", 0, 3, 3), "Steps 3 to 3 are none"),
        (lambda store: store.delete("gamez"), "There is no demonstration named 'gamez'. Did you mean 'games'?"),
    ],
)
def test_changes_that_make_no_sense_change_nothing(tmp_path: Path, act: Any, told: str) -> None:
    demo = record_games(tmp_path, episodes=2)
    before = (demo.path / "records.jsonl").read_bytes()
    with pytest.raises(InputError, match=told):
        act(Demonstrations(tmp_path))
    assert (demo.path / "records.jsonl").read_bytes() == before
    assert demo.count() == 2


def test_a_trimmed_episode_is_truncated_where_it_was_cut(tmp_path: Path) -> None:
    record_games(tmp_path, "pole", POLE, {"*": "random"}, episodes=2)
    whole = load_trajectories("demo:pole", home=tmp_path)
    assert trim(Demonstrations(tmp_path), "pole", 0, 2, 6) == 4
    first, second = load_trajectories("demo:pole", home=tmp_path)
    assert list(first.env_steps) == [2, 3, 4, 5]
    assert same_rows(first.observations, whole[0].observations[2:7])
    assert (first.terminated, first.truncated) == (False, True)
    assert same_rows(second.observations, whole[1].observations)
    assert trim(Demonstrations(tmp_path), "pole", None, 3, None) == len(whole[1]) - 3
    assert load_trajectories("demo:pole", home=tmp_path)[1].terminated


def test_a_recorded_episode_becomes_a_demonstration(tmp_path: Path) -> None:
    episode = play_episode(make_env(TICTACTOE), PLAYERS, 3)
    demo = import_episode(Demonstrations(tmp_path), "games", episode)
    _, here = played(make_env(TICTACTOE), PLAYERS, 3)
    (imported,) = demo.episodes()
    assert all(
        same_rows(one.observations, other.observations) for one, other in zip(imported.trajectories, here, strict=True)
    )
    episode.digests[2] += 1
    with pytest.raises(FormatError, match="The env differs from the record at step 2: observations differ"):
        import_episode(Demonstrations(tmp_path), "games", episode)
    assert demo.count() == 1


def test_a_minari_dataset_becomes_a_demonstration(tmp_path: Path) -> None:
    source = record_games(tmp_path / "other", "pole", POLE, {"*": "random"}, episodes=2)
    dataset, store = read_dataset(source.path / "agent_0-v0"), Demonstrations(tmp_path)
    assert import_dataset(store, "copy", dataset, make_env(POLE).spec).count() == 2
    assert [row.replayable for row in demo_details(store, "copy").episode_rows] == [False, False]
    with pytest.raises(InputError, match=r"no agent of classic/tictactoe_v3 has\."):
        import_dataset(store, "wrong", dataset, make_env(TICTACTOE).spec)
    assert store.names() == ["copy"]


def test_an_archive_brings_everything_back(tmp_path: Path) -> None:
    demo = record_games(tmp_path / "there", episodes=3)
    path = export_demo(demo, tmp_path / "games.zip")
    copy = import_archive(Demonstrations(tmp_path / "here"), None, path)
    for one, other in zip(demo.episodes(), copy.episodes(), strict=True):
        assert one.record is not None
        assert other.record is not None
        assert one.record.digests == other.record.digests
        for ours, theirs in zip(one.trajectories, other.trajectories, strict=True):
            assert same_rows(ours.observations, theirs.observations)
            assert ours.controllers == theirs.controllers
    with pytest.raises(InputError, match=r"already exists\. Choose another file"):
        export_demo(demo, path)


def _members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda members: members | {"games/../../evil": b""}, "it contains 'games/../../evil'"),
        (lambda members: members | {"/etc/evil": b""}, "it contains '/etc/evil'"),
        (lambda members: members | {"games/player_1-v0/data/code.pkl": b""}, "code.pkl"),
        (lambda members: members | {"other/demo.json": b"{}"}, "it holds 2 folders"),
        (lambda members: members | {"games/records.jsonl": b"0" * (80 << 20)}, "would unpack to"),
        (lambda members: members | {"games/demo.json": b"{}"}, "demo.json' is damaged"),
        (lambda members: {"games/records.jsonl": members["games/records.jsonl"]}, "it has no demo.json"),
        (lambda members: members | {"games/records.jsonl": b"[1]\n"}, "records.jsonl' is damaged"),
        (lambda members: members | {"games/player_1-v0/data/main_data.hdf5": b"x"}, "is not a complete HDF5 file"),
    ],
)
def test_a_hostile_archive_is_refused_and_leaves_nothing(tmp_path: Path, change: Any, told: str) -> None:
    path = export_demo(record_games(tmp_path / "there", episodes=1), tmp_path / "games.zip")
    members = change(_members(path))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    store = Demonstrations(tmp_path / "here")
    with pytest.raises(FormatError, match=told):
        import_archive(store, None, path)
    assert store.names() == []
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("compression", "damage", "told"),
    [
        (zipfile.ZIP_DEFLATED, b"\xff" * 20, r"is not a complete \.zip file"),
        (zipfile.ZIP_LZMA, b"", "is not stored or deflated"),
    ],
)
def test_damaged_and_unusual_compression_is_refused(tmp_path: Path, compression: int, damage: bytes, told: str) -> None:
    path = tmp_path / "games.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("games/demo.json", b'{"format": "mosaic.demonstration"}' * 20)
    data = bytearray(path.read_bytes())
    start = 30 + len("games/demo.json")  # after the header of the member
    data[start : start + len(damage)] = damage
    path.write_bytes(data)
    with pytest.raises(FormatError, match=told):
        import_archive(Demonstrations(tmp_path), None, path)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_an_archive_with_a_file_twice_is_refused(tmp_path: Path) -> None:
    path = export_demo(record_games(tmp_path / "there", episodes=1), tmp_path / "games.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("games/demo.json", b"{}")
    with pytest.raises(FormatError, match="or a file twice"):
        import_archive(Demonstrations(tmp_path), None, path)


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    path = export_demo(record_games(tmp_path / "there", episodes=1), tmp_path / "games.zip")
    os.truncate(path, 900)
    with pytest.raises(FormatError, match=r"is not a complete \.zip file"):
        import_archive(Demonstrations(tmp_path), None, path)


def test_evaluations_and_tournaments_are_recorded_by_all_processes(tmp_path: Path) -> None:
    result = evaluate(TICTACTOE, PLAYERS, episodes=6, num_env_runners=2, recorder=record_demo("games", tmp_path))
    details = demo_details(Demonstrations(tmp_path), "games")
    assert [row.seed for row in details.episode_rows] == [each.seed for each in result.episode_results]
    assert [row.returns["player_1"] for row in details.episode_rows] == [
        each.returns["player_1"] for each in result.episode_results
    ]
    tournament(TICTACTOE, ["random", "minimax"], games=1, recorder=record_demo("games", tmp_path))
    assert demo_details(Demonstrations(tmp_path), "games").episodes == 8


def test_a_damaged_demonstration_is_listed_with_its_problem(tmp_path: Path) -> None:
    record_games(tmp_path, "good", episodes=1)
    bad = record_games(tmp_path, "bad", episodes=1)
    (bad.path / "demo.json").write_text(json.dumps({"format": "x"}))
    rows, _ = demo_rows(Demonstrations(tmp_path))
    assert {row.name: row.problem[-30:] != "" for row in rows} == {"good": False, "bad": True}
    with pytest.raises(UnknownNameError, match="Record one with: mosaic play ENV"):
        Demonstrations(tmp_path / "none").open("games")
