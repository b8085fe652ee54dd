"""Env in which only some agents learn."""

from __future__ import annotations

import pytest

from mosaic.core.errors import MosaicError
from mosaic.core.seeding import child_seed
from mosaic.core.turn import digest
from mosaic.envs import learner_view
from mosaic.envs.catalog import make_env
from mosaic.envs.learner_view import LearnerView
from mosaic.runners.fixed_policies import ControllerOthers
from mosaic.testing.toys import Alternating, Fading


class Zeros:
    """Plays its agents with action 0 and records the calls."""

    def __init__(self, *agents):
        self.agents, self.begun, self.acted = agents, [], []

    def plays(self, index):
        return self.agents

    def begin(self, index, seed):
        self.begun.append((index, seed))

    def act(self, index, turn):
        asked = [agent for agent in turn.observations if agent in self.agents]
        self.acted.append((index, *asked))
        return dict.fromkeys(asked, 0)

    def close(self):
        pass


def learner_steps(view, learners, actions=lambda agent, turn: 0):
    """Play one begun episode to its end: rewards of the learners in each of their steps, and who ended in it."""
    steps = []
    for turn in view.others_steps():
        steps.append(("before", {}, list(turn.final_observations)))
    while view.turn.observations:
        turn = view.turn
        part = {agent: actions(agent, turn) for agent in turn.observations if agent in learners}
        turns = [view.step(part), *view.others_steps()]
        rewards, ended = {}, []
        for turn in turns:
            for agent in learners & turn.rewards.keys():
                rewards[agent] = rewards.get(agent, 0.0) + turn.rewards[agent]
            ended += [agent for agent in turn.final_observations if agent in learners]
        steps.append((len(turns), rewards, ended))
    return steps


def test_others_act_in_turn_until_the_learner_must_act_or_the_episode_is_over():
    others = Zeros("o")
    view = LearnerView(Alternating(), ("x",), others, index=7)
    view.begin(3)
    assert learner_steps(view, {"x"}) == [(2, {"x": 2.0}, []), (2, {"x": -5.0}, ["x"])]
    assert others.begun == [(7, child_seed(3, "others"))]
    assert others.acted == [(7, "o"), (7, "o")]


def test_others_may_act_first():
    others = Zeros("x")
    view = LearnerView(Alternating(), ("o",), others)
    view.begin(3, others_seed=8)
    assert learner_steps(view, {"o"}) == [("before", {}, []), (2, {"o": 3.0}, []), (1, {"o": 1.0}, ["o"])]
    assert others.begun == [(0, 8)]


def test_others_act_beside_learners_and_after_their_end():
    others = Zeros("b", "c")
    view = LearnerView(Fading(), ("a",), others)
    view.begin(0)
    assert learner_steps(view, {"a"}) == [(1, {"a": 1.0}, []), (3, {"a": 2.0}, ["a"])]
    assert others.acted == [(0, "b"), (0, "b", "c"), (0, "b", "c"), (0, "b", "c")]


def test_learners_that_come_and_go_have_their_own_ends():
    view = LearnerView(Fading(), ("a", "b", "c"))
    view.begin(0)
    assert learner_steps(view, {"a", "b", "c"}) == [
        (1, {"a": 1.0, "b": 1.0, "c": 0.0}, []),
        (1, {"a": 2.0, "b": 2.0, "c": 2.0}, ["a"]),
        (1, {"b": 3.0, "c": 3.0}, []),
        (1, {"b": 4.0, "c": 4.0}, ["b", "c"]),
    ]


@pytest.mark.parametrize(
    ("env_id", "played", "masked"),
    [
        ("classic/tictactoe_v3", ("player_1",), True),
        ("classic/connect_four_v3", ("player_1",), True),
        ("mpe/simple_tag_v3", ("adversary_0", "agent_0"), False),
        ("mpe/simple_spread_v3", (), False),
        ("gym/FrozenLake-v1", (), False),
    ],
)
def test_every_turn_is_the_envs_own(env_id, played, masked):
    """Turn by turn the same as an env stepped by hand, with the same fixed policies in the others' places."""
    env, own = make_env(env_id), make_env(env_id)
    learners = [agent for agent in env.possible_agents if agent not in played]
    policies = dict.fromkeys(played, "random")
    view = LearnerView(env, learners, ControllerOthers(env.spec, policies, 1) if played else None)
    by_hand = ControllerOthers(own.spec, policies, 1)

    def lowest(agent, turn):
        return int(turn.action_masks[agent].argmax()) if agent in turn.action_masks else 0

    for seed in range(3):
        by_hand.begin(0, child_seed(seed, "others"))
        turn = own.reset(seed)
        assert digest(view.begin(seed)) == digest(turn)
        while turn.observations:
            ours = {agent: lowest(agent, turn) for agent in turn.observations if agent in learners}
            assert bool(turn.action_masks) == masked
            turn = own.step({**ours, **by_hand.act(0, turn)})
            assert digest(view.step(ours)) == digest(turn)
            assert view.turn.action_masks.keys() == turn.action_masks.keys()


def test_one_agent_alone_has_no_steps_between_its_own():
    env = make_env("gym/FrozenLake-v1")
    view = LearnerView(env, env.possible_agents)
    view.begin(0)
    steps = learner_steps(view, {"agent_0"})
    assert [count for count, _, _ in steps] == [1] * len(steps)
    assert [ended for _, _, ended in steps][-1] == ["agent_0"]


class OneMove(Alternating):
    """x's first move ends every game."""

    def _next(self):
        return self._turn("", {"x": 0.0, "o": 0.0}, terminated="xo")


def test_learners_without_a_turn_in_many_episodes_are_an_error():
    view = LearnerView(OneMove(), ("o",), Zeros("x"))
    for seed in range(1000):
        view.begin(seed)
        assert [turn.over for turn in view.others_steps()] == [True]
    with pytest.raises(MosaicError) as raised:
        view.begin(1000)
    assert str(raised.value) == (
        "1000 episodes of python:mosaic.testing.toys:Alternating passed without a turn of o: there is nothing to learn."
    )


class Counting(Zeros):
    """Counts the episodes in which a learner may get a turn."""

    def begin_again(self, index, seed):
        self.begun.append("again")


def test_an_episode_without_a_turn_of_a_learner_is_begun_again():
    others = Counting("x")
    view = LearnerView(OneMove(), ("o",), others)
    for seed in range(3):
        view.begin(seed, others_seed=seed)
        list(view.others_steps())
    assert others.begun == [(0, 0), "again", "again"]


def test_episodes_that_are_left_or_acted_in_do_not_count(monkeypatch):
    monkeypatch.setattr(learner_view, "MOST_IDLE_EPISODES", 2)
    view = LearnerView(Alternating(), ("o",), Zeros("x"))
    for seed in range(5):
        view.begin(seed)  # left in mid-episode
    for seed in range(5):
        view.begin(seed)
        learner_steps(view, {"o"})


class Endless(Alternating):
    """x alone moves."""

    def _next(self):
        return self._turn("x", {"x": 0.0, "o": 0.0})


def test_learners_without_a_turn_in_an_endless_episode_are_an_error(monkeypatch):
    monkeypatch.setattr(learner_view, "MOST_IDLE_STEPS", 50)
    view = LearnerView(Endless(), ("o",), Zeros("x"))
    view.begin(0)
    with pytest.raises(MosaicError, match=r"^50 steps of one episode of .*Alternating passed without a turn of o: "):
        list(view.others_steps())
    assert view.env.t == 50


def test_steps_without_the_learner_count_only_in_a_row(monkeypatch):
    monkeypatch.setattr(learner_view, "MOST_IDLE_STEPS", 1)
    view = LearnerView(Alternating(), ("o",), Zeros("x"))
    view.begin(0)
    assert len(learner_steps(view, {"o"})) > 1
