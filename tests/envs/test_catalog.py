"""How a name becomes an env, and what is said where it does not."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MissingExtraError, UnknownNameError
from mosaic.envs.catalog import entries, inspect_env, make_env
from mosaic.envs.families import pettingzoo as families
from mosaic.envs.family import newest, resolve_name, split_version
from tests.envs.env_cases import WATERWORLD, needs_waterworld


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ("gym/CartPole", "gym/CartPole-v1"),
        ("gym/FrozenLake", "gym/FrozenLake-v1"),
        ("classic/tictactoe", "classic/tictactoe_v3"),
        ("mpe/simple_spread", "mpe/simple_spread_v3"),
        ("butterfly/knights_archers_zombies", "butterfly/knights_archers_zombies_v10"),
    ],
)
def test_a_name_without_version_means_the_newest(asked, made):
    assert make_env(asked).spec.env_id == made


def test_versions_are_numbers():
    assert split_version("knights_archers_zombies_v10") == ("knights_archers_zombies", 10)
    assert split_version("Taxi") == ("Taxi", None)
    assert newest(["a_v9", "a_v10", "b-v0"]) == ["a_v10", "b-v0"]
    assert resolve_name("x", "a_v9", ["a_v9", "a_v10"]) == "a_v9"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("classic/ches", r"named 'classic/ches'. Did you mean 'classic/chess_v6'\? Known: .*Type: mosaic envs classic"),
        ("classic/chess_v5", r"There is no environment named 'classic/chess_v5'.*Installed: classic/chess_v6\."),
        ("gym/CartPol-v1", r"Did you mean 'gym/CartPole-v1'\?"),
        (
            "clasic/chess_v6",
            r"no environment family named 'clasic'. Did you mean 'classic'\? Known: .*mpe, python, sisl",
        ),
        ("build/game.x86_64", r"no environment family named 'build'\..* A game of Godot is godot/PATH\."),
        ("tictactoes", r"There is no environment named 'tictactoes'.*Type: mosaic envs"),
        ("my_envs:Maze", r"There is no environment named 'my_envs:Maze'.* Your own env is python:my_envs:Maze\.$"),
        ("envs/my.py:Maze", r"no environment family named 'envs'.* Your own env is python:envs/my\.py:Maze\.$"),
        ("my_envs.py", r"Your own env is python:my_envs\.py:NAME, with the name of a class or function of the file\.$"),
    ],
)
def test_an_unknown_name_says_what_is_known(asked, message):
    with pytest.raises(UnknownNameError, match=message):
        make_env(asked)


@pytest.mark.parametrize("asked", ["chess", "chess_v6"])
def test_a_name_without_family_says_which(asked):
    with pytest.raises(InputError, match=r"'chess(_v6)?' needs its family: type classic/chess_v6\."):
        make_env(asked)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("gym/CartPole-v1", r"gym/CartPole-v1 does not take these options \{'colour': 3\}: .*colour"),
        ("mpe/simple_v3", r"mpe/simple_v3 does not take these options \{'colour': 3\}: .*colour"),
        ("classic/chess_v6", r"classic/chess_v6 does not take these options \{'colour': 3\}: .*colour"),
    ],
)
def test_unknown_options_are_named(asked, message):
    with pytest.raises(InputError, match=message):
        make_env(asked, colour=3)


def test_options_reach_the_env():
    assert len(make_env("mpe/simple_spread_v3", N=5).possible_agents) == 5
    assert make_env("gym/FrozenLake-v1", map_name="8x8").observation_spaces["agent_0"].n == 64


@pytest.mark.parametrize(
    ("asked", "api_type", "message"),
    [
        ("classic/chess_v6", "parallel", "classic/chess_v6 is turn-based: its api_type is 'aec', not 'parallel'."),
        ("classic/chess_v6", "gym", "has several agents: its api_type is 'aec' or 'parallel', not 'gym'."),
        ("gym/CartPole-v1", "aec", "gym/CartPole-v1 has one agent: its api_type is 'gym', not 'aec'."),
    ],
)
def test_a_face_that_an_env_does_not_have(asked, api_type, message):
    with pytest.raises(InputError, match=message):
        make_env(EnvironmentConfig(env_id=asked, api_type=api_type))


def test_the_face_can_be_chosen():
    together = make_env(EnvironmentConfig(env_id="mpe/simple_push_v3", api_type="parallel"))
    apart = make_env(EnvironmentConfig(env_id="mpe/simple_push_v3", api_type="aec"))
    assert len(together.reset(1).observations) == 2
    assert len(apart.reset(1).observations) == 1


def test_one_family_can_be_listed():
    assert {entry.id.split("/")[0] for entry in entries("sisl")} == {"sisl"}
    with pytest.raises(UnknownNameError, match=r"no environment family named 'sisll'. Did you mean 'sisl'\?"):
        entries("sisll")


@pytest.fixture
def without(monkeypatch):
    """Pretends that a package is not installed."""
    real = importlib.util.find_spec

    def forget(package, *importers):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *rest: None if name == package else real(name, *rest)
        )
        for module in [name for name in sys.modules if name.startswith((f"{package}.", *importers))]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, package, None)
        families._is_installed.cache_clear()

    yield forget
    monkeypatch.undo()
    families._is_installed.cache_clear()


def test_a_family_that_is_not_installed_says_what_to_type(without):
    without("mpe2")
    assert entries("mpe") == []
    with pytest.raises(MissingExtraError, match=r"family 'mpe' is not installed. Type: pip install 'mosaic-rl\[mpe\]'"):
        make_env("mpe/simple_v3")


def test_a_missing_package_of_a_family_says_what_to_type(without):
    without("rlcard", "pettingzoo.classic.")
    leduc = next(entry for entry in entries("classic") if "leduc" in entry.id)
    assert not leduc.installed
    assert leduc.install == "pip install 'mosaic-rl[classic]'"
    with pytest.raises(
        MissingExtraError,
        match=r"classic/leduc_holdem_v4 needs the Python package 'rlcard', which is not installed. "
        r"Type: pip install 'mosaic-rl\[classic\]'",
    ):
        make_env("classic/leduc_holdem_v4")


def test_box2d_envs_say_what_to_type(without):
    without("Box2D", "gymnasium.envs.box2d")
    listed = {entry.id: entry for entry in entries("gym")}
    assert listed["gym/LunarLander-v3"].install == "pip install 'mosaic-rl[gym]'"
    assert listed["gym/CartPole-v1"].installed
    with pytest.raises(MissingExtraError, match=r"gym/LunarLander-v3 needs .* Type: pip install 'mosaic-rl\[gym\]'"):
        make_env("gym/LunarLander-v3")


def test_envs_that_need_more_say_what_to_type():
    listed = {entry.id: entry for entry in entries("gym")}
    if listed["gym/Ant-v5"].installed:
        pytest.skip("mujoco is installed")
    with pytest.raises(
        MissingExtraError,
        match=r"gym/Ant-v5 needs a package that is not installed. Type: pip install .mosaic-rl.mujoco.",
    ):
        make_env("gym/Ant-v5")


def test_facts_of_games():
    rummy = make_env("classic/gin_rummy_v4").spec.facts
    assert rummy.turn_based
    assert rummy.competitive
    assert rummy.win_above == 0.0
    assert not make_env("classic/hanabi_v5").spec.facts.competitive
    assert not make_env("classic/tictactoe_v3").spec.facts.has_chance


@needs_waterworld
def test_a_game_that_cannot_be_repeated_says_so():
    assert not make_env(WATERWORLD).spec.facts.reproducible


def test_games_are_listed_with_what_to_type():
    debug, path = (inspect_env(entry) for entry in entries("godot"))
    assert (debug.id, debug.installed, debug.install) == ("godot/debug", False, "mosaic check godot/debug")
    assert debug.note == "a game in the Godot editor; type this, then press Play:"
    assert (path.id, path.install) == ("godot/PATH", "mosaic check godot/PATH")
