"""Episodes of clients: reports become Turns, sessions have limits, late calls are told why."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.policies.serving.episode import EpisodeState, Report, add_report, finish, take_turn
from mosaic.policies.serving.messages import CallError
from mosaic.policies.serving.sessions import EpisodeLimits, EpisodeTable
from mosaic.policies.serving.values import ValueReader

BOX, MOVES = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)
ALONE = EnvSpec(EnvFacts(), ("agent_0",), {"agent_0": BOX}, {"agent_0": MOVES})
DUO = EnvSpec(EnvFacts(), ("a", "b"), {"a": BOX, "b": BOX}, {"a": MOVES, "b": spaces.MultiDiscrete([2, 3])})


def test_what_happened_between_two_decisions_is_in_the_next_turn():
    state, first = take_turn(EpisodeState(("a", "b")), {"a": 1}, {})
    assert first.rewards == {"a": 0.0, "b": 0.0}
    state = add_report(state, Report({"a": 1.0}))
    state = add_report(state, Report({"a": 0.5, "b": -1.0}, {"b": {"hit": 1}}))
    state = add_report(state, Report({}, terminated=["b"], observations={"b": 7}))
    state, second = take_turn(state, {"a": 2}, {})
    assert second.rewards == {"a": 1.5, "b": -1.0}
    assert second.terminated == {"a": False, "b": True}
    assert second.final_observations == {"b": 7}
    assert second.infos == {"b": {"hit": 1}}
    assert (state.living, state.steps) == (("a",), 2)
    with pytest.raises(CallError, match="The agent 'b' has ended") as caught:
        take_turn(state, {"b": 1}, {})
    assert caught.value.code == "agent_ended"
    last = finish(add_report(state, Report({"a": 2.0})), {"a": 3}, truncated=True)
    assert last.over
    assert (last.rewards, last.truncated, last.final_observations) == ({"a": 2.0}, {"a": True}, {"a": 3})


def test_a_truncated_agent_needs_its_last_observation_and_a_terminated_one_does_not():
    state, _ = take_turn(EpisodeState(("a",)), {"a": 1}, {})
    with pytest.raises(CallError, match=r"observation\.a: it is missing"):
        finish(state, {}, truncated=True)
    assert finish(state, {}, truncated=False).final_observations == {"a": 1}
    with pytest.raises(CallError, match="name an agent that must act"):
        take_turn(state, {}, {})
    with pytest.raises(CallError, match="log_returns takes the last observations of agents that have ended"):
        add_report(state, Report({}, observations={"a": 1}))


REPORTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3), st.sampled_from(["reward", "act", "end"])))


@given(REPORTS)
def test_no_reward_is_lost_or_paid_twice_and_every_agent_ends_once(reports):
    state, paid, ended = EpisodeState(("a", "b", "c")), dict.fromkeys("abc", 0.0), []
    expected = dict.fromkeys("abc", 0.0)

    def count(turn):
        ended.extend(turn.final_observations)
        for agent, reward in turn.rewards.items():
            paid[agent] += reward

    over = set()
    for agent, amount, kind in reports:
        try:
            if kind == "act":
                state, turn = take_turn(state, {agent: amount}, {})
                count(turn)
            else:
                state = add_report(state, Report({agent: amount}, terminated=[agent] if kind == "end" else ()))
                expected[agent] += amount
        except CallError:
            assert agent in over
        if kind == "end":
            over.add(agent)
    count(finish(state, {}, truncated=False))
    assert paid == expected
    assert sorted(ended) == ["a", "b", "c"]


def test_values_of_one_agent_are_its_own_and_of_several_are_by_agent():
    seen, masks = ValueReader(ALONE).observations([0.5, 1], [True, False, True])
    assert seen["agent_0"].dtype == np.float32
    assert masks["agent_0"].tolist() == [True, False, True]
    reader = ValueReader(DUO)
    seen, masks = reader.observations({"a": {"observation": [0, 0], "action_mask": [1, 0, 0]}}, UNSET)
    assert (seen.keys(), masks["a"].tolist()) == ({"a"}, [True, False, False])
    assert reader.actions({"b": [1, 2]}, {})["b"].tolist() == [1, 2]
    assert reader.form({"a": 1}) == {"a": 1}
    assert ValueReader(ALONE).form({"agent_0": 1}) == 1


@pytest.mark.parametrize(
    ("given", "masks", "text", "agent"),
    [
        ([1, 2], UNSET, r"observation: \[1, 2\], where an object by agent belongs", None),
        ({"c": [1, 2]}, UNSET, r"There is no agent 'c'\. Known: a, b", "c"),
        ({"a": [1, 2, 3]}, UNSET, r"observation\.a: an array of shape \(3,\)", "a"),
        ({"a": np.zeros((2, 2), np.float32)}, UNSET, r"shape \(2, 2\)", "a"),
        ({"a": ["x", "y"]}, UNSET, r"where numbers belong", "a"),
        ({"a": ["NaN", 1]}, UNSET, r"observation\.a: NaN; expected: Box\(2\) float32", "a"),
        ({"a": np.array([np.nan, 0], np.float64)}, UNSET, "NaN", "a"),
        ({"a": {"x": 1}}, UNSET, r"observation\.a", "a"),
        ({"a": [1, 2]}, {"a": [1, 0]}, r"action_mask\.a: \[1, 0\]; expected: 3 times true or false", "a"),
        ({"a": [1, 2]}, {"a": [2, 0, 0]}, r"expected: 3 times", "a"),
        ({"a": [1, 2]}, {"a": [[1], [1, 2]]}, r"expected: 3 times", "a"),
        ({"a": [1, 2]}, {"a": [0, 0, 0]}, "a mask without a legal action", "a"),
        ({"a": [1, 2]}, {"b": [1] * 5}, "a mask only where there is an observation", "b"),
    ],
)
def test_observations_that_do_not_fit_name_agent_what_was_sent_and_what_is_expected(given, masks, text, agent):
    with pytest.raises(CallError, match=text) as caught:
        ValueReader(DUO).observations(given, masks)
    assert caught.value.agent == agent
    assert caught.value.status == 422


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"a": 3}, r"action\.a: 3, outside 0\.\.2; expected: Discrete\(3\)"),
        ({"a": 0}, r"0, which is illegal here \(legal: 1, 2\)"),
        ({"a": 1.5}, r"where an integer belongs"),
        ({"b": [0, 5]}, r"action\.b"),
    ],
)
def test_actions_that_a_client_reports_must_be_legal(given, text):
    with pytest.raises(CallError, match=text):
        ValueReader(DUO).actions(given, {"a": np.array([False, True, True])})


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "1", True, None, [1.0], 10**400])
def test_rewards_are_finite_numbers(reward):
    with pytest.raises(CallError, match=r"reward\.a: .*; expected: a finite number"):
        ValueReader(DUO).rewards({"a": reward})
    assert ValueReader(ALONE).rewards(np.float32(0.5)) == {"agent_0": 0.5}


class Owned:
    def __init__(self, client: str) -> None:
        self.client = client


def test_sessions_have_limits_and_expire():
    now = [0.0]
    table = EpisodeTable(EpisodeLimits(episodes=3, per_client=2, idle_s=10), lambda: now[0])
    first, second = table.new_id(None), table.new_id("mine")
    for episode_id in (first, second):
        table.check_room("x")
        table.add(episode_id, Owned("x"))
    with pytest.raises(CallError, match="This client has 2 episodes, its limit") as caught:
        table.check_room("x")
    assert (caught.value.status, caught.value.retry) == (429, "request")
    with pytest.raises(CallError, match="There is already an episode 'mine'"):
        table.new_id("mine")
    table.add("other", Owned("y"))
    with pytest.raises(CallError, match="The server has 3 episodes"):
        table.check_room("z")
    now[0] = 8.0
    table.get(first)
    now[0] = 12.0
    assert table.idle() == ["mine", "other"]
    assert table.of_client("x") == [first, "mine"]
    table.remove("mine", "it had no call for 10 s")
    with pytest.raises(CallError, match="The episode 'mine' is over: it had no call for 10 s") as caught:
        table.get("mine")
    assert (caught.value.code, caught.value.retry) == ("episode_lost", "episode")
    assert table.remove("mine", "again") is None
    assert len(table) == 2


def test_an_episode_of_an_earlier_server_is_lost_and_an_unknown_one_unknown():
    before, after = EpisodeTable(), EpisodeTable()
    with pytest.raises(CallError, match="begun before the server was started again") as caught:
        after.get(before.new_id(None))
    assert (caught.value.code, caught.value.retry) == ("episode_lost", "episode")
    with pytest.raises(CallError, match="There is no episode 'mine'") as caught:
        after.get("mine")
    assert (caught.value.code, caught.value.retry) == ("unknown_episode", "episode")
    for wrong in ("", "x" * 201):
        with pytest.raises(CallError, match="1 to 200 characters"):
            after.new_id(wrong)
