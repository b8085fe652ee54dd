"""Pictures through `resize` and `grayscale`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Space
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from mosaic.core.errors import InputError
from mosaic.core.lazy import Lookup
from mosaic.envs.catalog import make_env
from mosaic.envs.wrappers.images import GrayscaleOptions, ResizeOptions, grayed, luma, resize, resized
from mosaic.envs.wrappers.registry import wrap
from tests.envs.wrapper_toys import NESTED, PICTURE, TICTACTOE, VECTOR, Nursery, Rotation, play


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
    assert np.abs(seen - means).max() <= (1.0 if dtype is np.uint8 else 1e-4)  # Pillow rounds after each direction


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


@given(colour=st.floats(-1000, 1000, allow_subnormal=False), dtype=st.sampled_from([np.float32, np.float64]))
@example(colour=1.0, dtype=np.float64)
@example(colour=0.1, dtype=np.float64)
@settings(deadline=None)
def test_rounding_never_leaves_the_bounds(colour: float, dtype: Any) -> None:
    picture = np.full((9, 11, 3), colour, dtype)
    space = Box(picture, picture, dtype=dtype)  # this very picture and no other
    for view in (grayed(GrayscaleOptions())(space), resized(ResizeOptions(width=3, height=7))(space)):
        assert view.space.contains(view.see(picture))


def test_grayscale_keeps_or_drops_the_channel() -> None:
    assert grayed(GrayscaleOptions())(PICTURE).space == Box(0, 255, (12, 10, 1), np.uint8)
    assert grayed(GrayscaleOptions(keep_dim=False))(PICTURE).space == Box(0, 255, (12, 10), np.uint8)
