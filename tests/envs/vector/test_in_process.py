"""Envs in Python that step straight into the arrays."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MosaicError, UnknownNameError
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Turn
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvFacts
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.envs.vector.in_process import PythonVector, episode_seeds
from mosaic.envs.vector.layout import vector_arrays
from mosaic.envs.vector.slots import GymSlot, TurnSlot
from mosaic.testing.toys import Alternating, Fading, Toy


class Reference:
    """One env without others, through its Turns, as plainly as it can be written."""

    def __init__(self, env, shape, seed, index):
        self.env, self.shape = env, shape
        self.seeds = episode_seeds(seed, index)
        self.turn = env.reset(next(self.seeds))

    def shown(self):
        arrays = vector_arrays(self.shape)
        arrays.active.fill(0)
        for agent, observation in self.turn.observations.items():
            row = self.shape.agents.index(agent)
            slot = 0 if self.shape.turn_based else row
            arrays.active[slot] = 1
            arrays.who[slot] = row
            row_code(self.env.observation_spaces[agent]).write(observation, arrays.obs[slot, : self.shape.widths[row]])
            if self.shape.masked:
                arrays.mask[slot, : self.shape.heads[row].width] = self.turn.action_masks.get(agent, 1)
        return arrays

    def step(self, act):
        actions = {}
        for agent in self.turn.observations:
            row = self.shape.agents.index(agent)
            space = self.env.action_spaces[agent]
            actions[agent] = action_code(space).action(act[0 if self.shape.turn_based else row])
        turn = self.env.step(actions)
        self.turn = self.env.reset(next(self.seeds)) if turn.over else turn
        arrays = self.shown()
        for row, agent in enumerate(self.shape.agents):
            arrays.rew[row] = turn.rewards.get(agent, 0)
            arrays.term[row] = turn.terminated.get(agent, False)
            arrays.trunc[row] = turn.truncated.get(agent, False)
            if arrays.trunc[row]:
                observation = turn.final_observations[agent]
                row_code(self.env.observation_spaces[agent]).write(
                    observation, arrays.fin[row, : self.shape.widths[row]]
                )
        return arrays


def draw(random, vector):
    """Legal actions for all slots."""
    shape = vector.shape
    act = np.zeros((shape.slots, shape.parts), np.float32)
    for slot in range(shape.slots):
        head = shape.heads[vector.who[slot]]
        if head.kind == "gaussian":
            act[slot, : head.parts] = random.normal(0, 2, head.parts)
        elif shape.masked:
            act[slot, 0] = random.choice(np.flatnonzero(vector.mask[slot]))
        else:
            act[slot, : head.parts] = [random.integers(n) for n in head.sizes]
    return act


def play_beside_the_reference(vector, envs, steps, seed=5):
    """How often agents were terminated and truncated in steps that agreed in everything."""
    shape = vector.shape
    one = type(shape)(1, shape.agents, shape.turn_based, shape.widths, shape.heads, shape.masked)
    references = [Reference(env, one, seed, index) for index, env in enumerate(envs)]
    random = np.random.default_rng(seed)
    vector.reset(seed)
    compare(vector, [reference.shown() for reference in references], "start")
    ends = np.zeros(2, int)
    for step in range(steps):
        act = draw(random, vector)
        vector.step(act)
        blocks = act.reshape(shape.envs, shape.slots_per_env, shape.parts)
        compare(vector, [r.step(block) for r, block in zip(references, blocks, strict=True)], step)
        ends += [int(vector.term.sum()), int(vector.trunc.sum())]
    return ends


def compare(vector, expected, where):
    acts = np.concatenate([arrays.active for arrays in expected]) == 1
    for name in ("who", "active", "rew", "term", "trunc", "obs"):
        got, want = getattr(vector, name), np.concatenate([getattr(arrays, name) for arrays in expected])
        np.testing.assert_array_equal(got, want, err_msg=f"{name} at {where}")
    if vector.shape.masked:  # nobody looks at the mask of those who do not act
        np.testing.assert_array_equal(vector.mask[acts], np.concatenate([a.mask for a in expected])[acts])
    cut = vector.trunc == 1
    np.testing.assert_array_equal(vector.fin[cut], np.concatenate([a.fin for a in expected])[cut])


@pytest.mark.parametrize(
    ("env_id", "options", "steps"),
    [
        ("gym/CartPole-v1", {"max_episode_steps": 20}, 400),
        ("gym/Pendulum-v1", {"max_episode_steps": 30}, 100),
        ("gym/FrozenLake-v1", {}, 300),
        ("gym/LunarLander-v3", {"max_episode_steps": 60}, 250),
    ],
)
def test_the_short_way_to_gymnasium_gives_what_the_env_gives(env_id, options, steps):
    vector = PythonVector([make_env(env_id, **options) for _ in range(3)])
    assert all(type(slot) is GymSlot for slot in vector._slots.values())
    envs = [make_env(env_id, **options) for _ in range(3)]
    terminated, truncated = play_beside_the_reference(vector, envs, steps)
    assert truncated > 0 or env_id == "gym/FrozenLake-v1"
    assert terminated > 0 or env_id == "gym/Pendulum-v1"
    vector.close()


@pytest.mark.parametrize(
    ("env_id", "options", "steps"),
    [
        ("gym/Taxi-v3", {"info_masks": True, "max_episode_steps": 15}, 60),
        ("classic/tictactoe_v3", {}, 60),
        ("classic/connect_four_v3", {}, 60),
        ("mpe/simple_spread_v3", {"max_cycles": 7}, 25),
        ("mpe/simple_tag_v3", {"max_cycles": 5, "continuous_actions": True}, 15),
        ("classic/texas_holdem_v4", {"num_players": 3}, 60),
    ],
)
def test_every_other_env_gives_its_turns(env_id, options, steps):
    vector = PythonVector([make_env(env_id, **options) for _ in range(2)])
    assert all(type(slot) is TurnSlot for slot in vector._slots.values())
    ends = play_beside_the_reference(vector, [make_env(env_id, **options) for _ in range(2)], steps)
    assert ends.sum() > 0
    vector.close()


@pytest.mark.parametrize("toy", [Alternating, Fading])
def test_toys_that_take_turns_and_that_die(toy):
    assert play_beside_the_reference(PythonVector([toy(), toy()]), [toy(), toy()], 20).sum() > 10


def seen(vector):
    return [int(row.argmax()) if row.any() else None for row in vector.obs]


def test_an_early_death_empties_the_slot_until_the_env_begins_anew():
    vector = PythonVector([Fading()])
    vector.reset(0)
    episode = child_seed(0, "env", 0, 0) % 9
    assert (vector.active.tolist(), seen(vector)) == ([1, 1, 0], [10 * episode, 10 * episode, None])
    act = np.zeros((3, 1), np.float32)
    vector.step(act)
    vector.step(act)
    assert vector.rew.tolist() == [2, 2, 2]
    assert (vector.term.tolist(), vector.trunc.tolist()) == ([1, 0, 0], [0, 0, 0])
    assert (vector.active.tolist(), seen(vector)) == ([0, 1, 1], [None, 10 * episode + 2, 10 * episode + 2])
    vector.step(act)
    assert (vector.term.tolist(), vector.rew.tolist()) == ([0, 0, 0], [0, 3, 3])
    vector.step(act)
    assert (vector.term.tolist(), vector.trunc.tolist(), vector.rew.tolist()) == ([0, 0, 1], [0, 1, 0], [0, 4, 4])
    assert vector.fin[1].argmax() == 94
    episode = child_seed(0, "env", 0, 1) % 9
    assert (vector.active.tolist(), seen(vector)) == ([1, 1, 0], [10 * episode, 10 * episode, None])


class Firm:
    """Plays its agents with action 0 and keeps a diary."""

    def __init__(self, *agents):
        self.agents, self.begun, self.acted, self.closed = agents, [], [], 0

    def plays(self, index):
        return self.agents

    def begin(self, index, seed):
        self.begun.append((index, seed))

    def act(self, index, turn):
        asked = [agent for agent in turn.observations if agent in self.agents]
        self.acted.append((index, *asked))
        return dict.fromkeys(asked, 0)

    def close(self):
        self.closed += 1


def test_others_move_until_the_learner_is_on_turn_and_what_is_paid_meanwhile_is_summed():
    others = Firm("o")
    vector = PythonVector([Alternating()], others)
    assert vector.shape.agents == ("x",)
    vector.reset(3)
    act = np.zeros((1, 1), np.float32)
    vector.step(act)
    assert (vector.rew.tolist(), vector.term.tolist()) == ([2], [0])  # step 1 pays o, step 2 pays x
    assert vector.steps.tolist() == [2]
    vector.step(act)
    assert (vector.rew.tolist(), vector.term.tolist()) == ([-5], [1])
    assert vector.steps.tolist() == [2]
    assert seen(vector) == [10 * (child_seed(3, "env", 0, 1) % 9)]
    episodes = [child_seed(3, "env", 0, episode) for episode in (0, 1)]
    assert others.begun == [(0, child_seed(seed, "others")) for seed in episodes]
    assert others.acted == [(0, "o"), (0, "o")]
    vector.close()
    assert others.closed == 1


def test_others_may_open_and_what_they_bring_us_before_our_first_look_is_left_out():
    vector = PythonVector([Alternating()], Firm("x"))
    vector.reset(3)
    assert (vector.rew.tolist(), seen(vector)) == ([0], [10 * (child_seed(3, "env", 0, 0) % 9) + 1])
    act = np.zeros((1, 1), np.float32)
    vector.step(act)
    assert (vector.rew.tolist(), vector.steps.tolist()) == ([3], [3])  # the opening is a step of the episode
    vector.step(act)
    assert (vector.rew.tolist(), vector.term.tolist(), vector.steps.tolist()) == ([1], [1], [1])
    assert seen(vector) == [10 * (child_seed(3, "env", 0, 1) % 9) + 1]


def test_others_act_beside_us_and_play_on_after_our_death():
    others = Firm("b", "c")
    vector = PythonVector([Fading()], others, first=7)
    vector.reset(0)
    act = np.zeros((1, 1), np.float32)
    vector.step(act)
    assert (vector.rew.tolist(), vector.term.tolist()) == ([1], [0])
    vector.step(act)
    assert (vector.rew.tolist(), vector.term.tolist()) == ([2], [1])
    assert others.acted == [(7, "b"), (7, "b", "c"), (7, "b", "c"), (7, "b", "c")]
    assert seen(vector) == [10 * (child_seed(0, "env", 7, 1) % 9)]


class Uneven(Toy):
    """x sees and does more than o."""

    def __init__(self):
        super().__init__("xo", EnvFacts(EnvironmentConfig(family="python", env_id="uneven"), turn_based=True))
        self.observation_spaces = {"x": spaces.Box(0, 1, (3,)), "o": spaces.Box(0, 1, (1,))}
        self.action_spaces = {"x": spaces.Discrete(4), "o": spaces.Discrete(2)}
        self.spec = type(self.spec)(self.spec.facts, self.possible_agents, self.observation_spaces, self.action_spaces)

    def show(self, agent):
        self._acting = (agent,)
        nobody = dict.fromkeys("xo", False)
        look = np.full(self.observation_spaces[agent].shape, self.t + 1, np.float32)
        masks = {"x": np.array([True, False, True, False])} if agent == "x" else {}
        return Turn({agent: look}, masks, dict.fromkeys("xo", 0.0), nobody, nobody, {}, {agent: {}})

    def _first(self):
        return self.show("x")

    def _next(self):
        return self.show("xo"[self.t % 2])


def test_narrow_agents_leave_the_end_of_their_rows_zero():
    vector = PythonVector([Uneven()])
    vector.reset(0)
    assert (vector.obs.tolist(), vector.mask.tolist()) == ([[1, 1, 1]], [[1, 0, 1, 0]])
    vector.step(np.zeros((1, 1), np.float32))
    assert (vector.who.tolist(), vector.obs.tolist(), vector.mask.tolist()) == ([1], [[2, 0, 0]], [[1, 1, 0, 0]])


def test_masks_that_were_not_expected_are_no_surprise_for_the_learner():
    with pytest.raises(MosaicError) as raised:
        PythonVector([Uneven()], masked=False).reset(0)
    assert str(raised.value) == (
        "python:uneven restricts what 'x' may do, but gave no mask in its first Turn. "
        "Create the vector env with masked=True."
    )


def test_an_env_has_the_same_episodes_wherever_it_stands():
    whole = PythonVector([make_env("gym/CartPole-v1") for _ in range(3)])
    last = PythonVector([make_env("gym/CartPole-v1")], first=2)
    whole.reset(1)
    last.reset(1)
    for _ in range(60):
        whole.step(np.ones((3, 1), np.float32))
        last.step(np.ones((1, 1), np.float32))
        assert whole.obs[2].tolist() == last.obs[0].tolist()
    assert whole.obs[0].tolist() != whole.obs[2].tolist()


class Broken(gymnasium.Env):
    observation_space = spaces.Box(0, 1, (2,))
    action_space = spaces.Discrete(2)
    closed = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if action == 1:
            raise ValueError("the pole broke")
        return np.zeros(2, np.float32), 0.0, False, False, {}

    def close(self):
        Broken.closed += 1
        raise OSError("stuck")


def test_an_error_names_the_env_and_closing_reaches_all():
    facts = EnvFacts(EnvironmentConfig(family="python", env_id="tests:Broken"))
    vector = PythonVector([GymnasiumEnv(Broken(), facts) for _ in range(3)], first=4)
    vector.reset(0)
    with pytest.raises(ValueError, match="the pole broke") as raised:
        vector.step(np.array([[0], [1], [0]], np.float32))
    assert raised.value.__notes__ == ["This came from python:tests:Broken, env number 5 of the vector."]
    with pytest.raises(OSError, match="stuck"):
        vector.close()
    assert Broken.closed == 3


def test_what_cannot_stand_side_by_side():
    with pytest.raises(InputError, match=r"^A vector env needs at least one env\.$"):
        PythonVector([])
    with pytest.raises(
        InputError, match=r"^Envs that differ in agents, observations or actions cannot form one vector env"
    ):
        PythonVector([Fading(), Alternating()])
    with pytest.raises(UnknownNameError, match=r"^There is no agent named 'y'\. Known: o, x\.$"):
        PythonVector([Alternating()], Firm("y"))
    with pytest.raises(InputError) as raised:
        PythonVector([Alternating()], Firm("o", "x"))
    assert str(raised.value) == (
        "All agents of python:mosaic.testing.toys:Alternating have fixed policies (x, o): there is nothing to learn."
    )


class Idle(Alternating):
    """x's first move ends every game."""

    def _next(self):
        return self._turn("", {"x": 0.0, "o": 0.0}, terminated="xo")


def test_a_learner_that_never_has_a_turn_is_told_so():
    with pytest.raises(MosaicError) as raised:
        PythonVector([Idle()], Firm("x")).reset(0)
    assert str(raised.value) == (
        "1000 episodes of python:mosaic.testing.toys:Alternating passed without a turn of o: there is nothing to learn."
    )


def test_pictures_come_from_the_env_itself():
    vector = PythonVector([make_env("gym/CartPole-v1"), make_env("gym/CartPole-v1")])
    vector.reset(0)
    pictures = [vector.render(0), vector.render(1)]
    assert pictures[0].shape == (400, 600, 3)
    assert (pictures[0] != pictures[1]).any()
    vector.close()
