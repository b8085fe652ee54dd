"""PettingZoo's envs in our words: nothing is lost, added or put off."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from mosaic.core.errors import MosaicError
from mosaic.core.turn import digest
from mosaic.envs.adapters.pettingzoo import AECAdapter, CycleAdapter, ParallelAdapter, from_pettingzoo
from mosaic.envs.adapters.upstream import NO_REPAIRS
from mosaic.envs.catalog import make_env
from mosaic.envs.contract.session import Sampler
from tests.envs.env_cases import PETTINGZOO, WATERWORLD, make_aec, raw_aec, raw_parallel, steps_for, turns

ROUNDS = [env_id for env_id in PETTINGZOO if not env_id.startswith("classic/") or env_id == "classic/rps_v2"]


def test_the_families_are_whole():
    left_out = WATERWORLD not in PETTINGZOO  # by PettingZoo 1.26
    assert (len(PETTINGZOO), len(ROUNDS)) == (28 - left_out, 19 - left_out)
    assert [env_id for env_id in PETTINGZOO if not make_env(env_id).spec.facts.turn_based] == ROUNDS
    assert {type(make_env(env_id)) for env_id in ROUNDS} == {CycleAdapter}
    assert {type(make_env(env_id)) for env_id in PETTINGZOO if env_id not in ROUNDS} == {AECAdapter}


@pytest.mark.parametrize("env_id", PETTINGZOO)
def test_the_rewards_since_a_move_are_what_last_says(env_id):
    raw, env = raw_aec(env_id), make_aec(env_id)
    sampler = Sampler(env.action_spaces, 3)
    raw.reset(seed=3)
    turn, since = env.reset(3), dict.fromkeys(env.possible_agents, 0.0)
    for _ in range(steps_for(env_id, 20, 150)):
        while raw.agents and (raw.terminations[raw.agent_selection] or raw.truncations[raw.agent_selection]):
            agent = raw.agent_selection  # a dead step of theirs; its last rewards came with our Turn
            assert raw.last()[1] == pytest.approx(since.pop(agent))
            raw.step(None)
        if turn.over:
            assert not raw.agents
            break
        (agent,) = turn.observations
        assert raw.agent_selection == agent
        assert raw.last()[1] == pytest.approx(since[agent])
        since[agent] = 0.0
        actions = sampler.draw(turn)
        raw.step(actions[agent])
        turn = env.step(actions)
        for other, reward in turn.rewards.items():
            since[other] += reward


@pytest.mark.parametrize("env_id", ROUNDS)
def test_a_round_is_pettingzoos_own_conversion_bit_for_bit(env_id):
    ours, theirs = make_env(env_id), raw_parallel(env_id)
    steps = steps_for(env_id, 10, 60)
    same = ParallelAdapter(theirs, ours.spec.facts, NO_REPAIRS, False)
    pairs = [(digest(a), digest(b)) for a, b in itertools.zip_longest(turns(ours, 5, steps), turns(same, 5, steps))]
    assert len(pairs) > 9
    assert all(a == b for a, b in pairs)


class Careless(ParallelEnv):
    """Shows its dead nothing, speaks numpy, adds keys that are no agents, leaves infos out."""

    metadata = {"name": "careless_v0"}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012
    render_mode = None

    def observation_space(self, agent):
        return spaces.Discrete(9)

    action_space = observation_space

    def reset(self, seed=None, options=None):
        self.agents, self.t = ["a", "b"], 0
        return {"a": 0, "b": 0, "common": 5}, {}

    def step(self, actions):
        self.t += 1
        self.agents = ["b"] if self.t < 3 else []
        flags = {"a": np.bool_(True), "__all__": False}
        return {"b": self.t}, {x: np.float32(1) for x in actions}, flags, {"b": np.bool_(self.t == 3)}, {"common": 1}

    def close(self):
        pass


def test_a_careless_parallel_env_is_put_in_order():
    first, second, _, last = turns(from_pettingzoo(Careless()), 0, 9)
    assert first.rewards == {"a": 0.0, "b": 0.0}
    assert second.terminated == {"a": True, "b": False}
    assert second.final_observations == {"a": 0}
    assert second.observations == {"b": 1}
    assert second.infos == {"a": {}, "b": {}}
    assert last.truncated == {"b": True}
    assert last.over
    assert {type(flag) for flag in last.truncated.values()} == {bool}


def test_an_agent_may_not_leave_without_a_word():
    class Leaves(Careless):
        def step(self, actions):
            observations, rewards, _, truncated, infos = super().step(actions)
            return observations, rewards, {}, truncated, infos

    with pytest.raises(MosaicError, match="Agent 'a' left python:unnamed neither terminated nor truncated"):
        list(turns(from_pettingzoo(Leaves()), 0, 9))


def test_names_that_are_no_text_are_refused():
    class Pairs(Careless):
        possible_agents = [("red", 0), ("red", 1)]  # noqa: RUF012

    with pytest.raises(MosaicError, match=r"calls an agent \('red', 0\); Mosaic needs agents whose names are text"):
        from_pettingzoo(Pairs())


class OneArray(AECEnv):
    """Shows everybody the same array and writes into it."""

    metadata = {"name": "one_array_v0"}  # noqa: RUF012
    render_mode = None

    def __init__(self):
        self.possible_agents = ["a", "b"]
        self._array = np.zeros(3, np.float32)

    def observation_space(self, agent):
        return spaces.Box(0, 10, (3,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def observe(self, agent):
        return self._array

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in "ab")
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in "ab")
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "a"
        self._array[:] = 0

    def step(self, action):
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self._array += 1
        self.agent_selection = "b" if self.agent_selection == "a" else "a"
        if self._array[0] == 5:
            self.terminations = dict.fromkeys(self.agents, True)

    def close(self):
        pass


def test_what_an_env_writes_into_later_is_copied():
    seen = list(turns(from_pettingzoo(OneArray()), 0, 9))
    assert [next(iter(turn.observations.values()))[0] for turn in seen[:-1]] == [0, 1, 2, 3, 4]
    assert {agent: look[0] for agent, look in seen[-1].final_observations.items()} == {"a": 5, "b": 5}
    shared = list(turns(from_pettingzoo(OneArray(), aliases=False), 0, 9))
    assert shared[0].observations["a"][0] == 5  # so the copies above are needed


def test_an_illegal_move_that_reaches_pettingzoo_ends_the_game_with_both_flags():
    env = make_env("classic/tictactoe_v3")
    env.reset(0)
    env.step({"player_1": 0})
    turn = env.step({"player_2": 0})
    assert turn.over
    assert turn.rewards == {"player_1": 0.0, "player_2": -1.0}
    assert all(turn.terminated.values())
    assert all(turn.truncated.values())


@pytest.mark.parametrize(
    ("env_id", "wrong", "message"),
    [
        ("classic/tictactoe_v3", {"player_2": 0}, r"Actions for \['player_2'\], but \['player_1'\] must act\."),
        ("classic/tictactoe_v3", {}, r"Actions for \[\], but \['player_1'\] must act\."),
        (
            "mpe/simple_push_v3",
            {"agent_0": 0},
            r"Actions for \['agent_0'\], but \['adversary_0', 'agent_0'\] must act\.",
        ),
    ],
)
def test_wrong_agents_are_refused(env_id, wrong, message):
    env = make_env(env_id)
    env.reset(0)
    with pytest.raises(ValueError, match=message):
        env.step(wrong)


@pytest.mark.parametrize("env_id", ["classic/tictactoe_v3", "mpe/simple_push_v3"])
def test_nothing_is_played_before_the_first_reset_or_after_the_end(env_id):
    env = make_env(env_id)
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        env.step({})
    *_, last = turns(env, 0, 100)
    assert last.over
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        env.step(dict.fromkeys(env.possible_agents, 0))


def test_closing_one_env_leaves_its_neighbour_able_to_draw(monkeypatch):
    import pygame

    quits = []
    one, other = (make_env("mpe/simple_crypto_v3") for _ in range(2))
    one.reset(0)
    other.reset(0)
    assert one.render() is not None
    assert other.render() is not None
    monkeypatch.setattr(pygame, "quit", lambda: quits.append("quit"))
    one.close()
    assert quits == []
    assert other.render().shape == (700, 700, 3)
    other.env.close()  # as PettingZoo does it
    assert quits == ["quit"]


def test_the_loser_of_a_game_is_told_in_the_winners_turn():
    env = make_env("classic/tictactoe_v3")
    env.reset(0)
    for agent, square in (("player_1", 0), ("player_2", 3), ("player_1", 1), ("player_2", 4)):
        env.step({agent: square})
    turn = env.step({"player_1": 2})
    assert turn.over
    assert turn.rewards == {"player_1": 1.0, "player_2": -1.0}
    assert turn.terminated == {"player_1": True, "player_2": True}
    assert turn.final_observations.keys() == {"player_1", "player_2"}
    assert env.agents == ()
