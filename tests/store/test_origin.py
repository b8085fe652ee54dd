"""A run knows what was asked, by which command, from which code and on which machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.config.loading import parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.plugins import plugins
from mosaic.runs.trainer import Trainer
from mosaic.store import origin as origins
from mosaic.store.checkpoint_record import read_checkpoint
from mosaic.store.origin import (
    GitState,
    all_versions,
    checkouts,
    git_state,
    machine_here,
    packages_of,
    read_origin,
    without_secrets,
)
from mosaic.store.run_manifest import write_run_manifest
from mosaic.store.state import read_state
from mosaic.store.store import Store
from tests.in_process import trained_here


def git(folder: Path, *words: str) -> str:
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_git_says_commit_and_changes(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
    git(tmp_path, "init")
    assert git_state(tmp_path) is None  # nothing is committed
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


def test_apples_stand_in_for_git_is_not_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    def run(words: list[str], **settings: object) -> subprocess.CompletedProcess[str]:
        called.append(words[0])
        return subprocess.CompletedProcess(words, 2)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    origins._has_git.cache_clear()
    try:
        assert git_state(tmp_path) is None
    finally:
        origins._has_git.cache_clear()
    assert called == ["xcode-select"]


def test_a_status_that_takes_too_long_leaves_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"status": None, "rev-parse": "0123abcd"}
    monkeypatch.setattr(origins, "_git", lambda folder, command, *words: said[command])
    assert git_state(tmp_path) == GitState(commit="0123abcd", dirty=None)


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


def test_the_packages_of_plug_ins_in_use_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of another author offers the worker `probe` and the policy `guess`."""
    packages = tmp_path / "packages"
    info = packages / "probe_worker-4.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: probe-worker\nVersion: 4.5\n")
    (info / "entry_points.txt").write_text(
        "[mosaic.workers]\nprobe = probe_worker:worker\n[mosaic.policies]\nguess = probe_worker:policy\n"
    )
    monkeypatch.syspath_prepend(packages)
    plugins.cache_clear()
    try:
        env = {"env_id": "gym/CartPole-v1"}
        trained = RunConfig.model_validate({"environment": env, "training": {"worker": "probe"}})
        played = RunConfig.model_validate({"environment": env, "agents": {"*": "guess:seed=3", "x": "a_name"}})
        measured = RunConfig.model_validate({"environment": env, "evaluation": {"opponents": ["guess"]}})
        assert packages_of(trained) == packages_of(played) == packages_of(measured) == ("mosaic-rl", "probe-worker")
        assert packages_of(RunConfig.model_validate({"environment": env})) == ("mosaic-rl",)
        assert all_versions(packages_of(trained))["probe-worker"] == "4.5"
        mine = {"env_id": "python:probe_worker.envs:Grid", "wrappers": ["python:absent:wrap", "flatten"]}
        assert packages_of(RunConfig.model_validate({"environment": mine})) == ("probe-worker",)
        registered = {"environment": {"env_id": "gym/probe_worker:Grid-v0"}}
        assert all_versions(packages_of(RunConfig.model_validate(registered)))["probe-worker"] == "4.5"
        wrapped = {"environment": {**env, "wrappers": ["python:probe_worker:wrap"]}, "agents": {"*": "python::"}}
        assert packages_of(RunConfig.model_validate(wrapped)) == ("mosaic-rl", "probe-worker")
        folder = Store(tmp_path / "home").create(trained)
        origin = read_origin(folder)
        assert origin is not None
        assert origin.versions["probe-worker"] == "4.5"
        assert write_run_manifest(folder, read_state(folder)).versions["probe-worker"] == "4.5"
        (info / "direct_url.json").write_text('{"vcs_info": {"vcs": "git", "commit_id": "89ef"}}')
        origin = read_origin(Store(tmp_path / "home").create(trained))
        assert origin is not None
        assert origin.checkouts["probe-worker"] == GitState(commit="89ef", dirty=False)
    finally:
        plugins.cache_clear()


def test_packages_that_were_installed_from_git_have_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "my plug-in"
    code.mkdir()
    git(code, "init")
    git(code, "commit", "--allow-empty", "-m", "first")
    (code / "new.py").write_text("changed")
    facts = {
        "from-git": {"url": "https://host/repo", "vcs_info": {"vcs": "git", "commit_id": "0123abcd"}},
        "editable": {"url": code.as_uri(), "dir_info": {"editable": True}},
        "copied": {"url": code.as_uri(), "dir_info": {}},
        "elsewhere": {"url": (tmp_path / "none").as_uri(), "dir_info": {"editable": True}},
        "damaged": [],
        "from-index": None,
    }
    for name, said in facts.items():
        info = tmp_path / "packages" / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        if said is not None:
            (info / "direct_url.json").write_text(json.dumps(said))
    monkeypatch.syspath_prepend(tmp_path / "packages")
    found = checkouts([*facts, "not-installed"])
    found.pop("mosaic-rl", None)
    assert found == {
        "from-git": GitState(commit="0123abcd", dirty=False),
        "editable": GitState(commit=git(code, "rev-parse", "HEAD"), dirty=True),
    }


def test_each_attempt_and_its_checkpoints_have_the_code_of_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_here: None
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    git(code, "init")
    git(code, "commit", "--allow-empty", "-m", "first")
    monkeypatch.chdir(code)
    asked = {"environment": {"env_id": "gym/FrozenLake-v1"}, "training": {"worker": "tabular", "total_timesteps": 2000}}
    run = trained_here(tmp_path / "home", asked)
    first = git(code, "rev-parse", "HEAD")
    (code / "changed.py").touch()
    git(code, "add", ".")
    git(code, "commit", "-m", "second")
    (code / "new.py").touch()
    second = git(code, "rev-parse", "HEAD")
    run.resume(settings=["training.total_timesteps=4000"])
    record = read_state(run.folder)
    assert [attempt.git for attempt in record.attempts] == [
        GitState(commit=first, dirty=False),
        GitState(commit=second, dirty=True),
    ]
    found = [read_checkpoint(path).manifest.git for path in sorted(run.folder.checkpoints.iterdir()) if path.is_dir()]
    assert {state.commit for state in found if state is not None} == {first, second}
    assert None not in found


def test_the_processor_of_a_mac_is_asked_from_its_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no /proc; Python knows no more than "arm"."""
    monkeypatch.setattr(origins, "_CPU_FACTS", tmp_path / "none")
    monkeypatch.setattr(origins, "kernel_value", {"machdep.cpu.brand_string": "Apple M4"}.get)
    assert machine_here().cpu == "Apple M4"
