"""Observations through `discretise`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from mosaic.core.errors import InputError
from mosaic.core.turn import digest
from mosaic.envs.catalog import make_env
from mosaic.envs.codes import space_code
from mosaic.envs.env import Env
from mosaic.envs.wrappers.registry import parse_wrapper, wrap
from mosaic.testing import check_env
from tests.envs.wrapper_toys import NESTED, TICTACTOE, VECTOR, Nursery, Rotation, lookups, play

CARTPOLE = "discretise:bins=6/6@-3..3/6/6@-3.5..3.5"
CASES: list[tuple[Callable[[], Env], str, int]] = [
    (lambda: make_env("gym/CartPole-v1"), CARTPOLE, 6**4),
    (lambda: make_env("gym/FrozenLake-v1"), "discretise", 16),
    (lambda: make_env("gym/FrozenLake-v1"), "discretise:bins=8", 16),  # there is nothing to cut
    (lambda: make_env("gym/Blackjack-v1"), "discretise", 32 * 11 * 2),
    (lambda: make_env(TICTACTOE), "discretise:bins=2", 2**18),
    (lambda: Nursery(NESTED), "discretise:4", 4 * (4 * 4 * 1) * 2**3),
    (lambda: Rotation(VECTOR), "discretise:bins=3", 9),
]


@pytest.mark.parametrize(("make", "reference", "size"), CASES)
def test_everybody_sees_one_number_and_nothing_else_changes(make: Callable[[], Env], reference: str, size: int) -> None:
    env, bare = wrap(make(), [reference]), make()
    bins = None if reference == "discretise" else reference.rpartition("=")[2].removeprefix("discretise:").split("/")
    for before, after in zip(play(bare), play(env), strict=True):
        plain = before._replace(observations={}, final_observations={})
        assert digest(after._replace(observations={}, final_observations={})) == digest(plain)
        for (agent, observation), (_, index) in zip(lookups(before), lookups(after), strict=True):
            space = env.observation_spaces[agent]
            assert space == Discrete(size)
            assert space.contains(index)
            given = None if bins is None else bins[0] if len(bins) == 1 else bins
            assert index == space_code(bare.observation_spaces[agent], given).encode(observation)
    env.close()
    bare.close()


def test_a_discretised_env_keeps_every_promise() -> None:
    report = check_env(lambda: wrap(make_env("gym/CartPole-v1"), [CARTPOLE]), steps=200)
    assert report.reproducible
    assert [row.observation for row in report.agents] == ["Discrete(1296)"]


def test_it_takes_what_other_wrappers_make() -> None:
    env = wrap(Nursery(Box(0, 255, (6, 4), np.uint8)), ["normalise", "resize:width=2,height=1", "discretise:bins=5"])
    assert play(env)[0].observations.keys() == {"a", "b"}
    assert env.observation_spaces["a"] == Discrete(25)


@pytest.mark.parametrize(
    ("env_id", "reference", "text"),
    [
        (
            "gym/Acrobot-v1",
            "discretise",
            (
                "A table has no row for every value of a Box: cut 6 numbers into bins, "
                "for example 'discretise:bins=8/8/8/8/8/8'. In gym/Acrobot-v1, 'agent_0' sees Box(["
            ),
        ),
        (
            "gym/CartPole-v1",
            "discretise:bins=8",
            (
                "bins: number 1 (counted from 0) has no bounds, so its bins need some, "
                "for example 'discretise:bins=8/8@-10..10/8/8@-10..10'. In gym/CartPole-v1, 'agent_0' sees Box(["
            ),
        ),
        (
            "classic/connect_four_v3",
            "discretise:bins=2",
            (
                "Box(0, 1, (6, 7, 2), int8) has about 10^25 states, and at most 9,223,372,036,854,775,807 can be "
                "numbered here. Use a sparse (hashed) table, which keeps only the visited states, or fewer bins. "
                "In classic/connect_four_v3, 'player_0' sees Box(0, 1, (6, 7, 2), int8)."
            ),
        ),
    ],
)
def test_what_cannot_be_cut_says_what_to_type(env_id: str, reference: str, text: str) -> None:
    env = make_env(env_id)
    with pytest.raises(InputError) as caught:
        wrap(env, [reference])
    assert str(caught.value).startswith(text)
    env.close()


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (
            "discretise:bins=few",
            (
                "'discretise:bins=few': bins: 'few' is neither a number of bins, such as 8, nor one with bounds, "
                "such as 8@-3..3 (got 'few')."
            ),
        ),
        (
            "discretise:8/0",
            "'discretise:8/0': bins: 0 is not a number of bins from 1 to 1,000,000 (got '8/0').",
        ),
        ("discretise:bin=8", "'discretise:bin=8': there is no option 'bin'. Did you mean 'bins'? Options: bins."),
    ],
)
def test_bad_options_are_refused_before_any_env_is_wrapped(reference: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_wrapper(reference)
    assert str(caught.value) == text
