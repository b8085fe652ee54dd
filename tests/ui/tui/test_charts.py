"""Charts: the characters that are drawn, smoothing, order of policies, and files."""

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.ui.series import Series
from mosaic.ui.tui.charts.chart import draw
from mosaic.ui.tui.charts.files import save_chart
from mosaic.ui.tui.charts.plot import COLOURS, Line, Plot, natural, plot_of, smooth
from mosaic.ui.web.data.chart_groups import Family

X = np.linspace(0, 1000, 50)


def line(y, label="run", band=0.0):
    return Line(label, COLOURS[0], X, y, *((y - band, y + band) if band else (np.empty(0), np.empty(0))))


def text(plot, width=60, height=16):
    strips = draw(plot, width, height)
    assert [strip.cell_length for strip in strips] == [width] * height
    return [strip.text for strip in strips]


def dots(rows):
    return {(place, column) for place, row in enumerate(rows) for column, letter in enumerate(row)
            if 0x2800 < ord(letter) < 0x2900}  # fmt: skip


def test_a_rising_curve_is_drawn_from_the_lower_left_to_the_upper_right():
    rows = text(Plot("Return", (line(X * 2),), marks=(500.0,)))
    found = dots(rows)
    assert min(found, key=lambda cell: cell[1])[0] > 10
    assert max(found, key=lambda cell: cell[1])[0] < 3
    assert len({column for _, column in found}) > 50
    assert "▲" in rows[-2]
    assert "env steps" in rows[-1]
    assert rows[0].startswith("Return  2,000")


@pytest.mark.parametrize("y", [np.zeros(50), np.full(50, -3e9), np.where(X > 500, np.nan, X)])
def test_constant_huge_and_broken_curves_are_drawn(y):
    assert dots(text(Plot("Return", (line(y),))))


def test_a_plot_without_values_says_so():
    assert dots(text(Plot("Return", (line(np.full(50, np.nan)),)))) == set()
    assert any("no values" in row for row in text(Plot("Return", ())))


def test_a_single_point_is_a_disc_at_the_end_of_an_axis_that_begins_with_the_run():
    one = Line("run", COLOURS[0], np.array([3e6]), np.array([1.0]), np.empty(0), np.empty(0))
    rows = text(Plot("Return", (one,), marks=(3e6,)))
    assert [row[-1] for row in rows].count("●") == 1
    assert rows[-2].endswith("▲")
    assert rows[-1].split()[:2] == ["0", "1M"]


def test_a_single_point_is_seen_beside_a_curve():
    one = Line("best", COLOURS[1], np.array([500.0]), np.array([1000.0]), np.empty(0), np.empty(0))
    rows = text(Plot("Return", (line(X * 2), one)))
    assert "".join(rows).count("●") == 1
    assert len(dots(rows)) > 50


def test_a_band_shades_cells_behind_the_curve():
    strips = draw(Plot("Return", (line(X, band=200.0),)), 60, 16)
    shaded = [segment for strip in strips for segment in strip if segment.style and segment.style.bgcolor]
    assert sum(len(segment.text) for segment in shaded) > 60


def test_a_band_less_than_two_cells_high_is_not_drawn():
    """The extremes of the points in one column; cells of which would be shaded here and there."""
    strips = draw(Plot("Return", (line(X, band=float(np.ptp(X)) / 25),)), 60, 16)
    assert not [segment for strip in strips for segment in strip if segment.style and segment.style.bgcolor]


def test_a_seed_group_has_the_interval_of_its_mean_and_a_run_its_extreme_episodes():
    family = Family("Return", {"all": "episode_reward_mean"})
    for ref, low in (("run-a", 0.0), ("group:seeds", 8.0)):
        found = [
            Series(
                ref=ref,
                metric=f"episode_reward_{end}",
                x=[1.0, 2.0],
                low=[y - 1, y - 1],
                high=[y + 1, y + 1],
                mean=[y, y],
            )
            for end, y in (("mean", 9.0), ("min", 1.0), ("max", 20.0))
        ]
        (drawn,) = plot_of(family, found, {ref: "name"}, 0.0).lines
        assert drawn.low.tolist() == [low, low]


def test_smoothing_is_an_exponential_average_that_skips_gaps():
    assert smooth(np.array([0.0, 1.0, np.nan, 1.0]), 0.5).tolist()[:2] == [0.0, 0.5]
    assert np.isnan(smooth(np.array([0.0, np.nan]), 0.5)[1])
    assert smooth(np.array([0.0, 1.0]), 0.0).tolist() == [0.0, 1.0]


def test_policies_sort_naturally():
    assert sorted(["policy_10", "policy_2", "policy_1"], key=natural) == ["policy_1", "policy_2", "policy_10"]


def test_files_of_a_chart(tmp_path):
    plot = Plot("Return", (line(X, "a,b", band=1.0), line(X / 2, "c")), marks=(0.0, 1000.0))
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<svg"), (".csv", b"label,env_steps,value,low,high")):
        save_chart(plot, tmp_path / f"chart{suffix}")
        assert (tmp_path / f"chart{suffix}").read_bytes().startswith(start)
    drawn = (tmp_path / "chart.svg").read_text()
    assert (drawn.count("<polygon"), drawn.count('stroke-width="2"')) == (3, 2)  # a band, two checkpoints, two curves
    assert '"a,b",0,0,-1.0,1.0' in (tmp_path / "chart.csv").read_text()
    with pytest.raises(InputError, match=r"saved as \.png, \.svg, \.csv"):
        save_chart(plot, tmp_path / "chart.gif")
    with pytest.raises(InputError, match="no values to save"):
        save_chart(Plot("Return", ()), tmp_path / "chart.png")
