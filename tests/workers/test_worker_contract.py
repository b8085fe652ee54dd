"""The contract proves what workers declare, and catches those that lie."""

import sys
from pathlib import Path
from random import Random

import pytest

from mosaic import testing
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.contract.report import ContractError
from mosaic.runs.launch import wait_until
from mosaic.testing import check_env, check_worker
from mosaic.testing.toys import Crowd, crowd
from mosaic.testing.worker import WorkerContractError
from mosaic.testing.worker.curve import curve, difference, fallen_counter
from mosaic.testing.worker.rehearsal import Rehearsal
from tests.workers import liars
from tests.workers.hosting import run_config

EXAMPLES = Path(__file__).parents[2] / "examples" / "scripts"
ENDLESS = (
    "import itertools, time\nfor n in itertools.count(1): "
    'print(\'@METRIC {"env_steps": %d, "episodes_total": %d, "episode_reward_mean": 0}\' % (n, n)); '
    "time.sleep(0.01)"
)


def lie(name, **options):
    config = run_config(name, training={"total_timesteps": 500})
    with pytest.raises(WorkerContractError) as caught:
        check_worker(liars.WORKERS[name], config, **options)
    return caught.value


@pytest.mark.slow
@pytest.mark.chosen
def test_toy_keeps_every_promise(short_runs_here, tmp_path):
    config = run_config("toy", {"iteration_s": 0.01}, training={"total_timesteps": 6000})
    report = check_worker("toy", config, home=tmp_path, rng=Random(3))
    assert report.worker == "toy"
    assert report.proven == (
        "options of walk",
        "resources",
        "agent mapping",
        "a whole run",
        "checkpoints",
        "run: policies",
        "no samples",
        "seeds",
        "resume",
        "extension",
        "population",
        "pause",
        "stop",
        "paradigm parameter_sharing",
        "paradigm independent",
        "paradigm self_play",
        "5 agents",
        "settings",
        "setting checkpoint.every_steps",
        "setting checkpoint.folder",
        "setting checkpoint.keep_last",
        "setting checkpoint.keep_best",
        "setting checkpoint.every_iterations",
        "setting checkpoint.every_minutes",
        "setting training.episodes",
        "setting training.stop_reward",
        "setting checkpoint.at_end",
    )
    resume = next(proof.seen for proof in report.proofs if proof.capability == "resume")
    assert resume.endswith("same curve")
    assert next(proof.seen for proof in report.proofs if proof.capability == "population").endswith("with noise=0.5")


@pytest.mark.slow
@pytest.mark.chosen
def test_script_keeps_every_promise_and_what_it_does_not_promise_is_refused(short_runs_here):
    command = [sys.executable, "-c", ENDLESS]
    config, short = (run_config("script", {"command": command}, training={"total_timesteps": n}) for n in (50, 20))
    report = check_worker("script", config, short=short)
    assert report.proven == (
        "options of program",
        "resources",
        "agent mapping",
        "a whole run",
        "pause",
        "no checkpoint",
        "stop",
        "no resume",
        "5 agents",
        "settings",
        "setting training.episodes",
        "setting training.stop_reward",
    )


@pytest.mark.slow
def test_an_honest_plugin_with_a_limit_of_agents(installed_liars):
    config = run_config("honest", training={"total_timesteps": 500})
    report = check_worker("honest", config)
    proofs = {proof.capability: proof.seen for proof in report.proofs}
    assert {"checkpoints", "seeds", "resume", "pause", "stop", "2 agents"} <= proofs.keys()
    assert "2 agents train, 3 are refused: The worker honest trains at most 2 agents, and " in proofs["max_agents"]
    assert "has 3" in proofs["max_agents"]


@pytest.mark.slow
def test_a_modest_plugin_is_refused_everything_else(installed_liars):
    report = check_worker("modest", run_config("modest", training={"total_timesteps": 300}))
    proofs = {proof.capability: proof.seen for proof in report.proofs}
    assert "The worker modest cannot pause." in proofs["no pause"]
    assert "The worker modest cannot save checkpoints." in proofs["no checkpoint"]
    assert "The worker modest cannot resume from a checkpoint." in proofs["no resume"]


@pytest.mark.slow
@pytest.mark.chosen
def test_one_that_ignores_a_pause(installed_liars, monkeypatch):
    def reaches(rehearsal, state):  # the patience is for all that does answer
        return wait_until(rehearsal.run.folder, lambda record: record.state is state, 1.0) is not None

    monkeypatch.setattr(Rehearsal, "reaches", reaches)
    error = lie("deaf", patience_s=60.0)
    assert str(error) == (
        "worker deaf, pause: asked to pause, the run is running after 60 s. Promise: a paused run reports nothing, and "
        "continues when it is resumed. What to do: call context.inbox.wait_while_paused() once in every iteration, or "
        "declare pause=False."
    )


@pytest.mark.slow
@pytest.mark.chosen
def test_one_that_draws_from_elsewhere_than_its_seed(installed_liars):
    error = lie("moody")
    assert "worker moody, seeds: two runs with the seed 0 differ: event 1 says episode_reward_mean 0." in str(error)
    assert "Promise: the same seed gives the same metrics." in str(error)


@pytest.mark.slow
@pytest.mark.chosen
def test_one_that_starts_over_instead_of_going_on(installed_liars):
    error = lie("forgetful", rng=Random(1))
    assert error.capability == "resume"
    assert "0 env steps, its next event says 10." in str(error)
    assert "Promise: counters continue from the checkpoint." in str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "capability", "text"),
    [
        ("half_forgetful", "resume", "the run differs from one that was left alone: event "),
        ("sleepwalker", "pause", "events came while it was paused"),
        ("hoarder", "checkpoints", "a whole run left none"),
        ("shy", "3 agents", "RuntimeError: too many eyes"),
        ("unplayable", "run: policies", "KeyError: 'counter'"),
        ("backwards", "metrics", "training_iteration fell from 39 to 38"),
        ("saveless", "resume", "it declares resume and no checkpoints"),
        ("childless", "population", "it declares population, and resume or checkpoints is missing"),
        ("unbred", "population", "with boldness=0.25 the copy trains exactly as the original does from "),
        ("blind", "fixed opponent", "as its opponents an agent was paid 0"),
        ("boastful", "resources", "was accepted"),
    ],
)
def test_other_broken_promises(installed_liars, name, capability, text):
    error = lie(name)
    assert error.capability == capability
    assert error.worker == name
    assert text in str(error)


@pytest.mark.slow
def test_one_that_has_to_be_killed(installed_liars):
    error = lie("stubborn", patience_s=15.0)
    assert "worker stubborn, stop: asked to stop, the run is stopped (asked to stop (" in str(error)
    assert "it did not stop within 15 s and was killed" in str(error) or "the worker did not end in order" in str(error)


def test_options_without_description(installed_liars):
    error = lie("mute")
    assert "worker mute, options of count: depth of Undescribed has no description." in str(error)


def test_a_worker_that_its_entry_point_does_not_lead_to(installed_liars):
    with pytest.raises(ContractError, match="the entry point 'alias' leads to a worker that calls itself 'impostor' 1"):
        check_worker("alias", run_config("alias"))


def test_a_worker_that_is_not_installed(installed_liars):
    with pytest.raises(InputError, match="There is no worker named 'impostor'"):
        check_worker(liars.WORKERS["impostor"], run_config("impostor"))


@pytest.mark.slow
def test_a_run_that_is_too_short_says_so(installed_liars):
    config = run_config("honest", training={"total_timesteps": 60})
    with pytest.raises(InputError, match="The check of resume needs a longer run: it finished before"):
        check_worker("honest", config, rng=Random(0))


def test_crowds_are_envs_of_so_many_agents():
    assert check_env(lambda: Crowd(3)).agents[2].agent == "c"
    assert crowd(3) == EnvironmentConfig(env_id="python:mosaic.testing.toys:Crowd", options={"agents": 3})


def test_what_depends_on_the_clock_is_not_compared():
    events = [
        {"kind": "iteration", "seq": n, "attempt": 1, "timestamp": 1.5 * n, "env_steps": n, "env_steps_per_s": n / 7,
         "policies": {"red": {"reward_mean": n, "update_s": n / 3}}}
        for n in (1, 2)
    ]  # fmt: skip
    assert curve(events)[1] == {"kind": "iteration", "env_steps": 2, "policies": {"red": {"reward_mean": 2}}}
    assert difference(curve(events), curve(events)) is None
    assert difference(curve(events), curve(events[:1])) == "one has 2 events and the other 1"
    assert difference(curve(events), curve(events[::-1])) == "event 1 says env_steps 1 in one and 2 in the other"
    assert fallen_counter(curve(events)) is None
    assert fallen_counter(curve(events[::-1])) == "env_steps fell from 2 to 1"


def test_testing_offers_the_contract_without_importing_it():
    assert {"check_worker", "WorkerReport"} <= set(dir(testing))
