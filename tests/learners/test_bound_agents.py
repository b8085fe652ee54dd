"""Agents bound to a snapshot by `self@-N`: who acts for whom in every episode, how old it is, and what is refused."""

from collections import defaultdict

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.learners.league import interval_for
from mosaic.learners.rollout.arrays import record_game
from mosaic.learners.rollout.compiled import CompiledRollouts
from mosaic.learners.rollout.python import PythonRollouts
from tests.learners.small_runs import SPREAD, TICTACTOE, self_play

ONE = {"player_2": "self@-500"}
TWO = {"agent_1": "self@-300", "agent_2": "self@-900"}
PYTHON = {"n_steps": 16, "engine": "torch"}
ENGINES = pytest.mark.parametrize(
    ("options", "kind"), [({}, CompiledRollouts), (PYTHON, PythonRollouts)], ids=["compiled", "torch"]
)


def iterate(made, acted):
    """Make one iteration and note which weights acted for which agent."""
    made.iterate()
    worker = made.workers[0]
    track, agents = worker.buffer.track, worker.vector.shape.agents
    steps = len(track.policy_of)
    for who, policy in zip(track.who[:steps].ravel(), track.policy_of.ravel(), strict=True):
        acted[agents[who]].add(int(policy))


@ENGINES
@pytest.mark.parametrize(
    ("env_id", "agents", "seen"),
    [
        (TICTACTOE, ONE, {"player_1": {0}, "player_2": {1}}),
        (SPREAD, TWO, {"agent_0": {0}, "agent_1": {1}, "agent_2": {2}}),
        (SPREAD, {"agent_1,agent_2": "self@-300"}, {"agent_0": {0}, "agent_1": {1}, "agent_2": {1}}),
    ],
    ids=["one", "two ages", "one age for two"],
)
def test_a_bound_agent_is_played_by_its_snapshot_in_every_episode_and_the_others_by_the_learner(
    options, kind, env_id, agents, seen
):
    acted = defaultdict(set)
    with self_play(options, env_id, agents=agents) as made:
        assert isinstance(made.workers[0], kind)
        for _ in range(8):
            iterate(made, acted)
        assert made.progress().episodes > 20
    assert acted == seen


@ENGINES
def test_the_snapshot_is_about_as_old_as_asked_and_at_first_the_untrained_network(options, kind):
    with self_play(options, SPREAD, agents=TWO, total=10_000) as made:
        history, ages = {}, {300: [], 900: []}
        for _ in range(24):
            now = made.env_steps
            history[now] = made.weights(0)
            made.iterate()
            for place, age in enumerate(ages, 1):
                weights = made.workers[0].policies.weights(place)
                (taken,) = [at for at, old in history.items() if np.array_equal(old, weights)]
                ages[age].append((now, now - taken))
    iteration = 128
    for age, seen in ages.items():
        early = [(now, old) for now, old in seen if now < age]
        assert early
        assert all(old == now for now, old in early), "the untrained network"
        assert all(age <= old <= 1.25 * age + iteration for now, old in seen if now >= age)
    assert len({old for _, old in ages[300]}) > 2


def test_snapshots_that_an_age_will_need_stay_in_a_league_that_is_full():
    with self_play({"league_size": 2}, SPREAD, agents=TWO) as made:
        for _ in range(30):
            made.iterate()
        now, league = made.env_steps, made.league
        assert 900 <= now - league.aged(900, now).env_steps <= 1.25 * 900 + 256
        assert len(league.snapshots) <= 2 + 2 * 10


def test_ages_make_snapshots_more_frequent():
    assert interval_for(50_000, ()) == 50_000
    assert interval_for(50_000, (1000, 8000)) == 125
    assert interval_for(100, (8000,)) == 100
    assert interval_for(None, (8000,)) == 1000
    assert interval_for(None, ()) is None
    assert interval_for(10, (0,)) == 1


@pytest.mark.parametrize("options", [{}, PYTHON], ids=["compiled", "torch"])
def test_a_resumed_run_keeps_its_bound_agents(options):
    acted = defaultdict(set)
    with self_play(options, agents=ONE) as made, self_play(options, agents=ONE, seed=5) as again:
        for _ in range(6):
            made.iterate()
        state = made.training_state()
        again.before.env_steps = made.env_steps
        again.load_training_state([made.weights(0)], state)
        np.testing.assert_array_equal(again.workers[0].policies.weights(1), made.workers[0].policies.weights(1))
        for _ in range(4):
            iterate(again, acted)
    assert acted == {"player_1": {0}, "player_2": {1}}


def test_beside_a_fixed_policy_too():
    acted = defaultdict(set)
    with self_play({}, SPREAD, agents={"agent_0": "random", "agent_2": "self@-300"}) as made:
        assert isinstance(made.workers[0], PythonRollouts)
        for _ in range(2):
            iterate(made, acted)
    assert acted == {"agent_1": {0}, "agent_2": {1}}


def test_the_learner_is_rated_against_each_bound_snapshot_by_itself():
    with self_play({}, SPREAD, agents=TWO) as made:
        worker = made.workers[0]
        for returns in ((5.0, 3.0, 9.0), (5.0, 5.0, 1.0)):
            worker.tally.returns[:3] = returns
            record_game(worker.tally, worker.assignment, 0, 1)
        worker.tally.returns[:3] = (0.0, 9.0, 9.0)
        worker.assignment.rated[0] = 0
        record_game(worker.tally, worker.assignment, 0, 1)
        assert worker.tally.scores.tolist() == [[1, 1, 0], [1, 0, 1]]
        assert worker.tally.selfplay.sum() == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [("selfplay_share", 0.25), ("opponents", ("random",)), ("league_sampling", "latest"), ("league_places", 2)],
)
def test_options_about_drawn_opponents_are_refused(option, value):
    with pytest.raises(InputError) as refused, self_play({option: value}, agents=ONE):
        pass
    assert str(refused.value) == (
        f"{option}={value}: with --agent player_2=self@-500 that snapshot plays player_2 in every episode, the learner "
        f"plays player_1, and no opponent is drawn. Leave out {option}, or self@-500."
    )


def test_one_agent_must_be_left_to_learn():
    agents = {"player_1": "self@-100", "player_2": "self@-1000"}
    with pytest.raises(InputError) as refused, self_play(agents=agents):
        pass
    assert str(refused.value) == (
        "There is nothing to learn: a snapshot plays every agent that could learn (player_1=self@-100, "
        "player_2=self@-1000). Leave one --agent out: the learner then plays that agent."
    )
