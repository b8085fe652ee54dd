"""Curves on the terminal."""

from hypothesis import given
from hypothesis import strategies as st

from mosaic.ui.cli.output import chart

numbers = st.floats(-1e6, 1e6)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.none() | numbers), max_size=40), st.integers(40, 100), st.integers(4, 30)
)
def test_a_chart_fits_its_frame(points, width, height):
    points.sort(key=lambda point: point[0])
    lines = chart([x for x, _ in points], [y for _, y in points], width, height)
    assert len(lines) <= max(height, 3)
    assert all(len(line) <= width for line in lines)


def dots(lines):
    return [[cell != "⠀" for cell in line.split("│")[1]] for line in lines if "│" in line]


def test_a_rising_curve_goes_from_the_lower_left_to_the_upper_right():
    picture = dots(chart(list(range(100)), list(range(100)), 40, 12))
    assert picture[-1][0]
    assert picture[0][-1]
    assert not picture[0][0]
    assert not picture[-1][-1]


def test_every_column_of_a_line_is_drawn():
    picture = dots(chart([0, 100], [0, 1], 40, 12))
    assert all(any(row[column] for row in picture) for column in range(len(picture[0])))


def test_nothing_is_said_rather_than_drawn():
    assert chart([], [], 40, 10) == ["(nothing to draw yet)"]
