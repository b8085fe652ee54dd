"""The plug-in of the examples: written with public names alone, it does all that a plug-in can."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mosaic
from mosaic.core.plugins import plugins

FOLDER = Path(__file__).parents[1] / "examples" / "plugin"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The plug-in as pip would install it, for this process and those it starts."""
    groups = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]["entry-points"]
    info = tmp_path / "site" / "mosaic_example-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mosaic-example\nVersion: 1.0\n")
    points = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(points))
    (info.parent / "mosaic_example.py").symlink_to(FOLDER / "mosaic_example.py")
    monkeypatch.syspath_prepend(str(info.parent))
    monkeypatch.setenv("PYTHONPATH", str(info.parent))
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    plugins.cache_clear()
    yield
    plugins.cache_clear()
    sys.modules.pop("mosaic_example", None)


def returns(policy):
    return mosaic.evaluate("example/corridor", {"*": policy}, episodes=5, seed=1, max_steps=50).to_json()["agents"]


def test_env_and_policy_of_the_plugin(installed):
    mosaic.testing.check_env(lambda: mosaic.make_env("example/corridor", length=6))
    assert returns("constant:action=1")["agent_0"]["return_mean"] > 0.7
    assert returns("constant")["agent_0"]["return_mean"] < 0
    with pytest.raises(mosaic.InputError, match="Did you mean 'example/corridor'"):
        mosaic.make_env("example/coridor")
    with pytest.raises(mosaic.InputError, match="length"):
        mosaic.make_env("example/corridor", length=1)


def test_worker_and_sink_of_the_plugin(installed):
    config = {
        "environment": {"env_id": "example/corridor"},
        "training": {"worker": "climb", "episodes": 60},
        "telemetry": {"mirrors": ["text"]},
    }
    run = mosaic.train(config)
    assert run.metrics()["episode_reward_mean"][-1] > 0.7
    assert returns(f"run:{run.id}")["agent_0"]["return_mean"] > 0.5
    text = (run.folder.path / "metrics.txt").read_text()
    assert text.splitlines()[-1].startswith(("iteration ", "checkpoint ", "finished ", "ended "))
    assert text.count("iteration ") >= 60


def test_worker_of_the_plugin_honours_every_setting(installed, tmp_path):
    from random import Random

    from mosaic.config.run import RunConfig
    from mosaic.testing.worker.contract_setup import ContractSetup
    from mosaic.testing.worker.settings import check_settings
    from mosaic.workers.registry import load_worker

    training = {"worker": "climb", "total_timesteps": 300}
    config = RunConfig.model_validate({"environment": {"env_id": "example/corridor"}, "training": training})
    setup = ContractSetup(load_worker("climb"), config, tmp_path / "home", 120.0, 0.5, Random(0))
    with setup.at_home():
        seen = {proof.capability for proof in check_settings(setup, config)}
    assert {"setting environment.options", "setting environment.wrappers", "setting checkpoint.at_end"} <= seen


@pytest.mark.slow
def test_the_package_is_built_installed_and_runs(tmp_path):
    """pip builds and installs it, as a user would, and commands use its env, policy, worker and sink."""
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
    copy = shutil.copytree(FOLDER, tmp_path / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([*pip, str(copy)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(site), "MOSAIC_HOME": str(tmp_path / "home")}

    def command(*words):
        ran = [sys.executable, "-m", "mosaic", *words]
        done = subprocess.run(ran, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    assert "example/corridor" in command("envs", "example")
    command("evaluate", "example/corridor", "--agent", "*=constant:action=1", "--episodes", "5")
    command("train", "example/corridor", "--worker", "climb", "--episodes", "60", "--set", "telemetry.mirrors=[text]")
    command("evaluate", "example/corridor", "--agent", "*=run:latest", "--episodes", "5")
    assert list(tmp_path.glob("home/runs/*/metrics.txt"))
