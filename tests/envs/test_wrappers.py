"""Wrappers by name: what each one changes, and that it changes nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Space
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from mosaic.config.environment import EnvironmentConfig
from mosaic.core.errors import InputError, UnknownNameError
from mosaic.core.ids import AgentID
from mosaic.core.lookup import Lookup
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Turn, digest, digest_value
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env, EnvFacts, EnvSpec
from mosaic.envs.transform import Transform
from mosaic.envs.wrappers import WRAPPERS, parse_wrapper, wrap
from mosaic.envs.wrappers.clip_reward import ClipRewardOptions, clipping
from mosaic.envs.wrappers.flatten import flattened
from mosaic.envs.wrappers.frame_stack import stack
from mosaic.envs.wrappers.grayscale import GrayscaleOptions, grayed, luma
from mosaic.envs.wrappers.normalise import normalised
from mosaic.envs.wrappers.resize import ResizeOptions, resize, resized

PICTURE = Box(0, 255, (12, 10, 3), np.uint8)
FLOAT_PICTURE = Box(-1.0, 1.0, (9, 11, 3), np.float32)
VECTOR = Box(np.array([-2.0, 0.0, 5.0]), np.array([2.0, 1.0, 5.0]), dtype=np.float64)
NESTED = spaces.Dict({"place": spaces.Discrete(4, start=2), "hand": spaces.Tuple((VECTOR, spaces.MultiBinary(3)))})


class Nursery:
    """Agents that nobody named ahead: `a` and `b` start, `c` is born at step 2, `a` is terminated at step 3,
    `b` and `c` are truncated at step 6. `c` may only do 0 or 1."""

    def __init__(self, space: Space[Any] = PICTURE) -> None:
        self.possible_agents: tuple[AgentID, ...] = ()
        self.observation_spaces: Mapping[AgentID, Space[Any]] = Lookup(lambda agent: deepcopy(space))
        self.action_spaces: Mapping[AgentID, Space[Any]] = Lookup(lambda agent: spaces.Discrete(3))
        self.spec = EnvSpec(EnvFacts(), (), self.observation_spaces, self.action_spaces)
        self.agents: tuple[AgentID, ...] = ()
        self.closed = 0
        self._space, self._steps = deepcopy(space), 0

    def reset(self, seed: int | None = None) -> Turn:
        self._space.seed(seed)
        self._steps, self.agents = 0, ("a", "b")
        return self._turn({"a": 0.0, "b": 0.0})

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        assert tuple(actions) == self.agents
        self._steps += 1
        paid = {agent: self._steps * (actions[agent] - 1.0) for agent in self.agents}
        match self._steps:
            case 2:
                return self._turn({**paid, "c": 0.0})
            case 3:
                return self._turn(paid, terminated="a")
            case 6:
                return self._turn(paid, truncated="bc")
        return self._turn(paid)

    def _turn(self, rewards: dict[AgentID, float], terminated: str = "", truncated: str = "") -> Turn:
        self.agents = tuple(agent for agent in rewards if agent not in terminated + truncated)
        return Turn(
            {agent: self._space.sample() for agent in self.agents},
            {"c": np.array([True, True, False])} if "c" in self.agents else {},
            rewards,
            {agent: agent in terminated for agent in rewards},
            {agent: agent in truncated for agent in rewards},
            {agent: self._space.sample() for agent in terminated + truncated},
            {agent: {"steps": self._steps} for agent in rewards},
        )

    def render(self) -> Any:
        return np.full((2, 2, 3), self._steps, np.uint8)

    def close(self) -> None:
        self.closed += 1


class Rotation(Nursery):
    """`a`, `b` and `c` have their turns one after another; all are terminated when `c` has had its second."""

    def __init__(self, space: Space[Any] = PICTURE) -> None:
        super().__init__(space)
        self.possible_agents = ("a", "b", "c")
        self.spec = EnvSpec(EnvFacts(turn_based=True), ("a", "b", "c"), self.observation_spaces, self.action_spaces)

    def reset(self, seed: int | None = None) -> Turn:
        self._space.seed(seed)
        self._steps, self.agents = 0, ("a", "b", "c")
        return self._rotated()

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        assert tuple(actions) == ("abc"[self._steps % 3],)
        self._steps += 1
        return self._rotated()

    def _rotated(self) -> Turn:
        over = self._steps == 6
        self.agents = () if over else ("a", "b", "c")
        acting = "" if over else "abc"[self._steps % 3]
        ends = dict.fromkeys("abc", over)
        return Turn(
            {agent: self._space.sample() for agent in acting},
            {},
            dict.fromkeys("abc", float(self._steps)),
            ends,
            dict.fromkeys("abc", False),
            {agent: self._space.sample() for agent in "abc" if over},
            {agent: {} for agent in acting or "abc"},
        )


class Player:
    """Uniform legal actions from a seed of its own."""

    def __init__(self, env: Env, seed: int) -> None:
        self._spaces, self._random = env.action_spaces, Random(seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._draw(agent, turn) for agent in turn.observations}

    def _draw(self, agent: AgentID, turn: Turn) -> Action:
        space = self._spaces[agent]
        if isinstance(space, Box):
            share = np.array([self._random.random() for _ in range(math.prod(space.shape))]).reshape(space.shape)
            return (space.low + share * (space.high - space.low)).astype(space.dtype)
        assert isinstance(space, spaces.Discrete)
        mask = turn.action_masks.get(agent)
        legal = range(int(space.n)) if mask is None else np.flatnonzero(mask)
        return int(space.start) + int(self._random.choice(legal))


def play(env: Env, seed: int = 7, most: int = 25) -> list[Turn]:
    """The Turns of one episode, or of its beginning."""
    turns, player = [env.reset(seed)], Player(env, seed)
    while not turns[-1].over and len(turns) <= most:
        turns.append(env.step(player.act(turns[-1])))
    return turns


def lookups(turn: Turn) -> list[tuple[AgentID, Any]]:
    return [*turn.observations.items(), *turn.final_observations.items()]


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
            "butterfly/cooperative_pong_v5",
        )
    },
}
PONG = "butterfly/cooperative_pong_v5"
TICTACTOE = "classic/tictactoe_v3"
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
        if turns[-1].over or len(turns) > 25:
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
    assert np.array_equal(env.render(), np.full((2, 2, 3), 2, np.uint8))
    env.close()
    env.close()
    assert toy.closed == 2


# --- names ------------------------------------------------------------------------------------------------------------


def test_every_wrapper_can_be_listed() -> None:
    assert set(WRAPPERS) == {
        "clip_reward", "flatten", "frame_stack", "grayscale", "normalise", "python", "resize", "time_limit",
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
            f"There is no wrapper named 'frame_stak'. Did you mean 'frame_stack'? Known: {', '.join(sorted(WRAPPERS))}.",
        ),
        ("time_limit", "'time_limit': the option 'max_steps' is missing. Options: max_steps."),
        ("time_limit:max_steps=0", "'time_limit:max_steps=0': max_steps: it should be at least 1 (got '0')."),
        ("time_limit:200", "'200' in 'time_limit:200' is not KEY=VALUE. Options: max_steps."),
        (
            "resize:widht=3",
            "'resize:widht=3': there is no option 'widht'. Did you mean 'width'? Options: width, height, filter.",
        ),
        ("resize:width=3,width=4", "'width' stands twice in 'resize:width=3,width=4'."),
        (
            "resize:filter=bilinaer",
            "'resize:filter=bilinaer': filter: it should be 'box' or 'bilinear' (got 'bilinaer'). Did you mean 'bilinear'?",
        ),
        ("flatten:actions=true", "'flatten:actions=true': there is no option 'actions'. It takes no options."),
        ("clip_reward:low=1", "'clip_reward:low=1': low: it should be at most 0.0 (got '1')."),
        ("clip_reward:high=nan", "'clip_reward:high=nan': high: it should be at least 0.0 (got 'nan')."),
    ],
)
def test_bad_references_say_what_to_type(reference: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        wrap(Nursery(), [reference])
    assert str(caught.value) == text


def test_an_unknown_wrapper_is_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match=r"^There is no wrapper named 'blur'\. Known: "):
        wrap(Nursery(), ["blur"])


def test_sign_and_bounds_exclude_each_other() -> None:
    with pytest.raises(InputError, match=r"'sign' pays -1, 0 or 1: leave 'low' and 'high' out"):
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


# --- the catalog ------------------------------------------------------------------------------------------------------


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


# --- time_limit -------------------------------------------------------------------------------------------------------


def fall_of_cartpole() -> int:
    """The env step in which the pole falls if the cart is always pushed left."""
    return len(push_left(make_env("gym/CartPole-v1"))) - 1


def push_left(env: Env) -> list[Turn]:
    turns = [env.reset(0)]
    while not turns[-1].over:
        turns.append(env.step({"agent_0": 0}))
    env.close()
    return turns


def test_a_fall_exactly_at_the_limit_has_both_flags() -> None:
    steps = fall_of_cartpole()
    bare = push_left(make_env("gym/CartPole-v1"))
    for limit, terminated, truncated in ((steps - 1, False, True), (steps, True, True), (steps + 1, True, False)):
        turns = push_left(wrap(make_env("gym/CartPole-v1"), [f"time_limit:max_steps={limit}"]))
        assert turns[-1].terminated == {"agent_0": terminated}
        assert turns[-1].truncated == {"agent_0": truncated}
        index = min(limit, steps)
        saw = dict(lookups(bare[index]))["agent_0"]
        assert np.array_equal(turns[-1].final_observations["agent_0"], saw)
        assert turns[-1].rewards == bare[index].rewards


@given(max_steps=st.integers(1, 8))
@settings(deadline=None, max_examples=20)
def test_births_and_deaths_under_a_time_limit(max_steps: int) -> None:
    env, bare = wrap(Nursery(), [f"time_limit:max_steps={max_steps}"]), Nursery()
    turns, plain = play(env), play(bare)
    assert len(turns) - 1 == min(max_steps, 6)
    assert [digest(turn) for turn in turns[:-1]] == [digest(turn) for turn in plain[: len(turns) - 1]]
    last, twin = turns[-1], plain[len(turns) - 1]
    assert env.agents == ()
    assert not last.action_masks
    assert last.terminated == twin.terminated
    assert last.truncated == (dict.fromkeys(twin.rewards, True) if max_steps <= 6 else twin.truncated)
    assert last.final_observations.keys() == last.infos.keys() == twin.rewards.keys()
    for agent, observation in lookups(twin):
        assert np.array_equal(last.final_observations[agent], observation)


def test_who_waits_at_the_limit_keeps_its_last_observation() -> None:
    board = make_env(TICTACTOE)
    env = wrap(make_env(TICTACTOE), ["time_limit:max_steps=3"])
    turns, plain = play(env), play(board)
    assert set(turns[2].observations) == {"player_1"}  # it makes the third move and waits then
    finals = turns[-1].final_observations
    assert np.array_equal(finals["player_1"], plain[2].observations["player_1"])
    assert np.array_equal(finals["player_2"], plain[3].observations["player_2"])
    assert turns[-1].truncated == {"player_1": True, "player_2": True}
    assert turns[-1].terminated == {"player_1": False, "player_2": False}
    assert turns[-1].infos.keys() == {"player_1", "player_2"}
    env.close()
    board.close()


def test_who_never_had_a_turn_ends_with_what_is_nearest_to_zero() -> None:
    env = wrap(Rotation(VECTOR), ["time_limit:max_steps=1"])
    last = play(env)[-1]
    assert last.truncated == {"a": True, "b": True, "c": True}
    assert np.array_equal(last.final_observations["c"], [0.0, 0.0, 5.0])  # the third number is never below 5


def test_a_new_episode_begins_its_time_anew() -> None:
    env = wrap(Nursery(), ["time_limit:max_steps=2"])
    first = play(env)
    with pytest.raises(RuntimeError, match=r"step\(\) after the end of the episode: call reset\(\) first"):
        env.step({})
    assert env.agents == ()
    assert [digest(turn) for turn in play(env)] == [digest(turn) for turn in first]
    env.reset(1)
    assert env.agents == ("a", "b")


# --- resize and grayscale ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [VECTOR, NESTED, spaces.Discrete(3), Box(0, 1, (3, 3, 2), np.int8)])
def test_resize_refuses_what_is_no_picture(space: Space[Any]) -> None:
    with pytest.raises(InputError) as caught:
        wrap(Rotation(space), ["resize"])
    shown = " ".join(str(space).split())
    assert str(caught.value) == (
        "The wrapper 'resize' takes pictures: Box spaces of uint8 or floats shaped (height, width) or "
        f"(height, width, channels). In python:unnamed, 'a' sees {shown}."
    )


def test_channels_that_come_first_are_not_taken_for_rows() -> None:
    with pytest.raises(InputError, match=r"'a' sees Box\(0, 255, \(3, 210, 160\), uint8\)\.$"):
        wrap(Rotation(Box(0, 255, (3, 210, 160), np.uint8)), ["resize"])


@pytest.mark.parametrize("name", ["gym/CartPole-v1", TICTACTOE])
@pytest.mark.parametrize("reference", ["resize", "grayscale"])
def test_pictures_are_asked_of_gym_envs_and_board_games_too(name: str, reference: str) -> None:
    env = make_env(name)
    with pytest.raises(
        InputError, match=rf"The wrapper '{reference}' takes .*pictures.* In {name}, '{env.possible_agents[0]}'"
    ):
        wrap(env, [reference])
    env.close()


def test_a_late_born_agent_whose_space_does_not_fit_is_named() -> None:
    toy = Nursery()
    toy.observation_spaces = Lookup(lambda agent: VECTOR if agent == "c" else PICTURE)
    env = wrap(toy, ["grayscale"])
    with pytest.raises(InputError) as caught:
        play(env)
    assert str(caught.value) == (
        "The wrapper 'grayscale' takes colour pictures: Box spaces of uint8 or floats shaped (height, width, 3). "
        f"Put it before 'frame_stack'. In python:unnamed, 'c' sees {' '.join(str(VECTOR).split())}."
    )


@pytest.mark.parametrize("shape", [(6, 8), (6, 8, 1), (6, 8, 2), (6, 8, 3), (6, 8, 4), (6, 8, 5)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_halving_with_the_box_filter_takes_the_mean_of_four(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    view = resized(ResizeOptions(width=4, height=3))(Box(0, 255, shape, dtype))  # type: ignore[arg-type]
    picture = np.random.default_rng(0).integers(0, 256, shape).astype(dtype)
    seen = view.see(picture)
    means = picture.astype(np.float64).reshape(3, 2, 4, 2, *shape[2:]).mean(axis=(1, 3))
    assert seen.shape == (3, 4, *shape[2:])
    assert seen.dtype == dtype
    assert view.space.contains(seen)
    assert np.abs(seen - means).max() <= (0.5 if dtype is np.uint8 else 1e-4)


pictures = st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 4])).flatmap(
    lambda shape: st.one_of(
        arrays(np.uint8, shape), arrays(np.float32, shape, elements=st.floats(-1, 1, width=32, allow_subnormal=False))
    )
)


@given(picture=pictures, width=st.integers(1, 12), height=st.integers(1, 12), kind=st.sampled_from(["box", "bilinear"]))
@settings(deadline=None)
def test_a_resized_picture_stays_within_the_colours_of_each_channel(
    picture: np.ndarray[Any, Any], width: int, height: int, kind: str
) -> None:
    before = picture.copy()
    seen = resize(picture, (width, height), Image.Resampling[kind.upper()])
    assert seen.shape == (height, width, picture.shape[2])
    slack = 0 if picture.dtype == np.uint8 else 1e-6
    assert (seen >= picture.min(axis=(0, 1)) - slack).all()
    assert (seen <= picture.max(axis=(0, 1)) + slack).all()
    assert np.array_equal(picture, before)


@given(picture=pictures)
@settings(deadline=None)
def test_grey_lies_between_the_colours_and_grey_stays_grey(picture: np.ndarray[Any, Any]) -> None:
    colours = np.repeat(picture[..., :1], 3, axis=2)
    assert np.allclose(luma(colours), colours[..., 0], atol=1e-6)
    if picture.shape[2] == 3:
        slack = 0 if picture.dtype == np.uint8 else 1e-6
        assert (luma(picture) >= picture.min(axis=2) - slack).all()
        assert (luma(picture) <= picture.max(axis=2) + slack).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_green_is_brighter_than_red_and_red_than_blue(dtype: type[np.generic]) -> None:
    shades = luma(np.array([[[100, 0, 0], [0, 100, 0], [0, 0, 100]]], dtype=dtype))
    assert np.allclose(shades, [[29.9, 58.7, 11.4]], atol=0.5 if dtype is np.uint8 else 1e-4)


def test_a_white_float_picture_stays_within_its_bounds() -> None:
    view = grayed(GrayscaleOptions())(FLOAT_PICTURE)
    assert view.space.contains(view.see(np.ones(FLOAT_PICTURE.shape, np.float32)))
    small = resized(ResizeOptions(width=3, height=7))(FLOAT_PICTURE)
    assert small.space.contains(small.see(np.full(FLOAT_PICTURE.shape, 1, np.float32)))


def test_grayscale_keeps_or_drops_the_channel() -> None:
    assert grayed(GrayscaleOptions())(PICTURE).space == Box(0, 255, (12, 10, 1), np.uint8)
    assert grayed(GrayscaleOptions(keep_dim=False))(PICTURE).space == Box(0, 255, (12, 10), np.uint8)


# --- frame_stack ------------------------------------------------------------------------------------------------------


@given(num=st.integers(1, 5), space=st.sampled_from([PICTURE, VECTOR, Box(0, 1, (2, 3), np.int8), Box(0, 1, ())]))
@settings(deadline=None, max_examples=25)
def test_frames_are_each_agents_own_last_ones_padded_with_its_first(num: int, space: Box) -> None:
    env, bare = wrap(Nursery(space), [f"frame_stack:num={num}"]), Nursery(space)
    for seed in (1, 2):  # the second episode remembers nothing of the first
        seen: dict[AgentID, list[Any]] = {}
        for before, after in zip(play(bare, seed), play(env, seed), strict=True):
            for (agent, frame), (_, stacked) in zip(lookups(before), lookups(after), strict=True):
                mine = seen.setdefault(agent, [frame] * num)
                mine.append(frame)
                assert np.array_equal(stacked, stack(mine[-num:]))
                assert env.observation_spaces[agent].contains(stacked)


def test_where_frames_are_stacked() -> None:
    shapes = {(4,): (2, 4), (6, 8): (2, 6, 8), (6, 8, 3): (6, 8, 6), (): (2,), (2, 3, 4, 5): (2, 2, 3, 4, 5)}
    for shape, stacked in shapes.items():
        assert stack([np.zeros(shape), np.ones(shape)]).shape == stacked
    assert stack([np.zeros((1, 1, 2)), np.ones((1, 1, 2))]).tolist() == [[[0, 0, 1, 1]]]  # the newest comes last


def test_in_a_turn_based_game_frames_are_an_agents_own_turns() -> None:
    env, bare = wrap(Rotation(VECTOR), ["frame_stack:num=2"]), Rotation(VECTOR)
    turns, plain = play(env), play(bare)
    first, second = plain[1].observations["b"], plain[4].observations["b"]
    assert np.array_equal(turns[1].observations["b"], [first, first])
    assert np.array_equal(turns[4].observations["b"], [first, second])
    assert np.array_equal(turns[6].final_observations["b"], [second, plain[6].final_observations["b"]])


def test_frame_stack_refuses_what_is_no_box() -> None:
    env = make_env("gym/FrozenLake-v1")
    with pytest.raises(InputError) as caught:
        wrap(env, ["frame_stack"])
    assert str(caught.value) == (
        "The wrapper 'frame_stack' takes Box observations. For other spaces, put 'flatten' before it. "
        "In gym/FrozenLake-v1, 'agent_0' sees Discrete(16)."
    )
    assert wrap(env, ["flatten", "frame_stack"]).observation_spaces["agent_0"].shape == (4, 16)
    env.close()


# --- normalise --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [PICTURE, Box(-3, 4, (2,), np.int64), Box(0, 1, (5,), np.bool_)])
def test_whole_numbers_become_shares_that_can_be_told_apart(space: Box) -> None:
    view = normalised(space)
    low, high = int(space.low.flat[0]), int(space.high.flat[0])
    shares = [view.see(np.full(space.shape, value, space.dtype)).flat[0] for value in range(low, high + 1)]
    assert shares == sorted(set(shares))
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert view.space == Box(0.0, 1.0, space.shape, np.float32)
    assert [round(float(share) * (high - low)) + low for share in shares] == list(range(low, high + 1))


@given(
    bounds=st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).map(sorted),
    share=st.floats(0.0, 1.0),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_bounded_floats_become_minus_one_to_one(bounds: list[float], share: float, dtype: Any) -> None:
    low, high = dtype(bounds[0]), dtype(bounds[1])
    space = Box(low, high, (1,), dtype)
    view = normalised(space)
    value = np.clip(np.array([low + dtype(share) * (high - low)], dtype), low, high)
    seen = view.see(value)
    assert view.space.contains(seen)
    if high - low > 1e-3:
        wanted = 2 * (float(value[0]) - float(low)) / (float(high) - float(low)) - 1
        assert seen[0] == pytest.approx(wanted, abs=1e-6)
        assert [view.see(end)[0] for end in (space.low, space.high)] == pytest.approx([-1.0, 1.0])
    if high == low:
        assert seen[0] == 0.0


def test_an_env_that_leaves_its_own_bounds_is_cut_off_at_them() -> None:
    view = normalised(Box(-2.0, 2.0, (2,), np.float32))
    assert view.see(np.array([-7.0, 7.0], np.float32)).tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("high", [np.inf, np.finfo(np.float32).max])
def test_without_bounds_the_learner_has_to_normalise(high: float) -> None:
    with pytest.raises(InputError) as caught:
        normalised(Box(0.0, np.array([1.0, high], np.float32), dtype=np.float32))
    assert str(caught.value) == (
        "The wrapper 'normalise' scales by the bounds of the space, and these have no end here. Leave it out and "
        "let the learner normalise observations: it measures their mean and variance while it trains."
    )


def test_normalise_names_the_env_and_the_agent() -> None:
    env = make_env("gym/CartPole-v1")
    with pytest.raises(InputError, match=r"no end here.* In gym/CartPole-v1, 'agent_0' sees Box\(\[-4\.8"):
        wrap(env, ["normalise"])
    env.close()
    with pytest.raises(InputError, match=r"scales Box observations by their bounds\. For other spaces, put 'flatten'"):
        normalised(spaces.Discrete(3))


# --- clip_reward ------------------------------------------------------------------------------------------------------


@given(reward=st.floats(allow_nan=False), low=st.floats(max_value=0.0), high=st.floats(min_value=0.0))
def test_clipped_rewards_stay_within_and_leave_alone_what_already_is(reward: float, low: float, high: float) -> None:
    clip = clipping(ClipRewardOptions(low=low, high=high))
    assert low <= clip(reward) <= high
    assert clip(clip(reward)) == clip(reward)
    assert clip(0.0) == 0.0
    if low <= reward <= high:
        assert clip(reward) == reward


def test_signs_and_what_is_not_a_number() -> None:
    sign, clip = clipping(ClipRewardOptions(sign=True)), clipping(ClipRewardOptions())
    assert [sign(reward) for reward in (-7.0, -0.1, 0.0, 0.1, math.inf)] == [-1.0, -1.0, 0.0, 1.0, 1.0]
    assert math.isnan(sign(math.nan))
    assert math.isnan(clip(math.nan))


def test_rewards_of_who_waits_are_clipped_too() -> None:
    env = wrap(Rotation(), ["clip_reward:high=3"])
    turns = play(env)
    assert [turn.rewards for turn in turns] == [dict.fromkeys("abc", float(min(step, 3))) for step in range(7)]
    assert all(type(reward) is float for turn in turns for reward in turn.rewards.values())


def test_the_cliff_costs_one_like_any_step() -> None:
    env = wrap(make_env("gym/CliffWalking-v1"), ["clip_reward"])
    env.reset(0)
    assert env.step({"agent_0": 1}).rewards == {"agent_0": -1.0}  # to the right lies the cliff: -100
    env.close()


# --- flatten ----------------------------------------------------------------------------------------------------------

leaves = st.one_of(
    st.builds(spaces.Discrete, st.integers(1, 5), start=st.integers(-3, 3)),
    st.builds(spaces.MultiBinary, st.integers(1, 4)),
    st.builds(lambda sizes: spaces.MultiDiscrete(sizes), st.lists(st.integers(1, 4), min_size=1, max_size=3)),
    st.sampled_from(
        [VECTOR, Box(0, 255, (2, 2, 1), np.uint8), Box(-1, 1, (2,), np.int8), Box(-np.inf, np.inf, (3,), np.float64)]
    ),
)
nested = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(lambda members: spaces.Tuple(members)),
        st.dictionaries(st.sampled_from("pqr"), parts, min_size=1).map(lambda members: spaces.Dict(members)),
    ),
    max_leaves=5,
)


@given(space=nested, seed=st.integers(0, 1000))
@settings(deadline=None)
def test_any_space_becomes_a_row_that_still_holds_everything(space: Space[Any], seed: int) -> None:
    space.seed(seed)
    member = space.sample()
    view = flattened(space)
    row = view.see(member)
    assert isinstance(view.space, Box)
    assert view.space.dtype == row.dtype == np.float32
    assert view.space.contains(row)
    back = spaces.unflatten(space, row)
    assert digest_value(_rounded(back)) == digest_value(_rounded(member))


def _rounded(value: Any) -> Any:
    """float32 keeps about seven digits."""
    if isinstance(value, Mapping):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_rounded, value))
    return np.asarray(value).astype(np.float32) + np.float32(0)  # -0.0 becomes 0.0


def test_one_of_n_is_one() -> None:
    assert flattened(spaces.Discrete(4, start=2)).see(3).tolist() == [0, 1, 0, 0]
    assert flattened(spaces.Discrete(4)).see(np.array(3)).tolist() == [0, 0, 0, 1]


def test_beyond_float32_lies_infinity() -> None:
    view = flattened(Box(-1e300, 1e300, (1,), np.float64))
    assert view.space.contains(view.see(np.array([1e200])))


def test_flatten_refuses_what_has_no_fixed_size() -> None:
    space = spaces.Sequence(spaces.Discrete(3))
    with pytest.raises(InputError) as caught:
        wrap(Rotation(space), ["flatten"])
    assert str(caught.value) == (
        "The wrapper 'flatten' takes observations of one fixed size: Box, Discrete, MultiDiscrete, MultiBinary, Text, "
        f"and Dict, Tuple or OneOf of these. In python:unnamed, 'a' sees {space}."
    )


# --- python: ----------------------------------------------------------------------------------------------------------


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
                f"python:{__name__}:of_none answered a SimpleNamespace. It must answer an Env of Mosaic's own, "
                "for example a mosaic.envs.transform.Transform."
            ),
        ),
        (f"{__name__}:Doubled,x=3", f"'python:{__name__}:Doubled,x=3': there is no option 'x'. Options: code."),
        ("", "'python:' is not python:MODULE:NAME, for example python:my_policies:greedy."),
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
