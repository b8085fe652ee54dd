"""A2C: one step of the optimiser for each short rollout, and nothing clipped."""

from contextlib import closing

import pytest

from mosaic.config.run import RunConfig
from mosaic.learners.ppo.build import assemble
from mosaic.learners.ppo.options import A2cOptions, PpoOptions

CONFIG = RunConfig.model_validate({"seed": 3, "environment": {"env_id": "gym/CartPole-v1"}})


@pytest.mark.parametrize(("options", "rows", "steps"), [(A2cOptions(), 40, 1), (PpoOptions(n_epochs=2), 1024, 8)])
def test_a_rollout_of_eight_envs_and_five_steps_is_one_step_of_the_optimiser(options, rows, steps):
    with closing(assemble(CONFIG, options).learner) as learner:
        for _ in range(3):
            learner.iterate()
        assert learner.env_steps == 3 * rows
        assert learner.training_state()["shared/optimiser.count"] == 3 * steps
        (losses,) = learner.progress().losses
    if isinstance(options, A2cOptions):
        assert losses["clip_fraction"] == 0
        assert losses["approx_kl"] == pytest.approx(0, abs=1e-6)  # the ratio is 1 but for rounding


def test_advantages_are_returns_of_n_steps_without_normalisation():
    options = A2cOptions()
    assert (options.n_epochs, options.gae_lambda, options.normalize_advantage) == (1, 1.0, False)
    with pytest.raises(ValueError, match="n_epochs"):
        A2cOptions(n_epochs=2)
