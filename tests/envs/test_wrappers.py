"""Wrappers by name: each changes what it says and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, UnknownNameError
from mosaic.core.ids import AgentID
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Turn, digest
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.envs.wrappers.registry import WRAPPERS, parse_wrapper, wrap
from mosaic.envs.wrappers.transform import Transform
from tests.envs.wrapper_toys import (
    FLOAT_PICTURE,
    NESTED,
    PONG,
    TICTACTOE,
    VECTOR,
    Nursery,
    Player,
    Rotation,
    lookups,
    play,
)

ENVS: Mapping[str, Callable[[], Env]] = {
    "nursery": Nursery,
    "nursery of floats": lambda: Nursery(FLOAT_PICTURE),
    "nursery of vectors": lambda: Nursery(VECTOR),
    "nursery of dicts": lambda: Nursery(NESTED),
    "rotation": Rotation,
    **{
        name: (lambda name=name: make_env(name))  # type: ignore[misc]
        for name in (
            "gym/Acrobot-v1",
            "gym/Blackjack-v1",
            "gym/CarRacing-v3",
            "gym/CartPole-v1",
            "gym/CliffWalking-v1",
            "gym/FrozenLake-v1",
            "classic/chess_v6",
            "classic/connect_four_v3",
            "classic/tictactoe_v3",
            "butterfly/cooperative_pong",
        )
    },
}
SIGHTS = [
    *[(env, "resize:width=8,height=6") for env in ("gym/CarRacing-v3", "rotation", PONG, "nursery")],
    ("nursery of floats", "resize:width=20,height=3,filter=bilinear"),
    *[(env, "grayscale") for env in ("gym/CarRacing-v3", "rotation", PONG, "nursery", "nursery of floats")],
    (PONG, "grayscale:keep_dim=false"),
    *[(env, "frame_stack") for env in ("gym/CartPole-v1", TICTACTOE, PONG, "nursery", "nursery of vectors")],
    *[(env, "normalise") for env in ("gym/Acrobot-v1", TICTACTOE, "classic/chess_v6", PONG, "nursery of vectors")],
    *[(env, "flatten") for env in ("gym/Blackjack-v1", "gym/FrozenLake-v1", "classic/connect_four_v3", PONG)],
    *[(env, "flatten") for env in ("nursery", "nursery of dicts")],
]
OTHERS = [
    *[(env, "time_limit:max_steps=4") for env in ("gym/CartPole-v1", TICTACTOE, PONG, "nursery", "rotation")],
    *[(env, "clip_reward:low=-2,high=0.5") for env in ("gym/CliffWalking-v1", TICTACTOE, PONG, "nursery")],
    *[(env, "clip_reward:sign=true") for env in ("gym/CliffWalking-v1", "rotation", "nursery")],
    *[(env, f"python:{__name__}:Transform") for env in ("gym/CartPole-v1", TICTACTOE, PONG, "nursery")],
]


@pytest.mark.parametrize(("name", "reference"), SIGHTS)
def test_a_wrapper_of_observations_changes_nothing_else(name: str, reference: str) -> None:
    bare, wrapped = ENVS[name](), wrap(ENVS[name](), [reference])
    plain, changed = play(bare), play(wrapped)
    assert len(plain) == len(changed)
    for before, after in zip(plain, changed, strict=True):
        assert list(after.observations) == list(before.observations)
        assert list(after.final_observations) == list(before.final_observations)
        assert digest(Turn({}, *after[1:5], {}, {})) == digest(Turn({}, *before[1:5], {}, {}))
        assert after.infos.keys() == before.infos.keys()
    assert wrapped.agents == bare.agents
    assert wrapped.spec.action_spaces.keys() == bare.spec.action_spaces.keys()
    bare.close()
    wrapped.close()


@pytest.mark.parametrize(("name", "reference"), SIGHTS + OTHERS)
def test_observations_lie_in_the_spaces_and_are_never_written_to_again(name: str, reference: str) -> None:
    env = wrap(ENVS[name](), [reference])
    turns, sums, player = [env.reset(3)], [], Player(env, 3)
    while True:
        sums.append(digest(turns[-1]))
        for agent, observation in lookups(turns[-1]):
            assert env.observation_spaces[agent].contains(observation)
            assert env.spec.observation_spaces[agent] is env.observation_spaces[agent]
        if turns[-1].over or len(turns) > 10:
            break
        turns.append(env.step(player.act(turns[-1])))
    assert [digest(turn) for turn in turns] == sums
    env.close()


@pytest.mark.parametrize(("name", "reference"), SIGHTS + OTHERS)
def test_a_seed_gives_the_same_turns_on_a_fresh_and_on_a_used_env(name: str, reference: str) -> None:
    used, fresh = wrap(ENVS[name](), [reference]), wrap(ENVS[name](), [reference])
    play(used, seed=1, most=3)  # left in the middle
    assert [digest(turn) for turn in play(used, seed=5)] == [digest(turn) for turn in play(fresh, seed=5)]
    used.close()
    fresh.close()


@pytest.mark.parametrize("reference", sorted({reference for _, reference in SIGHTS + OTHERS}))
def test_pictures_and_closing_pass_through(reference: str) -> None:
    toy = Nursery()
    env = wrap(toy, [reference])
    play(env, most=2)
    assert np.array_equal(np.asarray(env.render()), np.full((2, 2, 3), 2, np.uint8))
    env.close()
    env.close()
    assert toy.closed == 2


def test_every_wrapper_can_be_listed() -> None:
    assert set(WRAPPERS) == {
        "clip_reward", "discretise", "flatten", "frame_stack", "grayscale", "normalise", "python", "resize",
        "time_limit",
    }  # fmt: skip
    for name, kind in WRAPPERS.items():
        assert kind.usage.startswith(name)
        assert kind.help.endswith(".")
        assert all(field.description for field in kind.options.model_fields.values())


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (
            "frame_stak:num=2",
            f"There is no wrapper named 'frame_stak'. Did you mean 'frame_stack'? Known: {', '.join(WRAPPERS)}.",
        ),
        ("time_limit", "'time_limit': the option 'max_steps' is missing. Options: max_steps."),
        ("time_limit:200", "'200' in 'time_limit:200' is not KEY=VALUE. Options: max_steps."),
        (
            "resize:widht=3",
            "'resize:widht=3': there is no option 'widht'. Did you mean 'width'? Options: width, height, filter.",
        ),
        ("resize:width=3,width=4", "'width' is duplicated in 'resize:width=3,width=4'."),
        ("flatten:actions=true", "'flatten:actions=true': there is no option 'actions'. It takes no options."),
    ],
)
def test_bad_references_say_what_to_type(reference: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        wrap(Nursery(), [reference])
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("reference", "key", "demand", "got"),
    [
        ("time_limit:max_steps=0", "max_steps", "1", "0"),
        ("resize:width=0", "width", "1", "0"),
        ("resize:filter=bx", "filter", "'box' or 'bilinear'", "bx"),
        ("frame_stack:num=many", "num", "number|integer", "many"),
        ("clip_reward:low=1", "low", "0", "1"),
        ("clip_reward:high=nan", "high", "0", "nan"),
        ("grayscale:keep_dim=maybe", "keep_dim", "true or false|boolean", "maybe"),
    ],
)
def test_bad_values_say_what_they_should_be(reference: str, key: str, demand: str, got: str) -> None:
    with pytest.raises(InputError, match=rf"^'{reference}': {key}: .*({demand}).*\(got '{got}'\)"):
        wrap(Nursery(), [reference])


def test_an_unknown_wrapper_is_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match=r"^There is no wrapper named 'blur'\. Known: "):
        wrap(Nursery(), ["blur"])


def test_sign_and_bounds_exclude_each_other() -> None:
    with pytest.raises(InputError, match=r"'sign' gives -1, 0 or 1: leave 'low' and 'high' out"):
        parse_wrapper("clip_reward:sign=true,high=2")


def test_all_names_are_read_before_the_first_wrapper_acts() -> None:
    with pytest.raises(UnknownNameError):
        wrap(Nursery(VECTOR), ["grayscale", "blur"])  # grayscale would refuse vectors


def test_the_innermost_comes_first() -> None:
    wrapped = wrap(Nursery(), ["resize:width=5,height=4", "grayscale", "frame_stack:num=3", "normalise"])
    assert wrapped.observation_spaces["z"] == Box(0.0, 1.0, (4, 5, 3), np.float32)
    other = wrap(Nursery(), ["grayscale:keep_dim=false", "frame_stack:num=3", "flatten"])
    assert other.observation_spaces["z"].shape == (3 * 12 * 10,)


def test_no_wrapper_is_the_env_itself() -> None:
    env = Nursery()
    assert wrap(env, []) is env


def test_make_env_wraps_and_notes_the_wrappers() -> None:
    wrappers = ("time_limit:max_steps=5", "frame_stack:num=2", "flatten", "clip_reward:high=0.5")
    env = make_env(EnvironmentConfig(env_id="gym/CartPole-v1", wrappers=wrappers))
    assert env.spec.observation_spaces["agent_0"].shape == (8,)
    assert env.spec.observation_spaces["agent_0"].dtype == np.float32
    assert env.spec.action_spaces["agent_0"] == spaces.Discrete(2)
    assert env.spec.possible_agents == env.possible_agents == ("agent_0",)
    assert env.spec.facts.config.wrappers == wrappers
    assert env.spec.env_id == "gym/CartPole-v1"
    turns = play(env)
    assert len(turns) == 6
    assert turns[-1].rewards == {"agent_0": 0.5}
    env.close()


def test_the_noted_config_makes_the_same_env_again() -> None:
    config = EnvironmentConfig(env_id=f"{TICTACTOE}", wrappers=("frame_stack:num=3", "normalise"))
    first = make_env(config)
    again = make_env(EnvironmentConfig.model_validate(first.spec.facts.config.model_dump()))
    assert [digest(turn) for turn in play(first)] == [digest(turn) for turn in play(again)]
    assert first.spec.facts.turn_based
    assert first.spec.facts.competitive
    first.close()
    again.close()


class Doubled(Transform):
    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        turn = self.env.step(actions)
        return turn._replace(rewards={agent: 2 * reward for agent, reward in turn.rewards.items()})


def forgetful(env: Env) -> Env:
    return Nursery()


def of_two(env: Env, more: int) -> Env:
    return env


def of_none(env: Env) -> Any:
    return SimpleNamespace(env=env)


NUMBER = 3


def test_a_users_own_wrapper() -> None:
    env = wrap(make_env("gym/CartPole-v1"), [f"python:{__name__}:Doubled", "clip_reward:high=1.5"])
    env.reset(0)
    assert env.step({"agent_0": 0}).rewards == {"agent_0": 1.5}
    env.close()


def test_a_wrapper_that_forgets_whom_it_wraps_is_reminded() -> None:
    env = make_env("gym/CartPole-v1")
    wrapped = wrap(env, [f"python:{__name__}:forgetful"])
    assert wrapped.spec.facts.config == env.spec.facts.config
    assert wrapped.possible_agents == ()
    env.close()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (f"{__name__}:NUMBER", f"python:{__name__}:NUMBER is a int, not a function or class that wraps an Env."),
        (
            f"{__name__}:of_two",
            f"python:{__name__}:of_two must take one argument, the Env to wrap: missing a required argument: 'more'.",
        ),
        (
            f"{__name__}:of_none",
            (
                f"python:{__name__}:of_none returned a SimpleNamespace. It must return a Mosaic Env, "
                "for example a mosaic.plugins.Transform."
            ),
        ),
        (f"{__name__}:Doubled,x=3", f"'python:{__name__}:Doubled,x=3': there is no option 'x'. Options: code."),
        ("", "'python:' is not python:MODULE:NAME or python:FILE.py:NAME, for example python:my_policies:greedy."),
    ],
)
def test_what_a_users_own_wrapper_must_be(code: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        wrap(Nursery(), [f"python:{code}"])
    assert str(caught.value) == text


def test_options_models_refuse_to_be_changed() -> None:
    _, options = parse_wrapper("resize:width=3")
    assert isinstance(options, Options)
    assert options.model_dump() == {"width": 3, "height": 84, "filter": "box"}


def test_wrap_takes_any_sequence() -> None:
    references: Sequence[str] = ("grayscale",)
    assert wrap(Nursery(), references).observation_spaces["a"].shape == (12, 10, 1)
