"""What pages know of runs is a moment old, unless they ask for more."""

from types import SimpleNamespace

from mosaic.runs.trainer import Trainer
from mosaic.ui.web.data.facts import Facts


def test_runs_that_were_just_made_are_known_to_who_asks_anew(tmp_path):
    trainer = Trainer(tmp_path)
    facts = Facts(SimpleNamespace(store=trainer.store), clock=lambda: 0.0)
    assert facts.rows() == []
    made = trainer.submit({"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy"}}, start=False)
    assert facts.rows() == []
    facts.forget_rows()
    assert [row.run_id for row in facts.rows()] == [made.id]
