"""Behaviour cloning: what is learned, measured, resumed and left out."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.learners.recorded import split_episodes, weight_of
from tests.learners.bc.bc_cases import CARTPOLE, PENDULUM, cartpoles, cloner, pendulums, train


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_a_rule_is_cloned_and_held_out_episodes_say_so(engine):
    with cloner(CARTPOLE, cartpoles(), engine=engine) as learner:
        losses = train(learner, 10_000)
    assert losses["held_out_accuracy"] > 0.95
    assert losses["held_out_loss"] < 0.2
    assert losses["epoch"] == pytest.approx(10_000 / 540, rel=0.1)


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_numbers_are_cloned(engine):
    with cloner(PENDULUM, pendulums(), engine=engine) as learner:
        losses = train(learner, 15_000)
    assert losses["held_out_error"] < 0.3
    assert "held_out_accuracy" not in losses


@pytest.mark.slow
def test_a_memory_sees_the_trajectory_up_to_each_row():
    """The action is where the pole leant one step before: nothing in the current observation tells."""
    recorded = cartpoles(episodes=40, steps=8)
    for _, each in recorded:
        each.actions[1:] = each.actions[:-1].copy()
    with cloner(CARTPOLE, recorded, memory="gru", memory_size=16) as learner:
        assert train(learner, 12_000)["held_out_accuracy"] > 0.85
    with cloner(CARTPOLE, recorded) as learner:
        assert train(learner, 12_000)["held_out_accuracy"] < 0.75


def test_values_learn_the_recorded_returns():
    with cloner(CARTPOLE, cartpoles(steps=1), vf_coef=1.0, held_out=0) as learner:
        losses = train(learner, 5_000)
    assert losses["value_loss"] < 0.01  # every return is 1


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_a_resumed_run_learns_the_same(engine):
    recorded = cartpoles(episodes=6)
    with cloner(CARTPOLE, recorded, engine=engine, patience=50, total=3_000) as whole:
        train(whole, 3_000)
        expected, losses, steps = whole.weights(0), whole.progress().losses[0], whole.env_steps
    with cloner(CARTPOLE, recorded, engine=engine, patience=50, total=3_000) as first:
        train(first, 1_000)
        weights, state, before = [first.weights(0)], first.training_state(), first.progress().env_steps
    assert 1_000 <= before < 3_000
    with cloner(CARTPOLE, recorded, engine=engine, patience=50, total=3_000) as second:
        second.before.env_steps = before
        second.load_training_state(weights, state)
        train(second, 3_000)
        assert (second.weights(0) == expected).all()
        assert second.progress().losses[0]["held_out_loss"] == losses["held_out_loss"]
        assert second.progress().env_steps == steps


def test_a_dataset_that_has_grown_is_not_continued_with():
    with cloner(CARTPOLE, cartpoles(episodes=6)) as first:
        first.iterate()
        weights, state = [first.weights(0)], first.training_state()
    with cloner(CARTPOLE, cartpoles(episodes=7)) as second, pytest.raises(InputError) as caught:
        second.load_training_state(weights, state)
    assert "The dataset has 210 steps for 'shared' now, and had 180 when the checkpoint was written" in str(
        caught.value
    )


def test_patience_ends_with_the_best_weights():
    random = np.random.default_rng(5)
    recorded = cartpoles(episodes=10, steps=8)
    for _, each in recorded:
        each.actions[:] = random.integers(2, size=len(each.actions))  # nothing to learn: it can only overfit
    with cloner(CARTPOLE, recorded, patience=5, hidden=(64,), held_out=0.3, total=10**6) as learner:
        best = np.inf
        while learner.finished() is None:
            learner.iterate()
            best = min(best, learner.progress().losses[0].get("held_out_loss", np.inf))
        assert learner.progress().losses[0]["held_out_loss"] == best
        assert learner.finished() == "no lower held-out loss in 5 passes; the best weights were restored"


def test_patience_counts_whole_passes_only():
    """An earlier limit ends in mid-pass with a report, which does not bring the end of training nearer."""
    recorded = cartpoles(episodes=4, steps=800)  # 2400 rows to learn from, of which an iteration takes 1024
    with cloner(CARTPOLE, recorded, patience=50, total=1_000) as learner:
        losses = train(learner, 1_000)
        assert "held_out_loss" in losses
        assert "best.loss" not in learner.training_state()
        while learner.env_steps < 2_400:
            learner.iterate()
        assert "best.loss" in learner.training_state()


def test_patience_without_an_episode_to_hold_out_is_refused():
    with pytest.raises(InputError) as caught, cloner(CARTPOLE, cartpoles(episodes=1), patience=2):
        pass
    assert "patience=2 watches the loss of held-out episodes, and dataset=demo:test has none to spare." in str(
        caught.value
    )


def test_epochs_are_a_limit():
    with cloner(CARTPOLE, cartpoles(episodes=4), n_epochs=3) as learner:
        while learner.finished() is None:
            learner.iterate()
        assert learner.env_steps == 3 * 90
        assert learner.finished() == "3 passes over the dataset done"


def test_steps_count_by_their_controllers():
    wrong = cartpoles(controllers=("human",) * 15 + ("run:1",) * 15)
    for _, each in wrong:
        each.actions[15:] = 1 - each.actions[15:]  # the policy errs, the person does not
    with cloner(CARTPOLE, wrong) as learner:
        assert train(learner, 8_000)["held_out_accuracy"] < 0.7
    with cloner(CARTPOLE, wrong, controller_weights={"human": 1, "*": 0}) as learner:
        assert train(learner, 8_000)["held_out_accuracy"] > 0.95
        assert len(learner.clones[0].data.learned) == 18 * 15


def test_weights_are_of_the_first_rule_that_fits():
    assert weight_of("run:7", {"run:*": 0.5, "*": 0}) == 0.5
    assert weight_of("human", {"run:*": 0.5, "*": 0}) == 0
    assert weight_of("human", {"run:*": 0.5}) == 1


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"humann": 1}, "There is no controller of dataset=demo:test named 'humann'. Did you mean 'human'?"),
        ({"human": -1}, "controller_weights: the weight of 'human' should not be negative (got -1)."),
        ({"*": 0}, "no step is left to learn 'shared' from"),
    ],
)
def test_rules_that_fit_nothing_are_refused(rules, text):
    with pytest.raises(InputError) as caught, cloner(CARTPOLE, cartpoles(), controller_weights=rules):
        pass
    assert text in str(caught.value)


def test_another_envs_dataset_is_refused():
    with pytest.raises(InputError) as caught, cloner(PENDULUM, cartpoles()):
        pass
    assert "dataset=demo:test was recorded with observations Box(" in str(caught.value)
    assert "Name the env in which it was recorded, or another dataset." in str(caught.value)


def test_an_agent_without_steps_is_refused():
    with pytest.raises(InputError) as caught, cloner("classic/tictactoe_v3", cartpoles()):
        pass
    assert "has no step of player_1 or player_2, from which 'shared' would learn; it has steps of agent_0." in str(
        caught.value
    )


@settings(deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.floats(0, 0.9), st.integers(0, 1000))
def test_episodes_are_split_whole(numbers, share, seed):
    episode = np.array(numbers)
    learned, held_out = split_episodes(episode, share, seed)
    assert sorted([*learned, *held_out]) == list(range(len(episode)))
    assert not set(episode[learned]) & set(episode[held_out])
    count = len(Counter(numbers))
    assert len(learned) > 0
    assert (len(held_out) > 0) == (share > 0 and count > 1)
