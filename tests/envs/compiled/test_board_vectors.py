"""Board games and rock, paper, scissors by the thousand: move by move what the reference plays."""

from __future__ import annotations

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import make_compiled_vector
from tests.envs.compiled.abreast import Abreast


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("classic/tictactoe_v3", {}),
        ("mosaic/tictactoe", {}),
        ("mosaic/tictactoe", {"illegal": "lost"}),
        ("classic/connect_four_v3", {}),
        ("classic/rps_v2", {}),
        ("classic/rps_v2", {"num_actions": 5, "max_cycles": 4}),
    ],
)
def test_a_walk(env_id, options):
    games = Abreast(env_id, 5, options)
    seen = games.walk(400)
    games.close()
    assert seen["truncated" if "rps" in env_id else "terminated"] > 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "steps"),
    [
        ("classic/tictactoe_v3", 6_500),
        ("mosaic/tictactoe", 6_500),
        ("classic/connect_four_v3", 6_500),
        pytest.param("classic/connect_four_v3", 1_600, marks=pytest.mark.chosen),
    ],
)
def test_a_long_walk(env_id, steps):
    games = Abreast(env_id, 16, seed=2)
    seen = games.walk(steps)
    games.close()
    assert seen["agent steps"] >= 15 * steps
    assert min(seen["paid 1"], seen["paid -1"]) > steps / 7
    assert seen["terminated"] > seen["paid 1"] + seen["paid -1"]  # draws as well


@pytest.mark.slow
def test_a_long_walk_of_rps():
    games = Abreast("classic/rps_v2", 16, seed=2)
    seen = games.walk(3_200)
    games.close()
    assert seen["agent steps"] >= 100_000
    assert seen["truncated"] > 5_000
    assert seen["terminated"] == 0


@pytest.mark.parametrize(
    "env_id", ["classic/tictactoe_v3", "mosaic/tictactoe", "classic/connect_four_v3", "classic/rps_v2"]
)
def test_pictures_are_the_reference_envs(env_id):
    games = Abreast(env_id, 2)
    for _ in range(4):
        games.walk(1)
        for index, env in enumerate(games.theirs):
            assert (games.vector.render(index) == env.render()).all()
    assert not (games.vector.render(0) == games.vector.render(1)).all()
    games.close()


def test_connect_four_can_be_drawn():
    """Random play hardly ever fills the board."""
    order = [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 2, 3, 2, 3, 3, 2, 3, 2, 2, 3, 2, 3]
    order += [4, 5, 4, 5, 5, 4, 5, 4, 4, 5, 4, 5, 6, 6, 6, 6, 6, 6]
    games = Abreast("classic/connect_four_v3", 1)
    for column in order:
        games.draw = lambda column=column: np.array([[column]], np.float32)
        games.walk(1)
    games.close()
    assert games.seen["terminated"] == 2
    assert games.seen["paid 1"] == 0


def test_a_taken_cell_loses_where_nothing_is_masked():
    vector = make_compiled_vector(EnvironmentConfig(env_id="mosaic/tictactoe", options={"illegal": "lost"}), 1)
    vector.reset(0)
    assert vector.mask.shape == (0, 9)
    vector.step(np.array([[4]], np.float32))
    assert vector.who.tolist() == [1]
    vector.step(np.array([[4]], np.float32))
    assert vector.rew.tolist() == [1, -1]
    assert vector.term.tolist() == [1, 1]
    assert vector.who.tolist() == [0]
    assert not vector.obs.any()


@pytest.mark.parametrize(
    "config",
    [
        {"env_id": "classic/connect_four_v3", "wrappers": ("time_limit:max_steps=5",)},
        {"env_id": "classic/connect_four_v3", "options": {"rows": 8}},
        {"env_id": "classic/tictactoe_v3", "options": {"size": 4}},
        {"env_id": "mosaic/tictactoe", "wrappers": ("time_limit:max_steps=5",)},
        {"env_id": "classic/rps_v2", "api_type": "aec"},
        {"env_id": "classic/rps_v2", "options": {"num_actions": 4}},
        {"env_id": "classic/rps_v2", "wrappers": ("time_limit:max_steps=5",)},
    ],
)
def test_other_rules_have_no_kernel(config):
    assert find_kernel(EnvironmentConfig(**config)) is None


def test_our_own_options_are_checked():
    with pytest.raises(InputError, match=r"there is no option 'ilegal'\. Did you mean 'illegal'"):
        find_kernel(EnvironmentConfig(env_id="mosaic/tictactoe", options={"ilegal": "lost"}))
