"""Tables of grid worlds as pictures: the right arrows, colours in the right order, and a way to the goal."""

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.compiled.mdp.gridworld import GridLayout, grid_layout
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.grid_picture import grid_image, grid_text, read_cells, shade
from mosaic.learners.tabular.optimal import value_iteration
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.twin import TwinTraining

MOVES = {"←": (0, -1), "↓": (1, 0), "→": (0, 1), "↑": (-1, 0)}
GRIDS = [
    ("gym/CliffWalking-v1", {}),
    ("gym/CliffWalkingSlippery-v1", {}),
    ("gym/FrozenLake-v1", {}),
    ("gym/FrozenLake8x8-v1", {}),
    ("gym/FrozenLake-v1", {"map_name": "8x8"}),
    ("gym/FrozenLake-v1", {"desc": ["SFF", "HFG"], "is_slippery": False}),
    ("mosaic/gridworld", {}),
    ("mosaic/gridworld", {"map": "S.#/..G", "slip": 0.1}),
]


def env(env_id, **options):
    return EnvironmentConfig(env_id=env_id, options=options)


def follow(cells, most=100):
    """The cells on the way of the first arrows from S to G."""
    place = next((r, c) for r, row in enumerate(cells) for c, cell in enumerate(row) if cell.letter == "S")
    way = [place]
    while cells[place[0]][place[1]].letter != "G" and len(way) < most:
        down, right = MOVES[cells[place[0]][place[1]].arrows[0]]
        place = place[0] + down, place[1] + right
        way.append(place)
    return way


def test_a_trained_cliff_walker_takes_the_shortest_way_along_the_edge():
    config = env("gym/CliffWalking-v1")
    training = TwinTraining(find_twin(config), "q_learning", TabularOptions(learning_rate=0.5), seed=3)
    training.advance(200_000)
    way = follow(read_cells(training.values, grid_layout(config)))
    assert way == [(3, 0), *((2, column) for column in range(12)), (3, 11)]


@pytest.mark.parametrize(("env_id", "options"), GRIDS)
def test_letters_and_directions_are_those_of_the_compiled_env(env_id, options):
    mdp, layout = find_twin(env(env_id, **options)), grid_layout(env(env_id, **options))
    cells = "".join(layout.grid)
    columns = len(layout.grid[0])
    assert len(cells) == len(mdp.legal)
    assert mdp.start_state.tolist() == [place for place, letter in enumerate(cells) if letter == "S"]
    goals = set(mdp.next_state[(mdp.terminated == 1) & (mdp.reward >= 0.99)].tolist())
    assert goals <= {place for place, letter in enumerate(cells) if letter == "G"}
    steps = {"left": -1, "down": columns, "right": 1, "up": -columns}
    opposite = {"left": "right", "right": "left", "up": "down", "down": "up"}
    free = [state for state, letter in enumerate(cells) if letter in "SF."]
    for action, direction in enumerate(layout.directions):
        moves = {after - state for state in free for after in mdp.next_state[state, action].tolist()}
        assert steps[direction] in moves
        assert steps[opposite[direction]] not in moves


@pytest.mark.parametrize(("env_id", "options"), [*GRIDS[:1], *GRIDS[5:7]])
def test_the_arrows_of_the_exact_plan_lead_to_the_goal(env_id, options):
    config = env(env_id, **options)
    way = follow(read_cells(value_iteration(find_twin(config), 0.99).action_values, grid_layout(config)))
    layout = grid_layout(config)
    assert [layout.grid[r][c] for r, c in way][-1] == "G"
    assert not {"H", "#"} & {layout.grid[r][c] for r, c in way}


def small():
    layout = GridLayout(("S.H", "#.G"), ("left", "down", "right", "up"))
    values = np.zeros((6, 4), np.float32)
    values[0, 2], values[1], values[4] = 0.5, (0.2, 1.0, 0.0, 1.0), -2000.0
    return read_cells(values, layout)


def test_marks_numbers_and_colours():
    cells = small()
    assert [[cell.mark for cell in row] for row in cells] == [["S→", "↓↑", "H"], ["#", "·", "G"]]
    assert [[cell.number for cell in row] for row in cells] == [["0.50", "1.00", ""], ["", "-2e+03", ""]]
    assert cells[0][1].colour == shade(1.0)
    assert cells[1][1].colour == shade(0.0)
    assert cells[1][1].ink != cells[0][1].ink  # light on dark, dark on light


def test_the_terminal_shows_numbers_where_they_fit():
    wide, narrow = grid_text(small()), grid_text(small(), width=15)
    assert len(wide.plain.splitlines()) == 4
    assert [line.split() for line in narrow.plain.splitlines()] == [["S→", "↓↑", "H"], ["#", "·", "G"]]
    assert any(str(span.style).endswith("on rgb(253,231,37)") for span in wide.spans)


def test_the_image_has_a_square_for_each_cell():
    image = grid_image(small())
    assert image.size == (241, 161)
    assert image.getpixel((80 + 8, 8)) == shade(1.0)
    assert image.getpixel((80 + 8, 80 + 8)) == shade(0.0)
    column = {image.getpixel((120, y)) for y in range(4, 60)}  # the best of (0, 1) are down and up
    row = {image.getpixel((x, 33)) for x in (*range(84, 112), *range(128, 156))}
    assert len(column) > 1
    assert row == {shade(1.0)}


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(InputError, match=r"gym/Taxi-v3 is not a grid .* Grids: gym/CliffWalking, .*mosaic/gridworld"):
        grid_layout(env("gym/Taxi-v3"))
    with pytest.raises(InputError, match="generates a new map every time"):
        grid_layout(env("gym/FrozenLake-v1", map_name=None))
    wrapped = EnvironmentConfig(env_id="gym/FrozenLake-v1", wrappers=("time_limit:max_steps=5", "discretise:bins=4"))
    with pytest.raises(InputError, match="was wrapped in 'discretise'"):
        grid_layout(wrapped)
    with pytest.raises(InputError, match="The table is 5 × 4, but a grid of 4 × 4 cells with 4 actions needs 16 × 4"):
        read_cells(np.zeros((5, 4)), grid_layout(env("gym/FrozenLake-v1")))
