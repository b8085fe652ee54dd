"""python:module:factory for every kind of env a user may have."""

from __future__ import annotations

import sys
from itertools import count

import pytest

from mosaic.core.errors import InputError, UnknownNameError
from mosaic.envs.catalog import make_env
from mosaic.testing import check_env

HEAD = """
import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
"""
SOUND = (
    HEAD
    + '''
class Line(gymnasium.Env):
    """Walk right; every observation is one and the same array."""

    observation_space = spaces.Box(0, 9, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length=4):
        self.length = length
        self.array = np.zeros(2, np.float32)

    def reset(self, *, seed=None, options=None):
        self.array[:] = 0
        return self.array, {}

    def step(self, action):
        self.array += action
        return self.array, -1, bool(self.array[0] == self.length), False, {}


class Together(ParallelEnv):
    metadata = {"name": "together_v0"}
    possible_agents = ["a", "b"]
    render_mode = None

    def __init__(self):
        self.array = np.zeros(2, np.float32)

    def observation_space(self, agent):
        return spaces.Box(0, 9, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents = ["a", "b"]
        self.array[:] = 0
        return dict.fromkeys(self.agents, self.array), {"a": {}, "b": {}}

    def step(self, actions):
        self.array += 1
        over = dict.fromkeys(self.agents, bool(self.array[0] == 5))
        answer = dict.fromkeys(self.agents, self.array), dict.fromkeys(self.agents, 1), over, dict(over), {}
        self.agents = [] if over["a"] else self.agents
        return answer

    def close(self):
        pass


def apart():
    from pettingzoo.classic import tictactoe_v3
    return tictactoe_v3.env()


def ours(short=False):
    from mosaic.testing.toys import Alternating, Fading
    return Alternating() if short else Fading()


class Nested:
    make = Line
'''
)
WRONG = (
    HEAD
    + """
number = 7


def text():
    return "CartPole"


def nothing(size):
    return None


def half():
    env = type("Half", (), {})()
    env.spec = "half"
    return env
"""
)
NUMBERS = count()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A user's file in the working folder, under a name of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text):
        name = f"my_envs_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(text)
        return f"python:{name}"

    return write


@pytest.mark.parametrize(
    ("factory", "turn_based", "agents"),
    [
        ("Line", False, ("agent_0",)),
        ("Nested.make", False, ("agent_0",)),
        ("Together", False, ("a", "b")),
        ("apart", True, ("player_1", "player_2")),
        ("ours", False, ("a", "b", "c")),
    ],
)
def test_every_kind_of_env_is_made_and_keeps_the_contract(module, factory, turn_based, agents):
    env_id = f"{module(SOUND)}:{factory}"
    report = check_env(lambda: make_env(env_id))
    assert report.env_id == env_id
    assert report.turn_based == turn_based
    assert tuple(row.agent for row in report.agents) == agents


def test_options_go_to_the_factory(module):
    name = module(SOUND)
    env = make_env(f"{name}:ours", short=True)
    assert env.possible_agents == ("x", "o")
    assert env.spec.facts.competitive  # what the user's Env says of itself stays
    assert env.spec.facts.config.options == {"short": True}
    assert make_env(f"{name}:Line", length=2).env.length == 2


@pytest.mark.parametrize(
    ("factory", "options", "message"),
    [
        ("number", {}, "number is a int, not a function or class that makes an env"),
        (
            "text",
            {},
            r"text returned a str. It must return a gymnasium.Env, a pettingzoo AECEnv or ParallelEnv, or a Mosaic Env",
        ),
        (
            "text",
            {"size": 3},
            r"text does not take these options \{'size': 3\}: got an unexpected keyword argument 'size'",
        ),
        ("nothing", {}, r"nothing does not take these options \{\}: missing a required argument: 'size'"),
        ("nothing", {"size": 1}, "nothing returned a NoneType"),
        ("half", {}, "half returned a Half"),
    ],
)
def test_wrong_factories(module, factory, options, message):
    with pytest.raises(InputError, match=message):
        make_env(f"{module(WRONG)}:{factory}", **options)


def test_a_factory_that_raises_is_shown_with_its_place(module):
    code = "class Fails:\n    def __init__(self):\n        raise RuntimeError('the port is taken')\n"
    with pytest.raises(
        InputError,
        match=r"Fails raised RuntimeError: the port is taken \(.*my_envs_\d+\.py:3\)\. It comes from your own code",
    ):
        make_env(f"{module(code)}:Fails")
    refusing = "from mosaic.core.errors import InputError\ndef make():\n    raise InputError('Bring a key.')\n"
    with pytest.raises(InputError, match=r"^Bring a key\.$"):
        make_env(f"{module(refusing)}:make")


def test_a_required_option_is_named(module):
    name = module("def make(path, *, size, speed=1):\n    raise NotImplementedError\n")
    with pytest.raises(InputError, match=r"Type: --set environment\.options\.size=VALUE$"):
        make_env(f"{name}:make", path="here")
    with pytest.raises(InputError, match=r"unexpected keyword argument 'sped'\. It takes: path, size, speed\.$"):
        make_env(f"{name}:make", path="here", size=3, sped=2)


def test_a_gymnasium_env_without_a_space_is_refused(module):
    name = module(
        "import gymnasium\n"
        "class Bare(gymnasium.Env):\n    action_space = gymnasium.spaces.Discrete(2)\n"
        "class Wrong(Bare):\n    observation_space = 4\n"
    )
    with pytest.raises(
        InputError, match=r":Bare: its observation_space is missing\. Set it in the class or in __init__"
    ):
        make_env(f"{name}:Bare")
    with pytest.raises(InputError, match=r":Wrong: its observation_space is of type int\."):
        make_env(f"{name}:Wrong")


def test_names_that_are_not_there(module):
    name = module(SOUND)
    with pytest.raises(UnknownNameError, match=r"There is no name in my_envs_\d+ named 'Lin'. Did you mean 'Line'\?"):
        make_env(f"{name}:Lin")
    with pytest.raises(InputError, match=r"there is no module 'no_such_file'.*a file my.py is named python:my:NAME"):
        make_env("python:no_such_file:make")
    with pytest.raises(InputError, match=r"is not python:MODULE:NAME"):
        make_env("python:no_such_file")


def test_modules_that_fail_when_imported(module):
    with pytest.raises(InputError, match=r"importing my_envs_\d+ failed: ZeroDivisionError: division by zero"):
        make_env(f"{module('1 / 0')}:make")
    with pytest.raises(InputError, match=r"my_envs_\d+ needs the module 'no_such_package'"):
        make_env(f"{module('import no_such_package')}:make")
