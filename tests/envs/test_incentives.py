"""Incentives: known families tell the truth about shared rewards, own envs declare theirs, nobody guesses."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

from mosaic.core.errors import InputError
from mosaic.envs.catalog import describe_incentives, entries, inspect_env, make_env
from mosaic.envs.contract.report import ContractError
from mosaic.envs.families.pettingzoo import incentives_of
from mosaic.testing import check_env
from tests.envs.env_cases import IDS, WATERWORLD, needs_waterworld, steps_for, turns

SEVERAL = [entry for entry in entries() if entry.installed and entry.incentives != "single"]
SEEN, DONE = Box(0, 1, (2,), np.float32), Discrete(2)


def rewards_differ(env, seeds=3, steps=200):
    return any(
        len(set(turn.rewards.values())) > 1
        for seed in range(seeds)
        for turn in turns(env, seed, steps)
    )  # fmt: skip


def test_every_installed_env_is_classified():
    assert [entry.id for entry in entries() if entry.installed and entry.incentives == "unknown"] == []
    assert {entry.id for entry in SEVERAL} == {i for i in IDS if len(make_env(i).possible_agents) > 1}


@pytest.mark.parametrize("entry", SEVERAL, ids=lambda entry: entry.id)
def test_agents_that_share_a_reward_get_the_same_and_others_do_not(entry):
    env = make_env(entry.id)
    try:
        assert (env.spec.incentives, env.spec.facts.shared_reward) == (entry.incentives, entry.shared_reward)
        steps = steps_for(entry.id, 30, 300)
        if entry.shared_reward:
            assert not rewards_differ(env, seeds=1, steps=steps)
        elif entry.id not in ("classic/go_v5", "classic/chess_v6"):  # random games are longer than a test
            assert rewards_differ(env, seeds=12, steps=500)
        assert entry.shared_reward is not True or entry.incentives == "cooperative"
        assert not env.spec.facts.competitive or entry.incentives == "competitive"
    finally:
        env.close()


@pytest.mark.parametrize(
    ("env_id", "options", "shared"),
    [
        ("mpe/simple_spread_v3", {"local_ratio": 0}, True),
        ("mpe/simple_spread_v3", {"local_ratio": 0.5}, False),
        ("mpe/simple_reference_v3", {"local_ratio": 0.0}, True),
        ("sisl/multiwalker_v9", {"shared_reward": False}, False),
        ("sisl/pursuit_v4", {"shared_reward": False}, False),
        pytest.param(WATERWORLD, {"local_ratio": 0.0}, True, marks=needs_waterworld),
    ],
)
def test_options_decide_whether_a_reward_is_shared(env_id, options, shared):
    env = make_env(env_id, **options)
    try:
        assert env.spec.facts.shared_reward is shared
        assert rewards_differ(env, seeds=12, steps=60) is not shared
    finally:
        env.close()


def test_an_env_that_nobody_classified_is_unknown():
    assert incentives_of("simple_new", {}) == ("unknown", None)
    assert incentives_of("simple", {}) == ("single", None)


class Own(ParallelEnv):
    """Two agents of a user, paid as `pay` says."""

    pay = (1.0, 1.0)

    def __init__(self, metadata):
        self.metadata = {"name": "own", **metadata}
        self.possible_agents, self.agents = ["a", "b"], []

    def observation_space(self, agent):
        return SEEN

    def action_space(self, agent):
        return DONE

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return {agent: SEEN.low.copy() for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        observations, infos = self.reset()
        rewards = dict(zip(self.agents, self.pay, strict=True))
        no = dict.fromkeys(self.agents, False)
        return observations, rewards, no, no, infos


class Unequal(Own):
    pay = (1.0, 2.0)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "unknown"),
        ({"incentives": "mixed"}, "mixed"),
        ({"competitive": True}, "competitive"),
        ({"incentives": "cooperative", "shared_reward": False}, "cooperative"),
        ({"incentives": "cooperative", "shared_reward": True}, "cooperative, shared reward"),
        ({"shared_reward": True}, "cooperative, shared reward"),
    ],
)
def test_own_envs_declare_it_in_their_metadata(metadata, words):
    spec = make_env(lambda: Own(metadata)).spec
    assert describe_incentives(spec.incentives, spec.facts.shared_reward) == words


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"incentives": "co-operative"}, "It should be 'cooperative', 'competitive' or 'mixed'."),
        ({"incentives": "cooperative", "competitive": True}, 'metadata["competitive"] is True. Leave one of them out.'),
        ({"incentives": "mixed", "shared_reward": True}, "agents that share one reward are cooperative."),
        ({"shared_reward": "yes"}, """metadata["shared_reward"] is 'yes'. It should be True or False."""),
    ],
)
def test_contradictions_are_refused(metadata, text):
    with pytest.raises(InputError) as refused:
        make_env(lambda: Own(metadata))
    assert text in str(refused.value)


def test_the_contract_checks_a_declared_shared_reward():
    report = check_env(lambda: make_env(lambda: Own({"shared_reward": True})), steps=5)
    assert (report.incentives, report.shared_reward) == ("cooperative", True)
    with pytest.raises(ContractError, match="all agents get the same reward in every step"):
        check_env(lambda: make_env(lambda: Unequal({"shared_reward": True})), steps=5)


def test_descriptions_of_envs_have_it():
    found = {each.id: each for each in map(inspect_env, entries("mpe"))}
    assert found["mpe/simple_v3"].kind == "single"
    assert found["mpe/simple_spread_v3"].kind == "cooperative"
    assert found["mpe/simple_speaker_listener_v4"].kind == "cooperative, shared reward"
    assert found["mpe/simple_tag_v3"].kind == "mixed"
