"""The learner against its past and against strangers: whose weights play, whose rows teach, who is how strong."""

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.learners.opponents import Guest, Opponents, assign_guests, played_by_env, read_opponents
from mosaic.learners.rollout.compiled import CompiledRollouts
from mosaic.learners.rollout.python import PythonRollouts
from mosaic.models.layout import count_weights, tensors
from tests.learners.small_runs import SPREAD, TICTACTOE, assembled, learner, self_play, trained_weights

NEVER = 10**9
COMPILED = {}
PLAYED = {"opponents": ("self@-100000", "minimax:depth=1")}  # a foreign opponent needs Python envs


def test_the_league_plays_in_compiled_code_where_it_can():
    with self_play(COMPILED) as fused, self_play(PLAYED) as played:
        assert isinstance(fused.workers[0], CompiledRollouts)
        assert isinstance(played.workers[0], PythonRollouts)


@pytest.mark.parametrize("options", [COMPILED, PLAYED], ids=["compiled", "played"])
def test_opponents_keep_the_weights_of_their_day_while_the_learner_changes(options):
    with self_play({**options, "snapshot_every_steps": NEVER}) as made:
        worker = made.workers[0]
        before = made.weights(0)
        seen = [before]
        for _ in range(3):
            made.iterate()
            np.testing.assert_array_equal(worker.policies.weights(1), before)
            assert all(not np.array_equal(made.weights(0), old) for old in seen)
            seen.append(made.weights(0))


def test_a_new_snapshot_is_the_learner_as_it_is_then_and_the_old_ones_stay():
    with self_play({"snapshot_every_steps": 1, "league_places": 3}) as made:
        history = {}
        for _ in range(6):
            history[made.env_steps] = made.weights(0)
            made.iterate()
            assert [snapshot.env_steps for snapshot in made.league.snapshots] == list(history)
            for snapshot in made.league.snapshots:
                np.testing.assert_array_equal(snapshot.weights, history[snapshot.env_steps])
            for place, snapshot in enumerate(made.self_play.opponents, 1):
                np.testing.assert_array_equal(made.workers[0].policies.weights(place), history[snapshot.env_steps])
        assert made.workers[0].assignment.league.tolist() == [4, 8, 3]


@pytest.mark.parametrize("more", [(), ("minimax:depth=1",)], ids=["compiled", "played"])
def test_opponents_of_several_ages_are_really_that_old(more):
    ages = (256, 640)
    names = tuple(f"self@-{age}" for age in ages)
    with self_play({"opponents": (*names, *more), "league_size": 50}) as made:
        history = {}
        for _ in range(12):
            now = made.env_steps
            drawn = now >= made.self_play.snapshot_at
            history[now] = made.weights(0)
            made.iterate()
            if not drawn:
                continue
            for place, age in enumerate(ages, 1):
                taken = [snapshot.env_steps for snapshot in made.league.snapshots]
                expected = max((at for at in taken if now - at >= age), default=0)
                np.testing.assert_array_equal(made.workers[0].policies.weights(place), history[expected])
        assert len({made.workers[0].policies.weights(place).tobytes() for place in range(3)}) == 3


@pytest.mark.parametrize("options", [COMPILED, PLAYED], ids=["compiled", "played"])
def test_frozen_rows_give_no_gradient(options):
    """Whatever stands in them, the learner learns the same; with nothing else, it learns nothing."""
    after = []
    for noise in (0.0, 100.0):
        with self_play({**options, "selfplay_share": 0.25}) as made:
            made.snapshot()
            worker = made.workers[0]
            worker.collect()
            frozen = worker.buffer.track.policy_of.ravel() != 0
            assert 0.05 < frozen.mean() < 0.8
            worker.buffer.rows.obs[frozen] += noise
            worker.buffer.rows.logp[frozen] -= noise
            worker.learn(made.rates(), made.normalization.reward_scale)
            after.append(made.weights(0))
            worker.buffer.track.policy_of[:] = 1
            assert worker.learn(made.rates(), made.normalization.reward_scale) == [{}]
            np.testing.assert_array_equal(made.weights(0), after[-1])
    np.testing.assert_array_equal(*after)


@pytest.mark.parametrize(("sampling", "filled"), [("uniform", 3), ("latest", 1), ("prioritised", 3)])
def test_the_rule_says_how_many_opponents_play(sampling, filled):
    with self_play({"league_sampling": sampling, "league_places": 3, "snapshot_every_steps": 1}) as made:
        for _ in range(5):
            made.iterate()
        assert made.workers[0].assignment.league[2] == filled
        assert made.self_play.opponents[0] is made.league.snapshots[-1]
        played = [snapshot.games for snapshot in made.league.snapshots]
        assert sum(played) > 0


def test_ratings_weights_and_strangers_survive_a_resume():
    options = {"opponents": ("random", "minimax:depth=2", "self@-256")}
    with self_play(options) as made, self_play(options, seed=5) as again:
        for _ in range(8):
            made.iterate()
        state = made.training_state()
        again.before.env_steps = made.env_steps
        again.load_training_state([made.weights(0)], state)
        assert again.league.rating == made.league.rating != 1500.0
        assert again.league.facts() == made.league.facts()
        assert again.league.metrics() == made.league.metrics()
        metrics = made.league.metrics()
        assert metrics["league_ratings"][0] == 1500.0
        assert {"rating/random", "win_rate/random", "rating/minimax:depth=2", "score/random"} <= metrics.keys()
        assert again.self_play.snapshot_at == made.self_play.snapshot_at
        np.testing.assert_array_equal(again.weights(0), made.weights(0))
        for mine, other in zip(made.league.snapshots, again.league.snapshots, strict=True):
            np.testing.assert_array_equal(mine.weights, other.weights)
        again.iterate()
        assert not np.array_equal(again.weights(0), made.weights(0))


def stubborn(architecture, action=0):
    """Weights with which a policy always does the same."""
    flat = np.zeros(count_weights(architecture), np.float32)
    places = {tensor.name: tensor for tensor in tensors(architecture)}
    last = max(name for name in places if name.startswith("policy.") and name.endswith("bias"))
    places[last].of(flat)[action] = 50.0
    return flat


@pytest.mark.parametrize("strangers", [("random",), ("random", "nearest_landmark")], ids=["compiled", "played"])
def test_random_draws_from_all_actions_where_nothing_is_illegal(strangers):
    options = {"opponents": strangers, "selfplay_share": 0.0, "n_steps": 64}
    with assembled(SPREAD, options, policy_configuration="self_play") as whole:
        made = whole.learner
        worker = made.workers[0]
        assert isinstance(worker, PythonRollouts if len(strangers) > 1 else CompiledRollouts)
        made.load(0, stubborn(whole.architectures[0]))
        made.snapshot()
        worker.collect()
        policy_of, act = worker.buffer.track.policy_of.ravel(), worker.buffer.rows.act[:, 0]
        assert set(act[policy_of == 0]) == {0.0}
        counts = np.bincount(act[policy_of == 1].astype(int), minlength=5)
        assert counts.sum() > 250
        assert counts.min() > counts.sum() / 5 * 0.6


@pytest.mark.parametrize("strangers", [("random",), ("random", "minimax:depth=1")], ids=["compiled", "played"])
def test_random_plays_legal_moves_only(strangers):
    with self_play({"opponents": strangers, "selfplay_share": 0.0, "n_steps": 64}) as made:
        worker = made.workers[0]
        made.snapshot()
        worker.collect()
        rows = np.flatnonzero(worker.buffer.track.policy_of.ravel() == 1)
        assert len(rows) > 50
        assert worker.buffer.rows.mask[rows, worker.buffer.rows.act[rows, 0].astype(int)].all()
        assert len(set(worker.buffer.rows.act[rows, 0])) == 9


def test_a_foreign_opponent_has_envs_of_its_own_and_the_learner_changes_agents():
    with self_play({"opponents": ("minimax", "random"), "n_steps": 64}, envs=8) as made:
        worker = made.workers[0]
        assert worker.assignment.policy_of.tolist() == [[0, 0]] * 6 + [[0, 2], [2, 0]]
        made.iterate()
        who = worker.buffer.track.who[:64]
        assert set(who[:, 6]) == {0}
        assert set(who[:, 7]) == {1}
        assert set(who[:, 0]) == {0, 1}
        assert (worker.buffer.track.policy_of[:, 6:] == 0).all()
        minimax = made.league.strangers[1]
        assert minimax.name == "minimax"
        assert minimax.games > 20
        assert minimax.win_rate == 0.0  # nobody beats it
        assert made.league.metrics()["score/minimax"] < 0.5
        assert minimax.rating > 1500


def test_foreign_opponents_alone_need_no_snapshot_to_play():
    with self_play({"opponents": ("minimax:depth=1",), "n_steps": 32}) as made:
        made.iterate()
        assert made.workers[0].assignment.league.tolist() == [4, 4, 0]
        assert made.league.strangers[0].games > 0
        assert made.progress().return_mean is not None


def test_games_settle_a_stranger_before_they_move_the_learner():
    with self_play({"opponents": ("minimax",), "n_steps": 8}) as made:
        made.iterate()
        assert 0 < made.league.strangers[0].games < 50
        assert made.league.rating == 1500.0
        assert made.league.strangers[0].rating > 1500.0


def test_where_all_act_together_a_played_agent_has_no_row_that_acts():
    with self_play({"opponents": ("nearest_landmark",), "n_steps": 30}, SPREAD, env_options={"max_cycles": 10}) as made:
        worker = made.workers[0]
        made.iterate()
        policy_of = worker.buffer.track.policy_of.reshape(30, 8, 3)
        assert (policy_of[:, :4] == 0).all()
        for env, own in zip(range(4, 8), (0, 1, 2, 0), strict=True):
            assert [(policy_of[:, env, agent] == 0).all() for agent in range(3)] == [agent == own for agent in range(3)]
            assert (np.delete(policy_of[:, env], own, axis=1) == -1).all()
        assert made.league.strangers[0].games == 4 * 3
        assert worker.tally.finished.tolist() == [4 * 3 * 3 + 4 * 3, 8 * 3]


@pytest.mark.slow
@pytest.mark.chosen
def test_guests_in_processes_are_the_same_guests():
    options = {"opponents": ("minimax:depth=1",)}
    kind = {"policy_configuration": "self_play", "iterations": 2, "envs": 4}
    alone = trained_weights(TICTACTOE, options, **kind)
    apart = trained_weights(TICTACTOE, {**options, "env_processes": 2}, **kind)
    np.testing.assert_array_equal(alone[0], apart[0])


def test_a_seat_may_be_fixed_while_the_other_learns():
    with learner(TICTACTOE, {"n_steps": 64}, agents={"player_2": "minimax"}) as made:
        assert made.vector.shape.agents == ("player_1",)
        before = made.weights(0)
        made.iterate()
        assert made.progress().returns[0].max() <= 0  # perfect play never loses
        assert made.progress().episodes > 20
        assert not np.array_equal(made.weights(0), before)


def test_a_turn_based_python_env_plays_itself():
    with self_play({"snapshot_every_steps": 1}, "classic/leduc_holdem_v4", envs=4) as made:
        assert isinstance(made.workers[0], PythonRollouts)
        before = made.weights(0)
        for _ in range(3):
            made.iterate()
        assert not np.array_equal(made.weights(0), before)
        assert sum(snapshot.games for snapshot in made.league.snapshots) > 0
        assert {int(policy) for policy in np.unique(made.workers[0].buffer.track.policy_of)} >= {0, 1}


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seed_gives_the_same_weights_for_a_number_of_threads(threads):
    options = {"threads": threads, "snapshot_every_steps": 256, "opponent_slip": 0.1}
    first, again, other = (
        trained_weights(TICTACTOE, options, 4, policy_configuration="self_play", seed=seed)[0] for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_guests_share_the_envs_with_the_others():
    named = Opponents((100,), True, ("minimax", "run:latest"))
    assert named.places(4) == 2
    assert named.strangers == ("random", "minimax", "run:latest")
    assert assign_guests(named, 16, 0.5, 2) == (Guest(0, 0), Guest(0, 1), Guest(1, 0), Guest(1, 1))
    assert assign_guests(Opponents(), 16, 0.5, 2) == ()
    assignment = (Guest(0, 0), Guest(1, 1))
    assert played_by_env(named, assignment, 5, ("x", "o")) == {3: {"o": "minimax"}, 4: {"x": "run:latest"}}


def test_without_a_number_of_envs_every_stranger_meets_the_learner_as_every_agent():
    with self_play({"opponents": ("minimax:depth=1", "minimax:depth=2", "minimax:depth=3")}, envs=None) as made:
        assigned = made.workers[0].assignment.policy_of[-6:].tolist()
        assert sorted(assigned) == [[0, 1], [0, 2], [0, 3], [1, 0], [2, 0], [3, 0]]


@pytest.mark.parametrize(
    ("named", "text"),
    [
        (("human",), r"^opponents: a person cannot play while a policy trains: training plays thousands of steps"),
        (("minimax", "minimax"), r"^opponents: 'minimax' is duplicated\."),
        (("self@100",), r"^opponents: 'self@100' is not a snapshot\. Type self@-N, where N is its age in env steps\.$"),
        (("minmax",), r"^There is no policy named 'minmax'\. Did you mean 'minimax'\?"),
        (("minimax:deep=2",), r"there is no option 'deep'\. Did you mean 'depth'\?"),
    ],
)
def test_what_cannot_be_an_opponent_is_refused(named, text):
    with pytest.raises(InputError, match=text):
        read_opponents(named)


def test_random_is_a_controller_where_actions_are_numbers():
    assert read_opponents(("random", "self@-5"), choices=False) == Opponents((5,), False, ("random",))
    assert read_opponents(("random", "self@-7")) == Opponents((7,), True, ())


def test_opponents_outside_self_play_are_refused():
    with (
        pytest.raises(InputError, match=r"^The option opponents belongs to self-play: add --policies self_play"),
        learner(TICTACTOE, {"opponents": ("random",)}),
    ):
        pass


def test_too_few_envs_are_refused():
    text = r"^2 envs leave none for minimax: every opponent needs its own envs\. Increase environment\.num_envs"
    with pytest.raises(InputError, match=text), self_play({"opponents": ("stockfish", "minimax")}, envs=2):
        pass


def test_slips_need_choices():
    settings = {"env_options": {"continuous_actions": True}}
    with (
        pytest.raises(InputError, match=r"^opponent_slip needs actions to choose from, and here they are numbers"),
        self_play({"opponent_slip": 0.5}, SPREAD, **settings),
    ):
        pass
