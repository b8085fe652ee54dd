"""One critic for separate actors: what is the same in all policies, what it learns from, and what older runs keep."""

import numpy as np
import pytest

from mosaic.learners.rollout.compiled import CompiledRollouts
from mosaic.learners.rollout.python import PythonRollouts
from mosaic.learners.rollout.shared_critic import interleaved
from tests.learners.small_runs import SPREAD, assembled

ADVERSARY = "mpe/simple_adversary_v3"
CENTRAL = {"policy_configuration": "shared_value_function"}


def critics(learner, worker):
    places = worker.shared_critic._places
    return [learner.weights(policy)[places[policy]] for policy in places]


def actor(learner, worker, policy):
    return np.delete(learner.weights(policy), np.r_[worker.shared_critic._places[policy]])


@pytest.mark.parametrize(
    ("env_id", "options", "kind"),
    [
        (SPREAD, {}, CompiledRollouts),
        (SPREAD, {"engine": "torch"}, PythonRollouts),
        (SPREAD, {"memory": "gru", "memory_size": 8}, PythonRollouts),
        (ADVERSARY, {}, PythonRollouts),
        (SPREAD, {"target_kl": 0.01}, CompiledRollouts),
    ],
    ids=["compiled", "torch", "memory", "unlike agents", "target_kl"],
)
def test_separate_actors_learn_with_one_critic(env_id, options, kind):
    with assembled(env_id, options, envs=4, **CENTRAL) as whole:
        made, worker = whole.learner, whole.learner.workers[0]
        assert isinstance(worker, kind)
        first = critics(made, worker)
        before = [actor(made, worker, policy) for policy in range(3)]
        made.iterate()
        after = critics(made, worker)
        for start, learned in zip(first, after, strict=True):
            np.testing.assert_array_equal(start, first[0])
            np.testing.assert_array_equal(learned, after[0])
        assert not np.array_equal(first[0], after[0])
        actors = [actor(made, worker, policy) for policy in range(3)]
        assert len({weights.tobytes() for weights in actors}) == 3
        assert not any(np.array_equal(old, new) for old, new in zip(before, actors, strict=True))
        assert all(losses["value_loss"] > 0 for losses in made.progress().losses)


def test_the_critic_learns_from_the_rows_of_every_agent():
    after = []
    for noise in (0.0, 1.0):
        with assembled(SPREAD, envs=4, **CENTRAL) as whole:
            worker = whole.learner.workers[0]
            worker.collect()
            rows = (worker.buffer.track.who[:-1] == 1).ravel()
            worker.buffer.rows.critic_obs[rows] += noise
            worker.learn(whole.learner.rates(), whole.learner.normalization.reward_scale)
            after.append((critics(whole.learner, worker)[0], critics(whole.learner, worker)[2]))
    for quiet, noisy in zip(*after, strict=True):
        assert not np.array_equal(quiet, noisy)


def test_the_moments_of_a_critic_that_is_passed_on_keep_their_corrected_values():
    with assembled(SPREAD, envs=4, **CENTRAL) as whole:
        worker = whole.learner.workers[0]
        whole.learner.iterate()
        place = worker.shared_critic._places[0]
        policies = worker.policies
        state = policies.training_state(1)
        state["optimiser.count"][:] = 3
        policies.load_training_state(1, state)
        worker.shared_critic._pass_on(0, 1)
        one, other = policies.training_state(0), policies.training_state(1)
        for name, decay in (("optimiser.first", 0.9), ("optimiser.second", 0.999)):
            corrected = [each[name][place] / (1 - decay ** float(each["optimiser.count"][0])) for each in (one, other)]
            np.testing.assert_allclose(*corrected, rtol=1e-5)
        assert other["optimiser.count"][0] == 3


def test_a_resumed_run_shares_its_critic_and_an_older_one_keeps_several():
    with assembled(SPREAD, envs=4, **CENTRAL) as whole:
        made = whole.learner
        made.iterate()
        state, weights = made.training_state(), [made.weights(policy) for policy in range(3)]
    for shared in (True, False):
        known = {key: value for key, value in state.items() if shared or key != "shared_critic"}
        with assembled(SPREAD, envs=4, **CENTRAL) as whole:
            whole.learner.load_training_state(weights, known)
            worker = whole.learner.workers[0]
            assert (worker.shared_critic is not None) == shared
            assert ("shared_critic" in whole.learner.training_state()) == shared
            whole.learner.iterate()


def test_an_update_that_may_end_early_stays_whole():
    assert interleaved(10, may_end_early=False) == (10, 1)
    assert interleaved(10, may_end_early=True) == (1, 10)
