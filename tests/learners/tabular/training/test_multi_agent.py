"""Any env, any number of agents: steps reach the right table whole, whatever kind of table it is."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from pettingzoo import ParallelEnv

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.adapters.user import adapt
from mosaic.envs.catalog import make_env
from mosaic.envs.codes import space_code
from mosaic.envs.env import EnvFacts
from mosaic.learners.tabular.hashed.learner import HashedLearner
from mosaic.learners.tabular.options import ALGORITHMS, TabularOptions
from mosaic.learners.tabular.training.agent_codes import check_sharing, choose_storage, codes_of, needs_bins
from mosaic.learners.tabular.training.agent_tables import TableSetup
from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
from mosaic.testing import toys

BITS = 100  # 2**100 states: no table has a row for each
LIST = TabularOptions(table_engine="list", epsilon=0.3, discount_factor=0.5)


class FirstBit(gymnasium.Env):
    """Says the first of many bits; the best return is the number of steps."""

    def __init__(self, bits=BITS, steps=8):
        self.observation_space, self.action_space = MultiBinary(bits), Discrete(2)
        self.steps = steps

    def _show(self):
        self.shown = np.zeros(self.observation_space.n, np.int8)
        self.shown[:2] = self.np_random.integers(0, 2, 2)
        return self.shown

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number = 0
        return self._show(), {}

    def step(self, action):
        reward = float(action == self.shown[0])
        self.step_number += 1
        return self._show(), reward, False, self.step_number == self.steps, {}


class Masked(gymnasium.Env):
    """Two digits; the mask of each is its own, and what it forbids ends the test."""

    observation_space, action_space = Discrete(3), MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number = 0
        return 0, {"action_mask": self._mask()}

    def _mask(self):
        return np.array([1, 0, 0, 1, 1], np.int8)

    def step(self, action):
        assert action[0] == 0
        assert action[1] in (1, 2)
        self.step_number += 1
        return self.step_number % 3, float(action[1] == 2), self.step_number == 4, False, {"action_mask": self._mask()}


class Uneven(ParallelEnv):
    """Two agents that see different things."""

    metadata = {"name": "uneven"}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012

    def observation_space(self, agent):
        return Discrete(2 if agent == "a" else 3)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents = ["a", "b"]
        return {"a": 0, "b": 2}, {"a": {}, "b": {}}

    def step(self, actions):
        agents, self.agents = self.agents, []
        rewards = {agent: float(actions[agent]) for agent in agents}
        return {"a": 1, "b": 0}, rewards, dict.fromkeys(agents, True), dict.fromkeys(agents, False), {"a": {}, "b": {}}


def own(raw, **more):
    return adapt(raw, EnvFacts(EnvironmentConfig(env_id="python:tests:env")), **more)


def train(env, storage="hashed", algorithm="q_learning", options=LIST, tables=None, seed=1, **more):
    setup = TableSetup(algorithm, options, storage)
    return MultiAgentTraining(env, tables or dict.fromkeys(env.possible_agents, "table"), setup, seed, **more)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_space_that_cannot_be_numbered_is_learned_by_every_algorithm(algorithm):
    training = train(own(FirstBit()), algorithm=algorithm)
    training.advance(1500)
    training.read_statistics()
    for learner in training.learners.values():
        learner.epsilon = 0.0
    training.advance(400)
    statistics = training.read_statistics()
    assert statistics.return_mean > 7.0
    assert statistics.length_mean == 8
    (learner,) = training.learners.values()
    assert isinstance(learner, HashedLearner)
    assert len(learner) == 4
    assert training.agent_steps == training.env_steps == 1900
    assert training.episodes == 1900 // 8
    assert 0.0 < training.coverage <= 1.0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_both_kinds_of_table_learn_the_same(algorithm):
    dense, hashed = (train(own(FirstBit(bits=5)), storage, algorithm) for storage in ("dense", "hashed"))
    for each in (dense, hashed):
        each.advance(300)
    assert dense.read_statistics() == hashed.read_statistics()
    table, rows = dense.learners["table"].values, hashed.learners["table"]
    assert np.array_equal(table[rows.keys.astype(int)], rows.values[: len(rows)])


@pytest.mark.parametrize("storage", ["dense", "hashed"])
def test_saved_and_restored_it_continues_bit_for_bit(storage, tmp_path):
    whole, parts = (train(make_env("classic/rps_v2"), storage) for _ in range(2))
    whole.advance(600)
    parts.advance(300)
    parts.save(tmp_path)
    resumed = train(make_env("classic/rps_v2"), storage)
    resumed.restore(tmp_path, parts.env_steps)
    resumed.advance(300)
    assert (resumed.env_steps, resumed.agent_steps, resumed.episodes) == (300, 600, 20)
    assert (whole.env_steps, whole.agent_steps, whole.episodes) == (300, 600, 20)
    assert np.array_equal(resumed.learners["table"].values[:4], whole.learners["table"].values[:4])


def test_agents_that_act_at_once_may_share_a_table_or_have_their_own():
    shared = train(make_env("classic/rps_v2"), "dense")
    shared.advance(30)
    assert shared.learners["table"].visits.sum() == shared.agent_steps == 30
    assert shared.learners["table"].episodes == shared.episodes == 1  # two agents ended, one episode did
    assert shared.learners["table"].epsilon == pytest.approx(0.3 * 0.995)
    apart = train(make_env("classic/rps_v2"), "dense", tables={"player_0": "first", "player_1": "second"})
    apart.advance(30)
    assert [int(learner.visits.sum()) for learner in apart.learners.values()] == [15, 15]
    assert apart.agents_of_tables() == {"first": ("player_0",), "second": ("player_1",)}


@pytest.mark.parametrize("algorithm", ["q_learning", "sarsa", "expected_sarsa", "double_q_learning"])
def test_a_game_by_turns_is_learned_through_its_masks(algorithm):
    env = make_env("classic/tictactoe_v3")
    training = train(env, "hashed", algorithm, TabularOptions(table_engine="list", epsilon=1.0))
    training.advance(10**9, 60)
    learner = training.learners["table"]
    assert learner.visits.sum() == training.agent_steps == training.env_steps
    empty = learner.find(space_code(env.observation_spaces["player_1"], 2).encode(np.zeros((3, 3, 2), np.int8)))
    assert learner.visits[empty].sum() == training.episodes  # who begins sees an empty board, and nobody else does


def test_a_lost_game_is_learned_by_the_one_who_lost_it():
    """Rewards that come while the other acts belong to the step before."""
    training = train(make_env("classic/tictactoe_v3"), "hashed", options=TabularOptions(epsilon=1.0, epsilon_min=1.0,
                     table_engine="list"))  # fmt: skip
    training.advance(2000)
    values = training.learners["table"].values[: len(training.learners["table"])]
    assert values.min() < 0.0 < values.max()


def test_the_mask_of_each_digit_becomes_one_of_the_whole_action():
    training = train(own(Masked(), info_masks=True), "hashed")
    training.advance(400)
    learner = training.learners["table"]
    assert (learner.visits[: len(learner)].sum(axis=0) > 0).tolist() == [False, True, True, False, False, False]


def test_boxes_of_few_whole_numbers_need_no_bins():
    env = make_env("classic/tictactoe_v3")
    codes = codes_of(env.spec, "player_1", None)
    assert codes.states.size == 2**18
    assert needs_bins(codes.states)
    assert not needs_bins(space_code(Discrete(3)))


@pytest.mark.parametrize("space", [Box(0.0, 1.0, (2,)), Box(0, 10**6, (2,), np.int64), Dict(a=Box(0.0, 1.0))])
def test_other_boxes_do(space):
    raw = FirstBit()
    raw.observation_space = space
    with pytest.raises(InputError, match=r"no row for every value of a Box: cut .* into bins"):
        codes_of(own(raw).spec, "agent_0", None)


def test_what_cannot_share_a_table_is_said():
    env = own(Uneven())
    with pytest.raises(InputError, match="'a' and 'b' have different spaces and cannot share a table"):
        train(env)
    with pytest.raises(InputError, match="monte_carlo follows the steps of one agent, and 'player_0' and 'player_1'"):
        train(make_env("classic/rps_v2"), algorithm="monte_carlo")
    apart = train(env, tables={"a": "first", "b": "second"}, algorithm="monte_carlo")
    apart.advance(40)
    assert apart.learners["first"].values[0, 1] > 0.0
    check_sharing({"a": "x"}, {}, "monte_carlo")


def test_dense_where_it_fits_hashed_where_it_does_not():
    few, many = space_code(Discrete(100)), space_code(MultiBinary(BITS), most=None)
    actions = space_code(Discrete(2))

    def choose(asked, states, **more):
        return choose_storage(asked, states, actions, "q_learning", LIST, **more)

    assert choose(None, few) == "dense"
    assert choose("hashed", few) == "hashed"
    assert choose(None, many) == "hashed"
    assert choose(None, few, memory_limit=100 * 2 * 64) == "dense"
    assert choose(None, few, memory_limit=100 * 2 * 64, tables=2) == "hashed"
    with pytest.raises(
        InputError,
        match=r"A dense table of about 10\^30 states × 2 actions needs about 10\^32 bytes; .* are free here\. "
        r"Keep only the visited states: --set training.params.table=hashed",
    ):
        choose("dense", many)
    with pytest.raises(InputError, match="needs 12,800 bytes; 1,000 are allowed"):
        choose("dense", few, memory_limit=1000)


class NoMoves:
    """Plays a with action 0."""

    agents = ("a",)

    def plays(self, index):
        return self.agents

    def begin(self, index, seed):
        pass

    def act(self, index, turn):
        return {"a": 0}


class OnlyB(toys.Uneven):
    def _first(self):
        return self._turn("b", {"b": 0.0})

    def _next(self):
        return self._turn("b", {"b": 1.0}) if self.t < self.STEPS else self._turn("", {"b": 2.0}, terminated="b")


@pytest.mark.parametrize("tables", [None, {"a": "red", "b": "blue"}, {"b": "blue"}])
def test_returns_are_those_of_all_agents_of_the_tables(tables):
    opponents = NoMoves() if tables == {"b": "blue"} else None
    training = train(toys.Uneven(turn_based=True), tables=tables, opponents=opponents)
    training.advance(18 if opponents is None else 14)
    mean = 4.0 if opponents is None else 8.0
    assert training.mean_return == mean
    statistics = training.read_statistics()
    assert (statistics.return_mean, statistics.return_min, statistics.return_max) == (mean, 2 * (mean - 4.0), 8.0)
    assert statistics.episodes == 2
    assert statistics.length_mean == 9
    assert training.mean_return is None


def test_an_agent_that_an_episode_does_not_have_has_no_return():
    training = train(OnlyB())
    training.advance(18)
    assert training.read_statistics().return_mean == 10.0
