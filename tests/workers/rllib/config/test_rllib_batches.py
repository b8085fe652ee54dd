"""Batches that no number of pieces makes are refused before Ray is started, exactly where RLlib would."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.rllib.algorithms.ppo import PPOConfig

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.workers.rllib.config.options import OPTIONS, RllibOptions
from mosaic.workers.rllib.config.setup import check_batch, envs_per_runner
from mosaic.workers.rllib.worker import worker


def options(algorithm: str = "ppo", **params: object) -> RllibOptions:
    return OPTIONS[algorithm].model_validate(params)


@given(st.integers(0, 8), st.integers(1, 8), st.integers(0, 3), st.integers(1, 300), st.integers(1, 2000))
def test_the_rule_is_rllibs_own(runners: int, envs: int, learners: int, fragment: int, batch: int) -> None:
    theirs = PPOConfig().env_runners(
        num_env_runners=runners, num_envs_per_env_runner=envs, rollout_fragment_length=fragment
    )
    theirs.learners(num_learners=learners).training(train_batch_size_per_learner=batch)
    ours = options(train_batch_size_per_learner=batch, rollout_fragment_length=fragment, minibatch_size=1)
    try:
        theirs.validate_train_batch_size_vs_rollout_fragment_length()
    except ValueError:
        with pytest.raises(InputError):
            check_batch("ppo", ours, runners=runners, envs=envs, learners=learners)
    else:
        check_batch("ppo", ours, runners=runners, envs=envs, learners=learners)


def test_what_to_do_is_said() -> None:
    small = options(train_batch_size_per_learner=1000, rollout_fragment_length=700)
    with pytest.raises(InputError) as refused:
        check_batch("ppo", small, runners=0, envs=1, learners=0)
    assert str(refused.value) == (
        "A batch of 1,000 steps cannot be made of pieces of 700 steps from 1 env: 1,400 would come. "
        "Leave rollout_fragment_length out, or set it to 1,000."
    )
    check_batch("ppo", small.model_copy(update={"rollout_fragment_length": 1000}), runners=0, envs=1, learners=0)


@pytest.mark.parametrize("algorithm", ["dqn", "impala"])
def test_learners_that_do_not_wait_take_pieces_of_any_length(algorithm: str) -> None:
    odd = options(algorithm, train_batch_size_per_learner=100, rollout_fragment_length=70)
    check_batch(algorithm, odd, runners=2, envs=3, learners=0)


def test_envs_are_shared_out_among_runners() -> None:
    own = options(num_envs_per_env_runner=3)
    assert [envs_per_runner(envs, own, runners) for envs, runners in ((None, 2), (4, 0), (4, 2), (5, 2))] == [
        3,
        4,
        2,
        3,
    ]


def test_a_run_is_refused_before_it_is_made() -> None:
    params = {"num_env_runners": 0, "train_batch_size_per_learner": 1000, "rollout_fragment_length": 700}
    config = RunConfig.model_validate(
        {
            "environment": {"env_id": "gym/CartPole-v1"},
            "training": {"worker": "rllib", "algorithm": "ppo", "params": params},
        }
    )
    env = make_env(config.environment)
    env.close()
    with pytest.raises(InputError, match="A batch of 1,000 steps cannot be made"):
        worker.check(config, options(**params), env.spec)
