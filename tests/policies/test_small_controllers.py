"""random, python: and human."""

import builtins

import numpy as np
import pytest
from gymnasium import spaces

from mosaic import load_policy, make_env
from mosaic.core.errors import InputError
from mosaic.core.turn import Turn
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.policies.human import HumanPolicyController, choices, parse_action
from mosaic.policies.random import RandomPolicyController
from mosaic.policies.registry import is_reproducible


def spec_of(space, agents=("a",)):
    observations = dict.fromkeys(agents, spaces.Discrete(1))
    return EnvSpec(EnvFacts(), tuple(agents), observations, dict.fromkeys(agents, space))


def turn_for(*agents, mask=None):
    masks = {} if mask is None else {agent: np.array(mask, bool) for agent in agents}
    return Turn(dict.fromkeys(agents, 0), masks, {}, {}, {}, {}, {})


def test_random_plays_every_legal_action_and_no_other():
    controller = RandomPolicyController(spec_of(spaces.Discrete(4, start=3)))
    controller.begin(("a",), 1)
    played = {controller.act(turn_for("a", mask=[0, 1, 0, 1]))["a"] for _ in range(60)}
    assert played == {4, 6}
    assert {controller.act(turn_for("a"))["a"] for _ in range(100)} == {3, 4, 5, 6}


def test_random_neither_reads_nor_moves_the_envs_own_stream():
    space = spaces.Box(-1, 1, (2,))
    space.seed(5)
    expected = space.sample()
    space.seed(5)
    controller = RandomPolicyController(spec_of(space))
    controller.begin(("a",), 1)
    one = controller.act(turn_for("a"))["a"]
    assert (space.sample() == expected).all()
    controller.begin(("a",), 1)
    assert (controller.act(turn_for("a"))["a"] == one).all()
    controller.begin(("a",), 2)
    assert (controller.act(turn_for("a"))["a"] != one).any()


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_policies.py").write_text(
        """
def first_legal(observation, mask):
    return int(mask.argmax())

class Counter:
    made = []
    def __init__(self, spec, agent, seed):
        self.agent, self.forgotten = agent, []
        Counter.made.append(self)
    def begin(self, agents, seed):
        self.agents, self.n = agents, -1
    def act(self, turn):
        self.n += 1
        return {agent: int(turn.action_masks[agent].nonzero()[0][-1]) for agent in turn.observations}
    def forget(self, agent):
        self.forgotten.append(agent)
    def close(self):
        self.closed = True

class Halfway:
    def __init__(self, spec, agent, seed): pass
    def act(self, turn): pass

def four(a, b, c, d): pass
number = 3
"""
    )
    return "python:own_policies:"


def test_a_function_is_a_policy(own_code):
    env = make_env("classic/tictactoe_v3")
    controller = load_policy(own_code + "first_legal", env.spec)
    controller.begin(env.possible_agents, 0)
    assert controller.act(env.reset(0)) == {"player_1": 0}


def test_a_factory_makes_one_controller_per_agent(own_code):
    from mosaic import play_episode

    env = make_env("classic/tictactoe_v3")
    episode = play_episode(env, {"*": own_code + "Counter"})
    import own_policies

    assert [c.agent for c in own_policies.Counter.made] == ["player_1", "player_2"]
    assert [c.agents for c in own_policies.Counter.made] == [("player_1",), ("player_2",)]
    assert all(c.forgotten == [c.agent] and c.closed for c in own_policies.Counter.made)
    assert episode.actions[0] == {"player_1": 8}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("four", "takes 4 arguments. A policy is a function f(observation, mask) -> action"),
        ("number", "is a int, not a function"),
        ("first_leagl", "Did you mean 'first_legal'"),
        ("Halfway", "returned a Halfway without begin, close()"),
    ],
)
def test_wrong_code_is_explained(own_code, name, text):
    env = make_env("classic/tictactoe_v3")
    with pytest.raises(InputError) as caught:
        load_policy(own_code + name, env.spec).begin(env.possible_agents, 0)
    assert text in str(caught.value)


def test_the_terminal_asks_until_the_answer_is_legal():
    typed, said = iter(["x", "7", "1", "2"]), []
    controller = HumanPolicyController(spec_of(spaces.Discrete(3)), lambda prompt: next(typed), said.append)
    assert controller.act(turn_for("a", mask=[1, 0, 1])) == {"a": 2}
    assert said[0] == "'x' is not an action: type one of those in brackets."
    assert said[1] == "That would be 7, outside 0..2."
    assert said[2] == "That would be 1, which is illegal here (legal: 0, 2)."


def test_named_actions_may_be_typed_by_name_or_number():
    env, prompts = make_env("classic/chess_v6"), []
    turn = env.reset(0)
    typed = iter(["e2e5", "e2e4"])

    def read(prompt):
        prompts.append(prompt)
        return next(typed)

    controller = HumanPolicyController(env.spec, read, prompts.append)
    action = controller.act(turn)["player_0"]
    assert "g1f3" in prompts[0]
    assert env.step({"player_0": action}).infos["player_1"]["fen"].startswith("rnbqkbnr/pppppppp/8/8/4P3")
    leduc = make_env("classic/leduc_holdem_v4")
    turn = leduc.reset(0)
    controller = HumanPolicyController(leduc.spec, lambda prompt: "call")
    assert controller.act(turn) == {next(iter(turn.observations)): 0}


def test_typed_boxes():
    action = parse_action(spaces.Box(-1, 1, (2,)), "0.5, -1")
    assert action.dtype == np.float32
    assert action.tolist() == [0.5, -1.0]
    with pytest.raises(ValueError, match="cannot be typed"):
        parse_action(spaces.Dict({"a": spaces.Discrete(2)}), "1")


@pytest.mark.parametrize(
    ("space", "asked", "typed", "refused"),
    [
        (spaces.Box(-0.2, 0.2, (1,)), "1 number from -0.2 to 0.2", "[0.2]", ("5", "0.1 0.1", "left", "")),
        (spaces.Box(np.float32([-1, 0]), np.float32([1, 9])), "2 numbers: -1 to 1, 0 to 9", "(1, 9)", ("1 10",)),
        (spaces.MultiDiscrete([3, 2]), "2 numbers: 0 to 2, 0 to 1", "2 1", ("2 2", "0.5 1", "1")),
        (spaces.MultiBinary(3), "3 numbers from 0 to 1", "[0 1 1]", ("0 1 2", "0 1")),
    ],
)
def test_numbers_are_typed_within_their_bounds(space, asked, typed, refused):
    assert choices(space, None) == asked
    assert space.contains(parse_action(space, typed))
    for text in refused:
        with pytest.raises(ValueError, match=f"^type {asked}$"):
            parse_action(space, text)


def test_human_without_a_terminal_says_what_to_do(monkeypatch):
    class NoTerminal:
        def isatty(self):
            return False

    monkeypatch.setattr("sys.stdin", NoTerminal())
    monkeypatch.setattr(builtins, "input", lambda prompt: "0")
    with pytest.raises(InputError, match="'human' needs a person at a terminal"):
        load_policy("human", spec_of(spaces.Discrete(2)))


def test_what_can_be_repeated():
    assert is_reproducible("random")
    assert not is_reproducible("human")
