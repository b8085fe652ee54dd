"""Comparison of methods over seeds and envs: the runs of each method, and the result as table, CSV and picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mosaic.core.errors import InputError, unknown
from mosaic.core.files import write_atomic
from mosaic.core.ids import Json
from mosaic.evaluation.across_envs import STATISTICS, StudyDocument, compare_methods, parse_range
from mosaic.ui.cli.group_results import Group, differences, env_key, flatten, shared_name, short_key
from mosaic.ui.cli.output import interval, note, print_table
from mosaic.ui.web.data.chart_groups import measure_title

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

    from mosaic.store.index.summary import RunSummary

_Area: TypeAlias = tuple[int, int, int, int]  # left, top, right, bottom
_Point: TypeAlias = tuple[float, float]
ALGORITHM, NAME = "algorithm", "name"
HEADS = ("method", "runs", "interquartile mean", "median", "mean", "optimality gap")
SUFFIXES = (".png", ".csv")
_NO_WAYS = ("seed", "tags", "project", "training.worker", "training.algorithm")  # labels, and parts of ALGORITHM
_COLOURS = ("#3b7dd8", "#d9822b", "#2f9e6e", "#b5488f", "#7a6ad0", "#6b7684")
_INK, _FAINT, _GRID = "#1b2430", "#667080", "#dde2ea"
_WIDTH, _ROW, _TOP, _PLOT = 1200, 30, 88, 300  # pixels
_LABEL, _COLUMN = 200, 230  # of the picture's upper part


class ScoredGroup(NamedTuple):
    """Runs of one env that differ in nothing but their seed."""

    env: str
    label: str
    config: Mapping[str, Json]
    scores: Sequence[float]
    measure: str = "return"  # what the scores are values of
    named: bool = True  # whether the label is a name that somebody gave


class SeveralGroupsError(InputError):
    """Error for two groups of one env that would count as one method."""


def make_study(
    groups: Sequence[ScoredGroup], by: str = ALGORITHM, ranges: Mapping[str, tuple[float, float]] | None = None
) -> StudyDocument | None:
    """Compare the methods of groups over their envs; None where no env has runs of every method.

    `by` says what the runs of one method share: algorithm, name, or a dotted setting.
    """
    scores = _by_method(groups, by)
    missing = [env for env in ranges or () if env not in {group.env for group in groups}]
    if missing:
        raise unknown("compared env", missing[0], {group.env for group in groups})
    return compare_methods(scores, ranges)


def _by_method(groups: Sequence[ScoredGroup], by: str) -> dict[str, dict[str, Sequence[float]]]:
    """Return the scores by method and env."""
    scores: dict[str, dict[str, Sequence[float]]] = {}
    for group in groups:
        method = _method(group, by, groups)
        if group.env in scores.setdefault(method, {}):
            raise SeveralGroupsError(
                f"Two groups in {group.env} are of the method '{method}'. Say what tells methods apart: --by name, or "
                "a setting such as --by training.params.learning_rate."
            )
        scores[method][group.env] = group.scores
    return scores


def ways_to_compare(groups: Sequence[ScoredGroup]) -> list[str]:
    """Return what tells the methods of groups apart, for `by`: algorithm, name, or a setting that differs in an env."""
    found = {ALGORITHM: None} | ({NAME: None} if all(group.named for group in groups) else {})
    for env in dict.fromkeys(group.env for group in groups):
        found |= dict.fromkeys(differences([group.config for group in groups if group.env == env]))
    found.setdefault(NAME)  # ids tell less than settings
    return [by for by in found if by not in _NO_WAYS and _tells_apart(groups, by)]


def _tells_apart(groups: Sequence[ScoredGroup], by: str) -> bool:
    """Return whether there are several methods in one env, or one method in several envs."""
    try:
        scores = _by_method(groups, by)
    except SeveralGroupsError:
        return False
    shared = set.intersection(*(set(envs) for envs in scores.values()))
    return len(scores) + len(shared) > 2 and bool(shared)


def compare_selected(
    groups: Sequence[ScoredGroup], by: str = "", ranges: Mapping[str, tuple[float, float]] | None = None
) -> MethodComparison:
    """Compare what a person selected, by the first way that tells its methods apart unless one is asked for."""
    if need := _need(groups):
        return MethodComparison(None, need)
    ways = ways_to_compare(groups)
    if by and by not in ways:
        known = {ALGORITHM, NAME, *(key for group in groups for key, _ in flatten(group.config))}
        if by not in known:
            raise unknown("way to tell methods apart", by, known)
        others = f" Choose another: {', '.join(ways)}." if ways else ""
        return MethodComparison(None, f"'{by}' does not tell the methods of these runs apart.{others}")
    if not ways:
        return MethodComparison(None, _no_way(groups))
    return MethodComparison(make_study(groups, by or ways[0], ranges))


def _need(groups: Sequence[ScoredGroup]) -> str:
    """Return what a selection lacks, whichever way its methods are told apart; empty where it lacks nothing."""
    if not groups:
        return "None of the selected runs has a score yet."
    for env in dict.fromkeys(group.env for group in groups):
        measures = sorted({group.measure for group in groups if group.env == env})
        if len(measures) > 1:
            return (
                f"Runs in {env} are scored by different measures: {' and '.join(measures)}. "
                "Select runs that are scored by the same one."
            )
    if len(groups) == 1:
        return (
            f"The selected runs differ in nothing but their seed: all are of {_method(groups[0], ALGORITHM, groups)} "
            f"in {groups[0].env}. Select runs of another method or another environment too."
        )
    return ""


def _no_way(groups: Sequence[ScoredGroup]) -> str:
    places: dict[str, dict[str, None]] = {}
    for group in groups:
        places.setdefault(_method(group, ALGORITHM, groups), {})[group.env] = None
    if not set.intersection(*(set(envs) for envs in places.values())):
        said = "; ".join(f"{method} has {', '.join(envs)}" for method, envs in places.items())
        return f"No environment has runs of every method: {said}. Select runs of each method in the same environment."
    return (
        "These runs differ in several settings at once, so that neither algorithm, name nor one setting tells their "
        "methods apart. Give the runs of each method a name of their own, or select fewer."
    )


def scored_groups(
    runs: Sequence[RunSummary], settings: Callable[[RunSummary], tuple[str, Mapping[str, Json]]]
) -> list[ScoredGroup]:
    """Return runs that have a score in groups that differ in nothing but their seed.

    `settings` returns a key that the runs of one group share, and the configuration.
    """
    found: dict[tuple[str, str], list[RunSummary]] = {}
    for row in runs:
        if row.score is not None:
            found.setdefault((measure_title(row.measure).lower(), settings(row)[0]), []).append(row)
    groups = []
    for (measure, _), rows in found.items():
        config, name = settings(rows[0])[1], shared_name([row.name for row in rows])
        label, scores = name or rows[0].group or rows[0].run_id, [row.score for row in rows if row.score is not None]
        groups.append(ScoredGroup(env_key(config), label, config, scores, measure, named=bool(name)))
    return groups


class MethodComparison(NamedTuple):
    """Study of groups of runs, or why there is none."""

    study: StudyDocument | None
    reason: str = ""


def study_of(groups: Sequence[Group], by: str | None, normalize: Sequence[str], out: Path | None) -> MethodComparison:
    """Compare groups of runs as the command line asks, and write what it asks for."""
    scored = [ScoredGroup(each.env, each.label, each.config, each.scores) for each in groups]
    if out is not None and out.suffix not in SUFFIXES:
        raise _no_format(out)
    asked = by is not None or bool(normalize) or out is not None
    try:
        study = make_study(scored, by or ALGORITHM, dict(map(parse_range, normalize)))
    except SeveralGroupsError as error:
        if asked:
            raise
        return MethodComparison(None, str(error))
    if study is None:
        if asked:
            raise InputError("No env has runs of every method: there is nothing to compare over envs.")
        return MethodComparison(None, "No env has runs of every method.")
    if out is not None:
        write_study(study, out)
    return MethodComparison(study)


def show_study(compared: MethodComparison, envs: int) -> None:
    """Print the comparison of methods if it is over several envs, or why there is none."""
    study = compared.study
    if study is None:
        if envs > 1:
            note(f"{envs} different envs: their rewards are not compared with each other. {compared.reason}")
        return
    if len(study["envs"]) < 2:
        return
    shared = len(study["envs"])
    print_table(f"Over {shared} envs: normalized scores (95 %)", HEADS, table(study), HEADS[1:])
    if study["improvements"]:
        heads = ("first", "second", "P(first > second)")
        print_table(f"Over {shared} envs: probability of improvement", heads, improvements(study), heads[2:])
    for env, (low, high) in study["ranges"].items():
        note(f"{env}: {low:.4g} counts as 0, {high:.4g} as 1 (--normalize '{env}=LOW:HIGH' sets both)")
    if study["left_out"]:
        note(f"Left out, as a method has no run there: {', '.join(study['left_out'])}")


def _method(group: ScoredGroup, by: str, groups: Sequence[ScoredGroup]) -> str:
    if by == NAME:
        return group.label
    settings = dict(flatten(group.config))
    if by == ALGORITHM:
        return " ".join(str(settings[key]) for key in ("training.worker", "training.algorithm") if settings.get(key))
    if by not in settings:
        known = {key for each in groups for key, _ in flatten(each.config)}
        if by not in known:
            raise unknown("setting", by, {ALGORITHM, NAME, *known})
    return f"{short_key(by)} {settings.get(by, '–')}"


def table(study: StudyDocument) -> list[list[str]]:
    """Return a row per method, under HEADS."""
    return [
        [
            each["method"],
            str(each["runs"]),
            interval(each["iqm"], each["iqm_ci95"]),
            interval(each["median"], each["median_ci95"]),
            interval(each["mean"], each["mean_ci95"]),
            interval(each["optimality_gap"], each["optimality_gap_ci95"]),
        ]
        for each in study["methods"]
    ]


def improvements(study: StudyDocument) -> list[list[str]]:
    """Return a row per pair of methods: both names, and the probability that the first scores higher."""
    return [
        [each["first"], each["second"], interval(each["probability"], each["probability_ci95"], digits=2)]
        for each in study["improvements"]
    ]


def as_csv(study: StudyDocument) -> str:
    """Return one row per number, for spreadsheets and pandas."""
    file = io.StringIO(newline="")
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["statistic", "method", "other", "threshold", "value", "low", "high"])
    for row in study["methods"]:
        values: Mapping[str, object] = dict(row)
        for name in STATISTICS:
            ends = values[f"{name}_ci95"]
            assert isinstance(ends, list)
            out.writerow([name, row["method"], "", "", values[name], *ends])
        for number, threshold in enumerate(study["thresholds"]):
            shares = (row["profile"][number], row["profile_low"][number], row["profile_high"][number])
            out.writerow(["profile", row["method"], "", threshold, *shares])
    for pair in study["improvements"]:
        ends = pair["probability_ci95"]
        out.writerow(["probability_of_improvement", pair["first"], pair["second"], "", pair["probability"], *ends])
    return file.getvalue()


def write_study(study: StudyDocument, path: Path) -> None:
    """Write the comparison as a picture (.png) or as numbers (.csv)."""
    if path.suffix not in SUFFIXES:
        raise _no_format(path)
    write_atomic(path, as_csv(study) if path.suffix == ".csv" else as_png(study))


def _no_format(path: Path) -> InputError:
    return InputError(f"'{path}' does not say what to write. Type a name that ends with {' or '.join(SUFFIXES)}.")


def as_png(study: StudyDocument) -> bytes:
    """Draw the statistics with their intervals, the performance profiles and the probabilities of improvement."""
    from PIL import Image, ImageDraw

    pairs = study["improvements"]
    middle = _TOP + _ROW * len(study["methods"])
    height = middle + 70 + max(_PLOT, 30 + _ROW * len(pairs)) + 60
    picture = Image.new("RGBA", (_WIDTH, height), "#ffffff")
    pen = ImageDraw.Draw(picture)
    envs = len(study["envs"])
    _write(pen, (16, 12), f"{envs} env{'s' * (envs != 1)}, normalized scores with 95 % intervals", size=17)
    for column, (name, head) in enumerate(zip(STATISTICS, HEADS[2:], strict=True)):
        _draw_statistic(pen, study, name, head, _LABEL + column * (_COLUMN + 20))
    _write(pen, (16, middle + 24), "Performance profiles: share of runs above a normalized score", size=15)
    area = (60, middle + 56, 660, middle + 56 + _PLOT)
    for band in _bands(study, area):
        layer = Image.new("RGBA", picture.size)
        ImageDraw.Draw(layer).polygon(*band)
        picture.alpha_composite(layer)
    _draw_profiles(pen, study, area)
    _write(pen, (720, middle + 24), "Probability that a run of the first scores higher", size=15)
    for number, pair in enumerate(pairs):
        y = middle + 56 + number * _ROW
        _write(pen, (720, y + 6), _short(f"{pair['first']} / {pair['second']}", 30))
        _draw_interval(pen, pair["probability"], pair["probability_ci95"], (960, y, 1160), _COLOURS[0])
    if pairs:
        bottom = middle + 56 + _ROW * len(pairs)
        pen.line([(1060, middle + 52), (1060, bottom)], _FAINT)
        for value, x in ((0, 960), (0.5, 1060), (1, 1160)):
            _write(pen, (x - 8, bottom + 4), f"{value:g}", _FAINT)
    file = io.BytesIO()
    picture.convert("RGB").save(file, "PNG")
    return file.getvalue()


def _draw_statistic(pen: ImageDraw, study: StudyDocument, name: str, head: str, left: int) -> None:
    """Draw a column: the interval of each method, on one scale from 0 to the largest."""
    _write(pen, (left, 52), head, size=15)
    rows: list[Mapping[str, object]] = [dict(row) for row in study["methods"]]
    reach = max([1.0, *(end for row in rows for end in _ends(row[f"{name}_ci95"]))])
    bottom = _TOP + _ROW * len(rows)
    for number, row in enumerate(rows):
        y = _TOP + number * _ROW
        if name == "iqm":
            _write(pen, (16, y + 6), _short(str(row["method"]), 24))
        value = row[name]
        scaled = [end / reach for end in _ends(row[f"{name}_ci95"])]
        found = value / reach if isinstance(value, float) else None
        _draw_interval(pen, found, scaled, (left, y, left + _COLUMN - 40), _COLOURS[number % len(_COLOURS)])
    for share in (0.0, 0.5, 1.0):
        _write(pen, (left + share * (_COLUMN - 40) - 8, bottom + 2), f"{share * reach:.2g}", _FAINT)


def _draw_interval(
    pen: ImageDraw, value: float | None, ends: Sequence[float | None], place: tuple[int, int, int], colour: str
) -> None:
    """Draw a value between 0 and 1 as a mark in a bar that is its interval; `place` is left, top and right."""
    left, top, right = place
    pen.line([(left, top + 14), (right, top + 14)], _GRID)
    known = [end for end in ends if end is not None]
    if len(known) == 2:
        low, high = (left + end * (right - left) for end in known)
        pen.rectangle([low, top + 7, max(high, low + 1), top + 21], _pale(colour))
    if value is not None:
        x = left + value * (right - left)
        pen.line([(x, top + 4), (x, top + 24)], colour, 3)


def _bands(study: StudyDocument, area: _Area) -> Iterator[tuple[list[_Point], str]]:
    """Yield outline and translucent colour of each profile's interval: bands may cover each other."""
    for number, row in enumerate(study["methods"]):
        low, high = _ends(row["profile_low"]), _ends(row["profile_high"])
        if low and high:
            above, below = _curve(study, high, area), _curve(study, low, area)
            yield [*above, *reversed(below)], f"{_COLOURS[number % len(_COLOURS)]}38"


def _draw_profiles(pen: ImageDraw, study: StudyDocument, area: _Area) -> None:
    left, top, right, bottom = area
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = bottom - share * (bottom - top)
        pen.line([(left, y), (right, y)], _GRID)
        _write(pen, (left - 40, y - 8), f"{share:g}", _FAINT)
        _write(pen, (left + share * (right - left) - 8, bottom + 6), f"{share * study['thresholds'][-1]:.2g}", _FAINT)
    for number, row in enumerate(study["methods"]):
        colour = _COLOURS[number % len(_COLOURS)]
        pen.line(_curve(study, row["profile"], area), colour, 3)
        _write(pen, (right - 170, top + 6 + 20 * number), _short(row["method"], 22), colour)


def _curve(study: StudyDocument, shares: Sequence[float], area: _Area) -> list[_Point]:
    left, top, right, bottom = area
    most = study["thresholds"][-1]
    return [
        (left + threshold / most * (right - left), bottom - share * (bottom - top))
        for threshold, share in zip(study["thresholds"], shares, strict=True)
    ]


def _ends(values: object) -> list[float]:
    return [value for value in values if value is not None] if isinstance(values, list) else []


def _write(pen: ImageDraw, place: tuple[float, float], text: str, colour: str = _INK, size: int = 14) -> None:
    from PIL import ImageFont

    pen.text(place, text, colour, ImageFont.load_default(size))


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _pale(colour: str) -> str:
    """Return a colour as an interval has it: a third of its mark's on white."""
    return "#" + "".join(f"{round(int(colour[at : at + 2], 16) / 3 + 170):02x}" for at in (1, 3, 5))
