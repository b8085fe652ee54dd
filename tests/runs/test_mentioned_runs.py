"""A run that is to play against another, or start from it, is refused at once where that one is not there."""

import pytest

from mosaic.core.errors import InputError
from mosaic.runs.trainer import Trainer

TICTACTOE = {"env_id": "classic/tictactoe_v3"}


@pytest.fixture
def trainer(tmp_path):
    trainer = Trainer(tmp_path)
    trainer.submit({"name": "old", "environment": TICTACTOE, "training": {"worker": "native"}}, start=False)
    return trainer


@pytest.mark.parametrize(
    "said",
    [
        {"agents": {"player_1": "run:odl"}, "policy_configuration": "parameter_sharing"},
        {"training": {"worker": "native", "init": "run:odl@best"}},
        {"training": {"worker": "native", "params": {"opponents": ["random", "run:odl"]}}},
        {"evaluation": {"opponents": ["run:odl/shared"]}},
    ],
)
def test_a_run_that_is_not_there_is_named_with_the_nearest(trainer, said):
    with pytest.raises(InputError, match=r"There is no run 'odl'\. Did you mean 'old'"):
        trainer.submit({"environment": TICTACTOE, "training": {"worker": "native"}, **said}, start=False)
    assert len(trainer.runs()) == 1


def test_a_run_that_has_saved_nothing_yet_may_be_meant(trainer):
    training = {"worker": "native", "init": "run:old"}
    made = trainer.submit({"environment": TICTACTOE, "training": training}, start=False)
    assert made.config.training.init == "run:old"
