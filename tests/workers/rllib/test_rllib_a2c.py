"""A2C, which RLlib dropped."""

from contextlib import contextmanager

import pytest

from tests.workers.rllib.rllib_setups import make_setup

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray")]


@contextmanager
def a2c(tmp_path, **params):
    from mosaic.workers.rllib.config.build import configure

    setup = make_setup(tmp_path, "gym/CartPole-v1", "a2c", params={"fcnet_hiddens": [64, 64], **params})
    algo = configure(setup).build_algo()
    try:
        yield algo, algo.learner_group._learner
    finally:
        algo.stop()


@pytest.mark.chosen
def test_the_loss_is_that_of_the_paper(tmp_path):
    import torch

    with a2c(tmp_path, vf_loss_coeff=0.25, entropy_coeff=0.02) as (algo, learner):
        update, batches = learner._update, []

        def watched(batch, **also):
            batches.append(batch)
            return update(batch, **also)

        learner._update = watched
        algo.train()
        (batch,) = batches
        rows = batch["default_policy"]
        module = learner.module["default_policy"]
        output = module.forward_train(rows)
        loss = learner.compute_loss_for_module(
            module_id="default_policy", config=learner.config, batch=rows, fwd_out=output
        )
        mask = rows["loss_mask"]
        chances = torch.log_softmax(output["action_dist_inputs"], -1)
        taken = chances.gather(-1, rows["actions"].long()[:, None])[:, 0]
        entropy = -(chances.exp() * chances).sum(-1)
        errors = (module.compute_values(rows) - rows["value_targets"]) ** 2
        expected = (-taken * rows["advantages"] + 0.25 * errors - 0.02 * entropy)[mask].mean()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
        (optimizer,) = learner._named_optimizers.values()
        assert isinstance(optimizer, torch.optim.RMSprop)
        (group,) = optimizer.param_groups
        assert (group["alpha"], group["eps"], group["lr"]) == (0.99, 1e-5, 7e-4)


def test_it_learns_to_balance_a_pole(tmp_path):
    said = {"train_batch_size_per_learner": 160, "min_sample_timesteps_per_iteration": 1600, "lr": 1e-3}
    with a2c(tmp_path, num_envs_per_env_runner=8, **said) as (algo, _):
        for _ in range(60):
            best = algo.train()["env_runners"].get("episode_return_mean", 0.0)
            if best >= 150:
                break
    assert best >= 150
