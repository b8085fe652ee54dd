"""The runs of a trial, with real processes and without Ray."""

import json
import os

import pytest

from mosaic.config.loading import parse_run_config
from mosaic.runs.tuning.plan import TuneSettings, make_plan
from mosaic.runs.tuning.search import remembered, return_to
from mosaic.runs.tuning.trial import TrialError, TrialRuns
from mosaic.store.state import State
from tests.runs.run_cases import toy

STEPS = 2000


def plan(document=None, search=None, **settings):
    settings = TuneSettings(search=search or {"noise": "0..2"}, **settings)
    return make_plan(parse_run_config(document or toy(STEPS, iteration_s=0.0)), settings, 2, "/")


def to_the_end(trial):
    reports = [trial.next()]
    while not reports[-1].done:
        reports.append(trial.next())
    return reports


def test_a_trial_is_a_normal_run_with_its_own_options_and_the_tag_of_its_search(trainer):
    asked = plan(toy(STEPS, iteration_s=0.0, tags=["mine"]))
    reports = to_the_end(TrialRuns(trainer, asked, 3, {"noise": 0.0}))
    steps = [report.env_steps for report in reports]
    assert steps[-1] == STEPS
    assert steps[:-1] == sorted(set(steps[:-1]))
    assert reports[-1].score == pytest.approx(0.1 * STEPS / 100)
    (run,) = trainer.runs(group=asked.search_id)
    assert run.id == reports[-1].run_id == f"{asked.search_id}-03"
    assert run.state is State.FINISHED
    assert run.config.training.params["noise"] == 0.0
    assert run.config.tags == ("mine", asked.search_id)


def test_a_trial_goes_on_from_anothers_checkpoint_with_other_options(trainer, tmp_path):
    asked = plan()
    strong = TrialRuns(trainer, asked, 1, {"noise": 0.0})
    source = to_the_end(strong)[-1]
    strong.save(tmp_path / "saved")
    weak = TrialRuns(trainer, asked.model_copy(update={"config": _longer(asked, 2 * STEPS)}), 2, {"noise": 1.0})
    weak.restore(tmp_path / "saved")
    last = to_the_end(weak)[-1]
    run = trainer.run(last.run_id)
    assert (last.run_id, last.env_steps) == (f"{asked.search_id}-02", 2 * STEPS)
    events = list(run.events())
    assert [e["from_env_steps"] for e in events if e["kind"] == "resumed"] == [STEPS]
    first = next(e for e in events if e["kind"] == "iteration")
    assert first["training_iteration"] == STEPS // 100 + 1
    assert abs(first["episode_reward_mean"] - source.score) < 10  # it walks on from there, not from nothing
    assert run.config.training.params["noise"] == 1.0
    assert trainer.run(source.run_id).config.training.params["noise"] == 0.0


def test_a_copy_of_a_trial_that_was_at_its_end_has_that_ones_score(trainer, tmp_path):
    asked = plan()
    strong = TrialRuns(trainer, asked, 1, {"noise": 0.0})
    source = to_the_end(strong)[-1]
    strong.save(tmp_path / "saved")
    weak = TrialRuns(trainer, asked, 2, {"noise": 1.0})
    weak.restore(tmp_path / "saved")
    (last,) = to_the_end(weak)
    assert (last.score, last.env_steps, last.run_id) == (source.score, STEPS, f"{asked.search_id}-02")
    assert trainer.run(last.run_id).state is State.FINISHED


def test_what_is_saved_has_its_own_score_however_little_was_told_of_it_so_far(trainer, tmp_path):
    asked = plan()
    fast = TrialRuns(trainer, asked, 1, {"noise": 0.0})
    told = fast.next()
    trainer.run(told.run_id).wait(60)
    fast.save(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "source.json").read_text())
    assert told.env_steps < STEPS == saved["env_steps"]
    assert saved["score"] == pytest.approx(0.1 * STEPS / 100)
    assert saved["score"] > told.score


def test_the_same_trial_with_the_same_options_goes_on_with_its_own_run(trainer, tmp_path):
    asked = plan(toy(10**9, iteration_s=0.001), decision_steps=1000)
    asked = asked.model_copy(update={"config": _longer(asked, 20_000)})
    before = TrialRuns(trainer, asked, 1, {"noise": 0.5})
    told = before.next()
    before.save(tmp_path / "saved")
    before.end("its turn is over")
    run = trainer.run(told.run_id)
    assert (run.state, run.reason) == (State.STOPPED, "its turn is over")
    saved = json.loads((tmp_path / "saved" / "source.json").read_text())
    after = TrialRuns(trainer, asked, 1, {"noise": 0.5})
    after.restore(tmp_path / "saved")
    reports = to_the_end(after)
    assert {report.run_id for report in reports} == {told.run_id}
    assert all(report.env_steps > saved["env_steps"] for report in reports)
    assert len(run.record().attempts) == 2


def test_a_new_session_finds_the_runs_of_the_one_that_was_killed(trainer):
    asked = plan()
    first = to_the_end(TrialRuns(trainer, asked, 1, {"noise": 0.5}))
    again = to_the_end(TrialRuns(trainer, asked, 1, {"noise": 0.5}))
    assert again[-1] == first[-1]
    other = to_the_end(TrialRuns(trainer, asked, 1, {"noise": 0.7}))  # not the options of that run
    assert other[-1].run_id == f"{asked.search_id}-01-2"
    assert len(trainer.run(first[-1].run_id).record().attempts) == 1


def test_a_metric_that_is_not_reported_is_named_with_those_that_are(trainer):
    with pytest.raises(TrialError, match=r"There is no metric named 'episode_reward_men'\. Did you mean"):
        to_the_end(TrialRuns(trainer, plan(metric="episode_reward_men"), 1, {}))


def test_a_run_that_fails_is_a_trial_that_fails(trainer, rogue):
    asked = plan()
    broken = asked.config.model_copy(
        update={
            "training": asked.config.training.model_copy(update={"worker": rogue, "algorithm": "broken", "params": {}})
        }
    )
    with pytest.raises(TrialError, match=f"The run {asked.search_id}-01 failed: "):
        to_the_end(TrialRuns(trainer, asked.model_copy(update={"config": broken}), 1, {"megabytes": 1}))


def test_a_run_gets_the_surroundings_of_the_user_and_not_those_of_ray(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", "mine:1")
    monkeypatch.chdir("/")
    with remembered():
        monkeypatch.setenv("RAY_JOB_ID", "7")
        monkeypatch.setenv("OMP_NUM_THREADS_OF_RAY", "1")
        before = {
            name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "OMP", "MOSAIC_TUNE"))
        }
        return_to(str(tmp_path))
        assert os.getcwd() == str(tmp_path)
        assert before.items() <= os.environ.items()
        assert os.environ["RAY_ADDRESS"] == "mine:1"
        assert not {"RAY_JOB_ID", "OMP_NUM_THREADS_OF_RAY", "MOSAIC_TUNE_VARIABLES"} & set(os.environ)
    return_to("/")  # outside of a search nothing is taken away
    assert os.environ["RAY_ADDRESS"] == "mine:1"


@pytest.mark.slow
def test_native_goes_on_with_another_learning_rate(trainer, tmp_path):
    document = {
        "environment": {"env_id": "gym/CartPole-v1"},
        "training": {"worker": "native", "algorithm": "ppo", "total_timesteps": 20_000},
    }
    asked = plan(document, {"learning_rate": "log:1e-5..1e-2"})
    strong = TrialRuns(trainer, asked, 1, {"learning_rate": 1e-3})
    source = to_the_end(strong)[-1]
    strong.save(tmp_path / "saved")
    longer = asked.model_copy(update={"config": _longer(asked, 40_000)})
    weak = TrialRuns(trainer, longer, 2, {"learning_rate": 5e-4})
    weak.restore(tmp_path / "saved")
    reports = to_the_end(weak)
    assert source.env_steps < reports[0].env_steps < reports[-1].env_steps
    assert reports[-1].env_steps >= 40_000
    assert trainer.run(reports[-1].run_id).config.training.params["learning_rate"] == 5e-4


def _longer(asked, steps):
    training = asked.config.training.model_copy(update={"total_timesteps": steps})
    return asked.config.model_copy(update={"training": training})
