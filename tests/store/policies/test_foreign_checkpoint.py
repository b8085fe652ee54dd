"""Checkpoints of other programs: recognised by their files, and found by number in folders of experiments."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mosaic.core.errors import InputError
from mosaic.store.policies import foreign_checkpoint
from mosaic.store.policies.foreign_checkpoint import find_foreign, natural_key


class Bomb:
    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was loaded",)


def sb3(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for member in ("data", "policy.pth"):
            archive.writestr(member, pickle.dumps(Bomb()))
    return path


def rllib(folder: Path) -> Path:
    module = folder / "learner_group/learner/rl_module/default_policy"
    module.mkdir(parents=True)
    for name in ("class_and_ctor_args.pkl", "module_state.pkl"):
        (module / name).write_bytes(pickle.dumps(Bomb()))
    return folder


def test_numbers_in_names_count() -> None:
    names = ["run_10", "run_9", "run_100", "run", "other_2"]
    assert sorted(names, key=natural_key) == ["other_2", "run", "run_9", "run_10", "run_100"]


def test_the_newest_experiment_is_found_by_its_number(tmp_path: Path) -> None:
    for number in (1, 2, 9, 10):
        sb3(tmp_path / "logs" / "ppo" / f"CartPole-v1_{number}" / "CartPole-v1.zip")
    (tmp_path / "logs/ppo/CartPole-v1_10/CartPole-v1").mkdir()
    (tmp_path / "logs/ppo/CartPole-v1_11").mkdir()  # begun, and nothing saved
    newest = tmp_path / "logs/ppo/CartPole-v1_10/CartPole-v1.zip"
    for start in ("logs", "logs/ppo", "logs/ppo/CartPole-v1_10"):
        found = find_foreign(tmp_path / start)
        assert (found.path, found.worker.info.name, found.policies) == (newest, "sb3", ("policy",))
    assert find_foreign(tmp_path / "logs/ppo/CartPole-v1_2").path.parent.name == "CartPole-v1_2"
    assert find_foreign(newest).note == ""


def test_the_newest_checkpoint_of_one_experiment(tmp_path: Path) -> None:
    for steps in (800, 1600, 20_000):
        sb3(tmp_path / f"rl_model_{steps}_steps.zip")
    found = find_foreign(tmp_path)
    assert found.path.name == "rl_model_20000_steps.zip"
    assert found.note == f"'{tmp_path}' has the checkpoint rl_model_20000_steps.zip, the newest of 3"
    for number in (2, 10):
        rllib(tmp_path / "trial" / f"checkpoint_{number:06}")
    assert find_foreign(tmp_path / "trial").path.name == "checkpoint_000010"


def test_several_experiments_are_listed(tmp_path: Path) -> None:
    sb3(tmp_path / "CartPole-v1_1" / "best_model.zip")
    sb3(tmp_path / "CartPole-v1_1" / "CartPole-v1.zip")
    with pytest.raises(InputError, match=r"has several checkpoints .*: CartPole-v1\.zip, best_model\.zip\. Name one"):
        find_foreign(tmp_path)
    sb3(tmp_path / "Pendulum-v1_1" / "Pendulum-v1.zip")
    with pytest.raises(InputError, match=r"several checkpoints or experiments: CartPole-v1_1, Pendulum-v1_1"):
        find_foreign(tmp_path)


def test_what_is_not_one_is_refused_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.zip").write_bytes(b"PK")
    (tmp_path / "deep/a/b/c/d").mkdir(parents=True)
    sb3(tmp_path / "deep/a/b/c/d/model.zip")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "loop").symlink_to(tmp_path)
    old = tmp_path / "old"
    old.mkdir()
    (old / "policy_state.pkl").write_bytes(pickle.dumps(Bomb()))
    for name, reason in (
        ("some.zip", "A zip of Stable-Baselines3 has the members data and policy.pth"),
        ("deep", "is not a checkpoint that Mosaic or one of its workers can play"),
        ("links", "is not a checkpoint that Mosaic or one of its workers can play"),
        ("old", "RLlib wrote it with its old API stack, whose policies are other classes"),
    ):
        with pytest.raises(InputError, match=reason):
            find_foreign(tmp_path / name)
    monkeypatch.setattr(foreign_checkpoint, "_MOST", 3)
    for number in range(5):
        (tmp_path / "deep" / f"f{number}").mkdir()
    with pytest.raises(InputError, match="has more than 3 entries: name the checkpoint itself"):
        find_foreign(tmp_path / "deep")
