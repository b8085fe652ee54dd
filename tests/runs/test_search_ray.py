"""Whole searches with Ray Tune, as users type them: they find the best, survive a kill, and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import psutil
import pytest

from mosaic.config.loading import load_run_config
from mosaic.runs.trainer import Trainer
from mosaic.runs.tuning.folder import find_search
from mosaic.store.state import ENDED, State
from tests.runs.run_cases import eventually

pytest.importorskip("ray")

# Without noise the toy's reward is a tenth of its iterations: the shorter an iteration, the more of them.
TOY = ("tune", "gym/CartPole-v1", "--worker", "toy", "--set", "training.params.noise=0")
LENGTHS = ("--search", "steps_per_iteration=10|1000")


class Place:
    """A store and a home folder of its own, and the command line in it."""

    def __init__(self, path):
        self.home = path / "store"
        self.user = path / "user"
        self.user.mkdir()
        self.environment = {**os.environ, "MOSAIC_HOME": str(self.home), "HOME": str(self.user)}
        self.trainer = Trainer(self.home)

    def command(self, *words):
        return [sys.executable, "-m", "mosaic", *words, "--json"]

    def start(self, *words):
        return subprocess.Popen(
            self.command(*words),
            env=self.environment,
            cwd=self.user,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words):
        done = subprocess.run(
            self.command(*words),
            env=self.environment,
            cwd=self.user,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    def search(self):
        return find_search(self.trainer.store, "latest")

    def is_quiet(self):
        """No process of the search or of a run is alive, and Ray's folder is gone."""
        return not self.search().ray.exists() and not _processes_with(str(self.home))


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    yield place
    assert eventually(place.is_quiet, within_s=60)
    assert not (place.user / "ray_results").exists()
    assert all(run.state in ENDED for run in place.trainer.runs())


def _processes_with(text):
    found = []
    for process in psutil.process_iter():
        try:
            if any(text in word for word in process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.slow
def test_asha_stops_the_weak_and_writes_the_best_down(place):
    answer = place.run(*TOY, *LENGTHS, "--steps", "9000", "--trials", "3", "--concurrent", "1", "--seed", "1")
    trials, best = answer["trials"], answer["best"]
    drawn = [trial["options"]["steps_per_iteration"] for trial in trials]
    assert drawn == [10, 1000, 1000], "the seed is meant to draw a strong trial first"
    assert [trial["state"] for trial in trials] == ["done", "stopped", "stopped"]
    assert [trial["env_steps"] for trial in trials] == [9000, 1000, 1000]
    for trial in trials:
        run = place.trainer.run(trial["run_id"])
        assert run.summary().group == answer["search_id"]
        assert run.record().working_folder == str(place.user)  # not one of Ray's, which are gone by now
        assert run.state in (State.STOPPED, State.FINISHED)  # it may have been quicker than the decision
        assert run.checkpoints()
    assert best["options"] == {"steps_per_iteration": 10}
    assert best["episode_reward_mean"] == pytest.approx(90.0)
    config = load_run_config(best["config"])
    assert config.training.params == {"noise": 0, "steps_per_iteration": 10, "iteration_s": 0.0}
    assert (config.run_id, config.tags, config.training.total_timesteps) == (None, (), 9000)
    assert tomllib.loads(Path(best["config"]).read_text())["training"]["worker"] == "toy"


@pytest.mark.slow
def test_after_kill_9_nothing_lives_and_the_search_goes_on(place):
    slow = (
        "--set",
        "training.params.iteration_s=0.02",
        "--scheduler",
        "none",
        "--search",
        "steps_per_iteration=99|100",
    )
    driver = place.start(*TOY, *slow, "--steps", "20000", "--trials", "3", "--concurrent", "1")
    try:
        assert eventually(lambda: _states(place) == [State.RUNNING, State.FINISHED], within_s=120)
        running = place.trainer.runs()[0]
        assert eventually(lambda: (running.summary().env_steps or 0) > 2000, within_s=60)
        record = json.loads(place.search().ray.read_text())
        assert Path(record["temp_dir"]).exists()
    finally:
        driver.kill()
        driver.communicate()
    assert eventually(place.is_quiet, within_s=60)
    assert not Path(record["temp_dir"]).exists()
    assert running.state is State.STOPPED
    reached = running.summary().env_steps
    answer = place.run("tune", "--resume", "latest")
    assert [trial["state"] for trial in answer["trials"]] == ["done"] * 3
    attempts = [len(place.trainer.run(trial["run_id"]).record().attempts) for trial in answer["trials"]]
    assert attempts == [1, 2, 1]
    resumed = [e["from_env_steps"] for e in running.events() if e["kind"] == "resumed"]
    assert resumed == [reached]


def _states(place):
    return [run.state for run in place.trainer.runs()]


@pytest.mark.slow
def test_a_search_that_has_ended_has_nothing_left_to_do(place):
    answer = place.run(*TOY, *LENGTHS, "--steps", "1000", "--trials", "1")
    again = place.run("tune", "--resume", "latest")
    assert (again["best"], again["trials"]) == (answer["best"], answer["trials"])


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(place):
    words = ("--set", "training.params.iteration_s=0.05", "--steps", "1000000", "--trials", "2", *LENGTHS)
    driver = place.start(*TOY, *words)
    assert eventually(lambda: any(run.summary().env_steps for run in place.trainer.runs()), within_s=120)
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=120)
    assert (driver.returncode, out, err) == (130, "", "")
    assert place.is_quiet()
    assert {run.state for run in place.trainer.runs()} == {State.STOPPED}


@pytest.mark.slow
def test_a_population_copies_its_strongest_and_stays_within_the_search(place):
    answer = place.run(
        *("tune", "gym/CartPole-v1", "--worker", "toy", "--scheduler", "pbt", "--search", "noise=0..3"),
        *("--set", "training.params.iteration_s=0.02", "--trials", "3", "--concurrent", "3", "--steps", "20000"),
    )
    assert [trial["state"] for trial in answer["trials"]] == ["done"] * 3
    assert all(trial["env_steps"] == 20_000 for trial in answer["trials"])
    runs = place.trainer.runs(group=answer["search_id"])
    copies = [run for run in runs if run.id.count("-") > answer["search_id"].count("-") + 1]
    assert copies
    for copy in copies:
        start = next(event for event in copy.events() if event["kind"] == "resumed")
        assert start["from_env_steps"] > 0
    assert all(0 <= run.config.training.params["noise"] <= 3 for run in runs)


@pytest.mark.slow
def test_trials_that_cannot_run_are_told_and_the_search_fails(place):
    words = (*TOY, *LENGTHS, "--steps", "500", "--trials", "2", "--metric", "episode_reward_men")
    done = subprocess.run(
        place.command(*words), env=place.environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 1
    assert "Did you mean 'episode_reward_mean'?" in json.loads(done.stderr)["error"]
    assert [trial["state"] for trial in json.loads(done.stdout)["trials"]] == ["failed", "failed"]
