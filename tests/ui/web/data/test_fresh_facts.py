"""What pages know of runs is a moment old, unless they ask for more."""

from types import SimpleNamespace

from mosaic.runs.trainer import Trainer
from mosaic.telemetry.events.writer import EventWriter
from mosaic.ui.web.data.facts import Facts, start_stage
from mosaic.ui.web.data.progress import StartStage


def test_runs_that_were_just_made_are_known_to_who_asks_anew(tmp_path):
    trainer = Trainer(tmp_path)
    facts = Facts(SimpleNamespace(store=trainer.store), clock=lambda: 0.0)
    assert facts.rows() == []
    made = trainer.submit({"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy"}}, start=False)
    assert facts.rows() == []
    facts.forget_rows()
    assert [row.run_id for row in facts.rows()] == [made.id]


def test_the_stage_of_a_start_is_the_newest_until_a_step_was_sampled(tmp_path):
    run = Trainer(tmp_path).submit({"environment": {"env_id": "gym/CartPole-v1"}}, start=False)
    assert start_stage(run.folder) is None
    times = iter((100.0, 103.0, 104.0, 105.0, 106.0))
    with EventWriter(run.folder.metrics, attempt=1, clock=lambda: next(times)) as writer:
        writer.report(kind="stage", message="starting Ray")
        assert start_stage(run.folder).text(112.4) == "starting Ray … 12 s"
        writer.report(kind="compiling", message="compiling update, 3 s")
        assert start_stage(run.folder).text(112.4) == "compiling update, 3 s"
        writer.report(kind="iteration", env_steps=0)
        assert start_stage(run.folder) is not None
        writer.report(kind="iteration", env_steps=5)
        assert start_stage(run.folder) is None
        writer.report(kind="stage", message="starting Ray")  # of a resumed run
        assert start_stage(run.folder) == StartStage("starting Ray", 106.0)
