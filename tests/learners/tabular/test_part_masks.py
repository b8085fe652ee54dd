"""Masks of actions with several parts: any form that an env gives, played and trained on by every kind of learner."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from pettingzoo import ParallelEnv

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.adapters.user import adapt
from mosaic.envs.codes import space_code
from mosaic.envs.env import EnvFacts
from mosaic.envs.spaces import mask_reader, objection
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.agent_tables import TableSetup
from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
from mosaic.policies.registry import load_policy
from mosaic.policies.tabular import TabularPolicyController
from mosaic.testing import ContractError, check_env
from mosaic.workers.tabular.policies import legal_columns
from tests.learners.small_runs import assembled

FLAT = [1, 0, 0, 1, 1]  # of MultiDiscrete([2, 3]): the first part must be 0, the second 1 or 2


class Parts(gymnasium.Env):
    """Pays 1 for a second part of 2; what the mask forbids fails the test."""

    observation_space = Discrete(3)

    def __init__(self, form="flat", space=None):
        self.action_space = space or MultiDiscrete([2, 3])
        self.form = form

    def mask(self):
        flat = np.array(FLAT, np.int8)
        return {"flat": flat, "tuple": (flat[:2], flat[2:]), "list": [flat[:2].tolist(), None]}[self.form]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {"action_mask": self.mask()}

    def step(self, action):
        first, second = action.values() if isinstance(action, dict) else action
        assert first == 0
        assert self.form == "list" or second in (1, 2)
        self.steps += 1
        return self.steps % 3, float(second == 2), self.steps == 4, False, {"action_mask": self.mask()}


class Team(ParallelEnv):
    """The same for two agents, in PettingZoo's form: the mask is in the info."""

    metadata = {"name": "team"}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012

    def observation_space(self, agent):
        return Discrete(3)

    def action_space(self, agent):
        return MultiDiscrete([2, 3])

    def infos(self):
        return {agent: {"action_mask": (np.array(FLAT[:2]), np.array(FLAT[2:]))} for agent in self.possible_agents}

    def reset(self, seed=None, options=None):
        self.agents, self.steps = ["a", "b"], 0
        return {"a": 0, "b": 0}, self.infos()

    def step(self, actions):
        for first, second in actions.values():
            assert first == 0
            assert second in (1, 2)
        agents, self.steps = self.agents, self.steps + 1
        rewards = {agent: float(actions[agent][1] == 2) for agent in agents}
        over = self.steps == 4
        self.agents = [] if over else agents
        ends, lives = dict.fromkeys(agents, over), dict.fromkeys(agents, False)
        return dict.fromkeys(agents, self.steps % 3), rewards, ends, lives, self.infos()


def own(raw):
    return adapt(raw, EnvFacts(EnvironmentConfig(env_id="python:tests:env")), info_masks=True)


SPACES = {
    "multi_discrete": MultiDiscrete([2, 3]),
    "tuple": Tuple([Discrete(2), Discrete(3)]),
    "dict": Dict({"first": Discrete(2), "second": Discrete(3)}),
}


@pytest.mark.parametrize("form", ["flat", "tuple"])
@pytest.mark.parametrize("space", ["multi_discrete", "tuple"])
def test_a_turn_holds_the_flags_of_all_parts_in_one_array(form, space):
    turn = own(Parts(form, SPACES[space])).reset(0)
    (mask,) = turn.action_masks.values()
    assert mask.dtype == np.bool_
    assert mask.tolist() == [bool(flag) for flag in FLAT]


def test_forms_of_masks():
    assert mask_reader(SPACES["dict"])({"first": [1, 0], "second": None}).tolist() == [True, False, True, True, True]
    bits = mask_reader(MultiBinary(3))
    assert bits(np.array([0, 1, 2], np.int8)).tolist() == [
        True,
        False,
        False,
        True,
        True,
        True,
    ]  # as Gymnasium's sample
    assert bits(np.array([1, 0, 0, 1, 1, 1])).tolist() == [True, False, False, True, True, True]
    assert mask_reader(MultiDiscrete([2, 2]))(np.array([[1, 0], [0, 1]])).tolist() == [True, False, False, True]
    for wrong in (np.ones(6), (np.ones(2),), np.ones(3, np.bool_)):
        with pytest.raises(InputError, match="mask of MultiDiscrete"):
            mask_reader(MultiDiscrete([2, 3]))(wrong)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_random_play_is_legal_and_illegal_actions_are_named(space):
    env = own(Parts("tuple" if isinstance(space, MultiDiscrete) else "flat", space))
    player = load_policy("random", env.spec)
    player.begin(env.possible_agents, 1)
    played = set()
    turn = env.reset(0)
    for _ in range(60):
        (action,) = player.act(turn).values()
        played.add(space_code(space).encode(action))
        turn = env.reset() if not turn.observations else env.step({env.possible_agents[0]: action})
        turn = turn if turn.observations else env.reset()
    assert played == {1, 2}
    illegal = space_code(space).decode(3)
    (mask,) = turn.action_masks.values()
    assert objection(space)(illegal, mask).endswith("whose part 0 is illegal here")
    assert objection(space)(space_code(space).decode(2), mask) is None


def test_the_contract_knows_them():
    assert check_env(lambda: own(Parts())).masked
    shut = Parts()
    shut.mask = lambda: np.array([0, 0, 1, 1, 1])
    with pytest.raises(ContractError, match="its mask allows nothing"):
        check_env(lambda: own(shut))


@pytest.mark.parametrize("storage", ["dense", "hashed"])
@pytest.mark.parametrize("raw", [Parts, Team])
def test_tables_learn_and_play_legal_actions(storage, raw):
    env = own(raw()) if raw is Parts else adapt(raw(), EnvFacts(EnvironmentConfig(env_id="python:tests:env")))
    options = TabularOptions(table_engine="list", epsilon=0.3)
    training = MultiAgentTraining(
        env, dict.fromkeys(env.possible_agents, "table"), TableSetup("q_learning", options, storage), 1
    )
    training.advance(800)
    learner = training.learners["table"]
    rows = learner.visits[:3] if storage == "dense" else learner.visits[: len(learner)]
    assert (rows.sum(axis=0) > 0).tolist() == [False, True, True, False, False, False]
    code = space_code(env.action_spaces[env.possible_agents[0]])
    player = TabularPolicyController(learner.values, lambda seen: 0, code.decode, legal_columns(code))
    player.begin(env.possible_agents, 0)
    assert {tuple(action) for action in player.act(env.reset(0)).values()} == {(0, 2)}


def test_a_learner_that_trains_itself_in_an_env():
    learner = TabularLearner(3, 6, "q_learning", TabularOptions(table_engine="list", epsilon=0.5), seed=1)
    learner.train(own(Parts("tuple")), episodes=100)
    assert (learner.visits.sum(axis=0) > 0).tolist() == [False, True, True, False, False, False]


@pytest.mark.parametrize("engine", ["fused", "torch"])
@pytest.mark.parametrize("env", ["Parts", "Team"])
def test_networks_learn_from_legal_actions(engine, env):
    options = {"info_masks": True, "form": "tuple"} if env == "Parts" else {}
    with assembled(f"python:{__name__}:{env}", {"engine": engine, "n_steps": 32}, env_options=options) as made:
        for _ in range(8):
            made.learner.iterate()
        assert made.learner.progress().returns[0].mean() > 2.0  # random play: 2 of 4
