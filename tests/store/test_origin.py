"""A run knows what was asked, by which command, from which code and on which machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.config.loading import parse_run_config
from mosaic.runs.trainer import Trainer
from mosaic.store.origin import git_state, read_origin, without_secrets
from mosaic.store.run_manifest import write_run_manifest
from mosaic.store.state import read_state


def git(folder: Path, *words: str) -> str:
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_git_says_commit_and_changes(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
    git(tmp_path, "init")
    (tmp_path / "code.py").write_text("one")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    state = git_state(tmp_path)
    assert state is not None
    assert (state.commit, state.dirty) == (git(tmp_path, "rev-parse", "HEAD"), False)
    (tmp_path / "code.py").write_text("two")
    changed = git_state(tmp_path)
    assert changed is not None
    assert changed.dirty


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (["train", "--token", "abc", "--seed", "3"], ["train", "--token", "***", "--seed", "3"]),
        (["--api-key=abc"], ["--api-key=***"]),
        (["--set", "training.params.wandb_token=abc"], ["--set", "training.params.wandb_token=***"]),
        (["--server", "http://me:abc@host:1/?token=abc"], ["--server", "http://***@host:1/?token=***"]),
        (["--set", "training.params.gamma=0.9"], ["--set", "training.params.gamma=0.9"]),
    ],
)
def test_secrets_are_not_kept(typed: list[str], kept: list[str]) -> None:
    assert list(without_secrets(typed)) == kept


def test_a_run_keeps_what_was_asked_beside_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mosaic", "train", "gym/CartPole-v1", "--token", "s3cret-word"])
    asked = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"params": {"n_epochs": 3}}}
    run = Trainer(tmp_path).submit(asked, start=False)
    origin = read_origin(run.folder)
    assert origin is not None
    assert parse_run_config(origin.asked) == parse_run_config(asked)
    assert origin.asked["training"]["params"] == {"n_epochs": 3}
    assert run.config.training.params["n_epochs"] == 3
    assert run.config.training.params["learning_rate"] == 3e-3  # the preset's
    assert run.config.environment.num_envs == 32
    assert origin.command == ("mosaic", "train", "gym/CartPole-v1", "--token", "***")
    assert origin.machine.host
    assert origin.machine.cpu
    assert {"python", "numpy", "numba", "gymnasium"} <= set(origin.versions)
    manifest = write_run_manifest(run.folder, read_state(run.folder))
    assert manifest.origin == origin
    assert manifest.machine == origin.machine
    assert "s3cret-word" not in run.folder.manifest.read_text()
