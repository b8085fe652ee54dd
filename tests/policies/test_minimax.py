"""minimax as a policy: what it is called, what it explains, what it refuses."""

import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces

from mosaic import load_policy, make_env
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.turn import Turn
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.policies.controller import Explains
from mosaic.policies.registry import is_reproducible, parse_policy


def spec_of(env_id, shape=(3, 3, 2), actions=9):
    agents = ("player_1", "player_2")
    box = spaces.Box(0, 1, shape, np.int8)
    facts = EnvFacts(EnvironmentConfig(env_id=env_id), turn_based=True, competitive=True)
    return EnvSpec(facts, agents, dict.fromkeys(agents, box), dict.fromkeys(agents, spaces.Discrete(actions)))


def turn_of(observation, mask=None):
    masks = {} if mask is None else {"player_1": np.array(mask, bool)}
    return Turn({"player_1": observation}, masks, {}, {}, {}, {}, {})


def tictactoe_observation(picture):
    """`xx.o.o...` with x to move."""
    return np.array([[stone == "x", stone == "o"] for stone in picture], np.int8).reshape(3, 3, 2)


def test_the_reference_names_the_depth():
    kind, options = parse_policy("minimax:depth=4")
    assert (kind.usage, options.depth) == ("minimax[:depth=N[,leaf=lines]]", 4)
    assert parse_policy("minimax")[1].depth is None
    assert is_reproducible("minimax")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("minimax:depth=0", "'minimax:depth=0': depth: it should be at least 1 (got '0')."),
        ("minimax:depth=x", "'minimax:depth=x': depth: it should be a whole number (got 'x')."),
        ("minimax:dept=3", "'minimax:dept=3': there is no option 'dept'. Did you mean 'depth'? Options: depth, leaf."),
        ("minimax:4", "'4' in 'minimax:4' is not KEY=VALUE. Options: depth, leaf."),
    ],
)
def test_wrong_options_are_named(reference, message):
    with pytest.raises(InputError) as raised:
        parse_policy(reference)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("env_id", ["classic/chess_v6", "gym/CartPole-v1", "python:mine:tictactoe"])
def test_an_unknown_game_is_refused(env_id):
    with pytest.raises(InputError) as raised:
        load_policy("minimax", spec_of(env_id))
    assert str(raised.value) == (
        f"minimax cannot play {env_id}. "
        "It knows: classic/connect_four, classic/tictactoe, mosaic/tictactoe (any version)."
    )


@pytest.mark.parametrize("env_id", ["classic/tictactoe_v3", "classic/tictactoe_v12", "classic/tictactoe"])
def test_any_version_of_a_game_is_known(env_id):
    controller = load_policy("minimax", spec_of(env_id))
    assert controller.act(turn_of(tictactoe_observation("xx.oo....")))["player_1"] == 2


def test_a_board_that_cannot_be_read_is_refused():
    with pytest.raises(InputError) as raised:
        load_policy("minimax", spec_of("classic/tictactoe_v3", shape=(18,)))
    assert str(raised.value) == (
        "minimax reads the board of classic/tictactoe_v3 from observations of shape (3, 3, 2), but those of 'player_1' "
        "have (18,). Leave out the wrappers that change observations."
    )


def test_it_explains_what_it_would_do_without_changing_it():
    spec = spec_of("classic/tictactoe_v3")
    asked, silent = (load_policy("minimax", spec) for _ in range(2))
    assert isinstance(asked, Explains)
    turn = turn_of(tictactoe_observation("........."))
    asked.begin(("player_1",), 5)
    silent.begin(("player_1",), 5)
    for _ in range(20):
        explanation = asked.explain(turn)["player_1"]
        assert explanation.value == 0.0
        assert explanation.probabilities == pytest.approx(np.full(9, 1 / 9))
        assert asked.act(turn) == silent.act(turn)


@pytest.mark.parametrize(
    ("picture", "value", "best"), [("xx.oo....", 1.0, [2]), ("o........", 0.0, [4]), ("oo.ox....", -1.0, None)]
)
def test_a_value_is_that_of_the_agent_who_moves(picture, value, best):
    explanation = load_policy("minimax", spec_of("classic/tictactoe_v3")).explain(
        turn_of(tictactoe_observation(picture))
    )
    assert explanation["player_1"].value == value
    likely = np.flatnonzero(explanation["player_1"].probabilities).tolist()
    assert likely == (best if best else [cell for cell, stone in enumerate(picture) if stone == "."])


def test_the_mask_is_law():
    controller = load_policy("minimax", spec_of("classic/tictactoe_v3"))
    turn = turn_of(tictactoe_observation("xx.oo...."), mask=[0, 0, 0, 0, 0, 0, 1, 0, 1])
    assert {controller.act(turn)["player_1"] for _ in range(30)} <= {6, 8}


def test_connect_four_is_explained_too():
    env = make_env("classic/connect_four_v3")
    controller = load_policy("minimax:depth=2", env.spec)
    turn = env.reset(0)
    for column in (0, 6, 0, 6, 0, 5):
        (agent,) = turn.observations
        turn = env.step({agent: column})
    explanation = controller.explain(turn)["player_0"]
    assert explanation.value == 1.0
    assert explanation.probabilities.tolist() == [1.0, 0, 0, 0, 0, 0, 0]
    env.close()


def test_moves_are_drawn_evenly_among_the_best():
    controller = load_policy("minimax", spec_of("classic/tictactoe_v3"))
    controller.begin(("player_1",), 0)
    turn = turn_of(tictactoe_observation("........."))
    counts = np.bincount([controller.act(turn)["player_1"] for _ in range(1800)], minlength=9)
    assert counts.min() > 140  # 200 expected, 13 the standard deviation
    assert counts.max() < 260


def test_neither_naming_nor_tic_tac_toe_imports_numba():
    code = (
        "import sys; from mosaic.policies.minimax import kind; import mosaic.policies.minimax.tictactoe; "
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
