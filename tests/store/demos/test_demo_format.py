"""Datasets hold what was played, exactly, for every space; Minari reads them; hostile ones are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaic.core.errors import FormatError, InputError
from mosaic.envs.catalog import make_env
from mosaic.runners.steps import flatten
from mosaic.store.demos.dataset import DatasetWriter, create_dataset, read_dataset
from mosaic.store.demos.demonstration import agent_folder, check_demo_name, env_text
from mosaic.store.demos.reference import datasets_of, load_trajectories
from tests.store.demos.demo_cases import PLAYERS, TICTACTOE, made_up, played, record_games, same_rows

minari = pytest.importorskip("minari", reason="the extra 'demos' is not installed")
h5py = pytest.importorskip("h5py", reason="the extra 'demos' is not installed")

sizes = st.lists(st.integers(1, 3), max_size=3).map(tuple) | st.just((0,))
boxes = st.builds(
    lambda shape, dtype: spaces.Box(0, 100, shape, dtype),
    sizes,
    st.sampled_from([np.uint8, np.int16, np.int64, np.float32, np.float64]),
)
leaves = (
    boxes
    | st.builds(spaces.Discrete, st.integers(1, 9), start=st.integers(-3, 3))
    | st.builds(lambda counts: spaces.MultiDiscrete(counts), st.lists(st.integers(1, 5), min_size=1, max_size=3))
    | st.builds(spaces.MultiBinary, st.integers(1, 5))
    | st.just(spaces.Text(7))
    | st.just(spaces.Text(5, charset="äß🂡 x"))
)
every_space = st.recursive(
    leaves,
    lambda part: (
        st.dictionaries(st.text("abÄ .-", min_size=1, max_size=3).filter(lambda key: key not in (".", "..")), part,
                        min_size=1, max_size=3).map(spaces.Dict)
        | st.lists(part, min_size=1, max_size=3).map(spaces.Tuple)
    ),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(observations=every_space, actions=every_space, steps=st.integers(1, 5), mask=st.booleans())
def test_every_space_survives_a_dataset(
    tmp_path_factory: Any, observations: Any, actions: Any, steps: int, mask: bool
) -> None:
    masks = np.eye(steps + 1, 4, dtype=np.bool_) if mask else None
    written = made_up(observations, actions, steps, masks=masks)
    path = tmp_path_factory.mktemp("dataset") / "agent_0-v0"
    create_dataset(path, written, "x/agent_0-v0", {"env_id": "own"})
    writer = DatasetWriter(path)
    writer.add(0, 2**64 - 1, written)
    writer.close()
    dataset = read_dataset(path)
    assert (dataset.observation_space, dataset.action_space) == (observations, actions)
    ((number, read),) = dataset.trajectories()
    assert number == 0
    assert same_rows(read.observations, written.observations)
    assert same_rows(read.actions, written.actions)
    assert same_rows((read.rewards, read.env_steps), (written.rewards, written.env_steps))
    assert (read.masks is None) == (masks is None)
    assert masks is None or same_rows(read.masks, masks)
    assert (read.terminated, read.truncated, read.controllers) == (
        written.terminated,
        written.truncated,
        written.controllers,
    )


def test_an_env_is_named_as_commands_do():
    own = {"family": "python", "env_id": "my_envs:Corridor", "options": {"length": 3}}
    assert env_text(own) == "python:my_envs:Corridor with options {'length': 3}"
    assert env_text({"family": "gym", "env_id": "Taxi-v3"}) == "gym/Taxi-v3"


def test_agents_of_a_turn_based_game_have_a_dataset_each(tmp_path: Path) -> None:
    demo = record_games(tmp_path, episodes=4)
    first, second = (flatten(load_trajectories("demo:games", [agent], tmp_path)) for agent in PLAYERS)
    assert set(first.controllers) == {"minimax"}
    assert set(second.controllers) == {"random"}
    assert first.observations.shape == (len(first), 3, 3, 2)
    assert first.masks is not None
    assert first.masks[np.arange(len(first)), first.actions].all()
    assert (first.terminated.sum(), first.truncated.sum()) == (4, 0)
    returns = [record.returns for record in demo.records() if record is not None]
    assert first.rewards.sum() == sum(each["player_1"] for each in returns)
    assert second.rewards.sum() == sum(each["player_2"] for each in returns)
    assert all(record.digests for record in demo.records() if record is not None)


def test_minari_reads_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = record_games(tmp_path, episodes=2)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(demo.path.parent))
    assert list(minari.list_local_datasets()) == ["games/player_1-v0", "games/player_2-v0"]
    theirs = list(minari.load_dataset("games/player_1-v0").iterate_episodes())
    ours = load_trajectories("demo:games/player_1", home=tmp_path)
    for episode, trajectory in zip(theirs, ours, strict=True):
        assert same_rows(episode.observations, trajectory.observations)
        assert same_rows(episode.infos["action_mask"], trajectory.masks)
        assert same_rows(episode.rewards, trajectory.rewards)
    (dataset,) = datasets_of("minari:games/player_1-v0")
    assert dataset.steps == sum(map(len, ours))


def test_a_takeover_is_labelled_step_by_step() -> None:
    env = make_env("gym/CartPole-v1")

    def take_over(runner: Any, turn: Any) -> None:
        if runner.record.env_steps in (2, 4):
            runner.set_policy_for_agent("agent_0", "human" if runner.record.env_steps == 2 else "random")

    _, (whole,) = played(env, {"*": "random"}, max_steps=6, between=take_over)
    assert whole.controllers == ("random", "random", "human", "human", "random", "random")
    assert list(whole.actions[2:4]) == [0, 0]


def test_an_agent_that_waits_when_the_episode_is_cut_loses_its_last_step() -> None:
    record, (first, second) = played(make_env(TICTACTOE), PLAYERS, max_steps=3)
    assert record.cut
    assert (len(first), len(second)) == (1, 1)  # player_1 acted twice, and its second move has no outcome yet
    assert (first.terminated, first.truncated) == (False, True)
    assert len(first.observations) == 2
    assert (second.terminated, second.truncated) == (False, True)


def test_next_observations_follow_within_a_trajectory(tmp_path: Path) -> None:
    record_games(tmp_path, "pole", "gym/CartPole-v1", {"*": "random"}, episodes=3)
    whole = load_trajectories("demo:pole", home=tmp_path)
    steps = flatten(whole)
    assert same_rows(steps.observations[1:][steps.trajectory[1:] == steps.trajectory[:-1]],
                     steps.next_observations[:-1][steps.trajectory[1:] == steps.trajectory[:-1]])  # fmt: skip
    assert same_rows(steps.next_observations[steps.terminated], np.stack([each.observations[-1] for each in whole]))
    assert steps.masks is None


@pytest.mark.parametrize("name", ["", "a", "../x", "a/b", "a.b", ".x", "-x", "a" * 81, "ä1", "a\n"])
def test_names_cannot_leave_the_store(name: str) -> None:
    with pytest.raises(InputError, match="cannot name a demonstration"):
        check_demo_name(name)


@given(st.lists(st.text(min_size=1, max_size=12), min_size=2, max_size=2, unique=True))
def test_folders_of_agents_are_distinct_and_plain(names: list[str]) -> None:
    try:
        folders = {agent_folder(name) for name in names}
    except UnicodeEncodeError:
        return  # a lone surrogate
    assert len(folders) == 2
    assert all(minari.dataset.minari_dataset.DATASET_ID_RE.fullmatch(f"x1/{folder}") for folder in folders)


def test_spaces_that_cannot_be_kept_are_refused(tmp_path: Path) -> None:
    bad = spaces.Dict({"a/b": spaces.Discrete(2)})
    with pytest.raises(InputError, match=r"The observation space of 'agent_0' has a part named 'a/b'"):
        create_dataset(tmp_path / "x", made_up(bad, spaces.Discrete(2), 1), "x1/y-v0", None)
    with pytest.raises(InputError, match="Members of Sequence spaces cannot be recorded"):
        made_up(spaces.Sequence(spaces.Discrete(2)), spaces.Discrete(2), 1)
    with pytest.raises(InputError, match="is a Box without numbers, of several dimensions"):
        create_dataset(tmp_path / "x", made_up(spaces.Box(0, 1, (0, 2)), spaces.Discrete(2), 1), "x1/y-v0", None)


def _tamper(path: Path, change: Any) -> None:
    with h5py.File(path, "a") as file:
        change(file["episode_0"])


def _external_link(group: Any) -> None:
    del group["rewards"]
    group["rewards"] = h5py.ExternalLink("/etc/hosts", "/x")


def _external_storage(group: Any) -> None:
    steps = len(group["rewards"])
    del group["rewards"]
    group.create_dataset("rewards", (steps,), "f8", external=[("/etc/passwd", 0, steps * 8)])


def _virtual(group: Any) -> None:
    steps = len(group["rewards"])
    del group["rewards"]
    layout = h5py.VirtualLayout((steps,), "f8")
    layout[:] = h5py.VirtualSource("/tmp/other.hdf5", "x", (steps,))
    group.create_virtual_dataset("rewards", layout)


def _never_written(group: Any) -> None:
    for name in ("rewards", "terminations", "truncations"):
        del group[name]
        group.create_dataset(name, (10**12,), "f8" if name == "rewards" else "?", chunks=True)


def _wrong_shape(group: Any) -> None:
    del group["observations"]
    group["observations"] = np.zeros((2, 3))


def _objects(group: Any) -> None:
    del group["actions"]
    group.create_dataset("actions", data=["a"] * len(group["rewards"]), dtype=h5py.string_dtype())


def _numbered_beyond(group: Any) -> None:
    group["infos/controller"][...] = 7


def _ends_twice(group: Any) -> None:
    group["terminations"][...] = True


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_external_link, "is a link to another place"),
        (_external_storage, "is stored in other files"),
        (_virtual, "is stored in other files"),
        (_never_written, "claims 8000000000000 bytes that were never written"),
        (_wrong_shape, r"has the shape \(2, 3\), where"),
        (_objects, "holds object, where int64 belongs"),
        (_numbered_beyond, "numbers controllers that it does not name"),
        (_ends_twice, "ends before its last step"),
    ],
)
def test_a_hostile_file_is_refused(tmp_path: Path, change: Any, told: str) -> None:
    demo = record_games(tmp_path, episodes=1)
    path = demo.path / "player_1-v0"
    _tamper(path / "data" / "main_data.hdf5", change)
    with pytest.raises(FormatError, match=told):
        list(read_dataset(path).trajectories())


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    file = record_games(tmp_path, episodes=1).path / "player_1-v0" / "data" / "main_data.hdf5"
    os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(FormatError, match="is not a complete HDF5 file"):
        load_trajectories("demo:games/player_1", home=tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("data_format", "pickle", "its format is 'pickle'"),
        ("total_episodes", "9", "names no id or number of episodes"),
        ("observation_space", "{}", "its observation_space is not valid"),
        ("observation_space", '{"type":"Box","dtype":"O","shape":[1],"low":[0],"high":[1]}', "not valid|not numbers"),
        ("observation_space", '{"type":"Box","dtype":"f8","shape":[100000,100000],"low":0,"high":1}', "too many"),
        ("action_space", "[" * 100_000, "its action_space is not valid"),
    ],
)
def test_hostile_metadata_is_refused(tmp_path: Path, key: str, value: object, told: str) -> None:
    path = record_games(tmp_path, episodes=1).path / "player_1-v0"
    file = path / "data" / "metadata.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
    with pytest.raises(FormatError, match=told):
        read_dataset(path)
