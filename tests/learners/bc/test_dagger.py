"""DAgger: labels of an expert, its share of the play, and runs that continue."""

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.learners.agent_roles import read_agent_roles
from mosaic.learners.bc.build import check_cloning
from mosaic.learners.bc.options import DaggerOptions
from tests.learners.bc.bc_cases import CARTPOLE, TICTACTOE, cartpoles, pupil, run_config, train

LEANS = "python:tests.learners.bc.test_dagger:leaning"


def leaning(observation, mask):
    """Expert of CartPole: push to where the pole falls."""
    return int(observation[2] + 0.5 * observation[3] > 0)


def test_the_learner_acts_as_the_expert_does():
    short = {"environment": {"env_id": CARTPOLE, "wrappers": ["time_limit:max_steps=60"]}}
    with pupil(LEANS, config=short, rollout_steps=300, n_epochs=20, beta_rounds=2) as learner:
        losses = train(learner, 1_800)
        progress = learner.progress()
    assert losses["expert_share"] == 0
    assert losses["held_out_accuracy"] > 0.9
    assert progress.return_mean > 50
    assert progress.episodes == len(progress.returns[0])
    assert losses["labels"] == progress.agent_steps == progress.env_steps


def test_the_experts_share_of_the_play_falls_to_nothing():
    with pupil(LEANS, CARTPOLE, rollout_steps=300, n_epochs=1, beta_rounds=2) as learner:
        shares = []
        for _ in range(3):
            learner.iterate()
            shares.append(learner.progress().losses[0]["expert_share"])
    assert shares[0] == 1
    assert 0.3 < shares[1] < 0.7
    assert shares[2] == 0


def test_every_label_is_a_legal_move_of_the_game():
    with pupil("minimax", config={"agents": {"player_2": "random"}}) as learner:
        losses = train(learner, 200)
        data = learner.clones[0].data
    assert losses["labels"] == len(data.rows.act) < 200  # the other player's steps are not labelled
    assert data.rows.mask[np.arange(len(data.rows.act)), data.rows.act[:, 0].astype(int)].all()
    assert set(data.learned) | set(data.held_out) == set(range(len(data.rows.act)))


def test_a_resumed_run_learns_the_same():
    with pupil("minimax") as whole:
        train(whole, 400)
        expected = whole.weights(0)
    with pupil("minimax") as first:
        train(first, 180)
        progress = first.progress()
        weights, state = [first.weights(0)], first.training_state()
    with pupil("minimax") as second:
        for name in ("env_steps", "agent_steps", "episodes"):
            setattr(second.before, name, getattr(progress, name))
        second.load_training_state(weights, state)
        train(second, 400)
        assert (second.weights(0) == expected).all()
        assert second.progress().losses[0]["labels"] == second.progress().agent_steps


def test_an_interrupted_round_is_continued():
    with pupil("minimax") as whole:
        whole.iterate()
        expected, steps = whole.weights(0), whole.env_steps
    with pupil("minimax") as learner:
        before, asked = learner.weights(0), iter([*[False] * 20, True, *[False] * 1000])
        learner.watch(lambda: next(asked))
        learner.iterate()
        assert 0 < learner.env_steps <= 20
        assert (learner.weights(0) == before).all()
        learner.iterate()
        assert learner.env_steps == steps
        assert (learner.weights(0) == expected).all()


def test_recorded_steps_are_learned_from_too():
    with pupil(LEANS, CARTPOLE, recorded=cartpoles(episodes=4), dataset="demo:test") as learner:
        learner.iterate()
        assert learner.progress().losses[0]["labels"] == 4 * 30 + learner.env_steps
        state = learner.training_state()
        assert len(state["lane.0.act"]) == learner.env_steps  # the dataset itself is not in the checkpoint


def test_the_expert_is_closed_with_the_learner():
    closed = []
    with pupil("minimax") as learner:
        learner._rollouts._expert.close = lambda: closed.append("expert")
    assert closed == ["expert"]


def test_a_person_is_the_expert_through_what_is_recorded_meanwhile():
    games, asked = cartpoles(episodes=3, controllers=("human",) * 20 + ("run:it",) * 10), []

    def follow(number):
        """Return the first game at once, the others once the run has asked again."""
        asked.append(number)
        there = 1 if len(asked) < 3 else 3
        return [(episode, game) for episode, game in games[:there] if episode >= number]

    with pupil("human", CARTPOLE, dataset="demo:test", follow=follow, held_out=0.0) as learner:
        learner.iterate()
        losses = learner.progress().losses[0]
        assert (learner.env_steps, losses["labels"], losses["expert_share"]) == (30, 20, 2 / 3)  # the run's own are not
        learner.iterate()  # it waits, and takes both others
        assert (learner.env_steps, learner.progress().episodes) == (90, 3)
        assert learner.progress().losses[0]["labels"] == 60
        data, weights, state = learner.clones[0].data, [learner.weights(0)], learner.training_state()
        assert set(data.rows.adv) == {0.0, 1.0}
        assert len(data.learned) == 60
        assert 60 < len(data.rows.adv) == 90  # what follows counts for the returns
        learner.watch(lambda: True)
        learner.iterate()  # a stop is heard while nothing is recorded
        assert learner.env_steps == 90
    with pupil("human", CARTPOLE, dataset="demo:test", follow=follow, held_out=0.0) as second:
        second.load_training_state(weights, state)
        assert second.clones[0].data.labels == 60


def check(**options):
    env = make_env(TICTACTOE)
    settings = options.pop("settings", {})
    config = run_config(TICTACTOE, algorithm="dagger", **settings)
    check_cloning(config, DaggerOptions(**options), read_agent_roles(config, env.spec), env.spec)


def test_what_it_cannot_do_is_refused():
    check(expert="minimax")
    with pytest.raises(InputError, match=r"dagger asks an expert what it would do: add --set training\.params\.expert"):
        check()
    with pytest.raises(InputError, match="expert=human learns from episodes while a person plays and records them"):
        check(expert="human")
    with pytest.raises(InputError, match=r"A person takes over at will, so training\.params\.beta has no effect"):
        check(expert="human", dataset="demo:test", beta=0.5)
    with pytest.raises(InputError, match=r"dagger plays one episode at a time in one env, so resources\.num_env"):
        check(expert="minimax", settings={"resources": {"num_env_runners": 2}})
    with pytest.raises(InputError, match="different policies in different episodes, which dagger does not support"):
        check(expert="minimax", settings={"agents": "python:examples.mapping:harder_and_harder"})
    with pytest.raises(ValueError, match="'controller_weights' needs recorded steps: set 'dataset', or leave it out"):
        check(expert="minimax", controller_weights={"human": 1})
