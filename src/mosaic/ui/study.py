"""Comparison of methods over seeds and envs: the runs of each method, and the results as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import Json
from mosaic.evaluation.across_envs import StudyDocument, compare_methods, parse_range
from mosaic.store.state import ENDED, State
from mosaic.ui.cli.group_results import (
    Group,
    differences,
    env_key,
    flatten,
    measure_name,
    settings_key,
    shared_name,
    short_key,
)
from mosaic.ui.cli.output import interval, note, print_table
from mosaic.ui.study_files import HEADS, write_study
from mosaic.ui.web.data.chart_groups import measure_title

if TYPE_CHECKING:
    from mosaic.store.index.summary import RunSummary
    from mosaic.store.views import RunDetails

ALGORITHM, NAME = "algorithm", "name"
_NO_WAYS = ("seed", "tags", "project", "training.worker", "training.algorithm")  # labels, and parts of ALGORITHM


class ScoredGroup(NamedTuple):
    """Runs of one env that differ in nothing but their seed."""

    env: str
    label: str
    config: Mapping[str, Json]
    scores: Sequence[float]
    measure: str = "return"  # what the scores are values of
    named: bool = True  # whether the label is a name and not an id


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
    """Return the scores by method and env; two seed groups with the same settings count as one group."""
    scores: dict[str, dict[str, Sequence[float]]] = {}
    settings: dict[tuple[str, str], str] = {}
    for group in groups:
        method, key = _method(group, by, groups), settings_key(group.config)
        if settings.setdefault((method, group.env), key) != key:
            raise SeveralGroupsError(
                f"Two groups in {group.env} are of the method '{method}'. Choose what distinguishes methods: "
                "--by name, or a setting such as --by training.params.learning_rate."
            )
        there = scores.setdefault(method, {})
        there[group.env] = [*there.get(group.env, ()), *group.scores]
    return scores


def ways_to_compare(groups: Sequence[ScoredGroup]) -> list[str]:
    """Return the choices of `by` that distinguish the methods: algorithm, name, or a setting that differs in an env."""
    found = [ALGORITHM, *([NAME] if all(group.named for group in groups) else [])]
    for env in dict.fromkeys(group.env for group in groups):
        found += differences([group.config for group in groups if group.env == env])
    found.append(NAME)  # where it is an id, it tells less than settings
    algorithms = _partition(groups, ALGORITHM)  # each has options of its own: those say nothing more
    return [
        by
        for by in dict.fromkeys(found)
        if by not in _NO_WAYS
        and (by in (ALGORITHM, NAME) or _partition(groups, by) != algorithms)
        and _tells_apart(groups, by)
    ]


def _partition(groups: Sequence[ScoredGroup], by: str) -> list[int]:
    """Return a number for each group that groups of one method share."""
    methods = [_method(group, by, groups) for group in groups]
    return [methods.index(method) for method in methods]


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
    """Compare selected runs, by the first setting that distinguishes their methods unless one is given."""
    if need := _need(groups):
        return MethodComparison(None, need)
    ways = ways_to_compare(groups)
    if by and by not in ways:
        known = {ALGORITHM, NAME, *(key for group in groups for key, _ in flatten(group.config))}
        if by not in known:
            raise unknown("setting to distinguish methods", by, known)
        others = f" Choose another: {', '.join(ways)}." if ways else ""
        return MethodComparison(None, f"'{by}' does not distinguish the methods of these runs.{others}")
    if not ways:
        return MethodComparison(None, _no_way(groups))
    return MethodComparison(make_study(groups, by or ways[0], ranges))


def _need(groups: Sequence[ScoredGroup]) -> str:
    """Return what a selection lacks for a comparison, whatever distinguishes its methods; empty if nothing."""
    if not groups:
        return "None of the selected runs has a score yet."
    if mixed := _several_measures(groups):
        return mixed
    if len(groups) == 1:
        return (
            f"The selected runs differ in nothing but their seed: all are of {_method(groups[0], ALGORITHM, groups)} "
            f"in {groups[0].env}. Select runs of another method or another environment too."
        )
    return ""


def _several_measures(groups: Sequence[ScoredGroup]) -> str:
    """Return which measures the runs of one env have where there are several; empty where all have the same."""
    for env in dict.fromkeys(group.env for group in groups):
        measures = sorted({group.measure for group in groups if group.env == env})
        if len(measures) > 1:
            return (
                f"Runs in {env} are scored by different measures: {' and '.join(measures)}. "
                "Select runs that are scored by the same one."
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
    scored = [
        ScoredGroup(each.env, each.label, each.config, each.scores, measure_name(each.measure))
        for each in groups
        if each.scores
    ]
    asked = by is not None or bool(normalize) or out is not None
    if mixed := _several_measures(scored):
        if asked:
            raise InputError(mixed)
        return MethodComparison(None, mixed)
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
        if envs > 1:
            note(
                f"{envs} different envs: their rewards are not compared with each other. "
                f"Only {study['envs'][0]} has runs of every method."
            )
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


class StudiedRun(NamedTuple):
    """State, score and settings of a run that is compared."""

    state: State
    score: float | None
    measure: str
    seed: int
    settings: str  # equal for runs that differ in nothing but their seed


def studied_run(details: RunDetails) -> StudiedRun:
    config = details.config
    return StudiedRun(details.state, details.score, details.measure, config.get("seed", 0), settings_key(config))


def caveats(runs: Sequence[StudiedRun]) -> list[str]:
    """Return what a reader of statistics over these runs should know about their scores."""
    found, all_ = [], len(runs)
    if without := sum(run.score is None for run in runs):
        found.append(f"Left out, as they have no score: {without} of {all_} runs.")
    scored = [run for run in runs if run.score is not None]
    if live := sum(run.state not in ENDED for run in scored):
        found.append(f"{live} of {all_} runs {_is(live)} not over: the score so far counts.")
    if early := sorted(str(run.state) for run in scored if run.state in ENDED and run.state is not State.FINISHED):
        states = ", ".join(dict.fromkeys(early))
        found.append(f"{len(early)} of {all_} runs ended early ({states}): the last score before that counts.")
    seeds = [(run.settings, run.seed) for run in scored]
    if repeated := len(seeds) - len(set(seeds)):
        found.append(
            f"{repeated} of {all_} runs {'repeats' if repeated == 1 else 'repeat'} the seed of another with the same "
            "settings: intervals count them as independent and are too narrow."
        )
    if any(run.measure.endswith("/rating") for run in scored):
        found.append(
            "A rating of self-play is against the run's own snapshots. Let runs play: mosaic tournament ENV run:A run:B"
        )
    return found


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


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
