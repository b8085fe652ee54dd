"""Comparison of groups of runs: per env, scores over seeds, differences and probabilities of improvement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypedDict

from mosaic.config.sections import join_id
from mosaic.core.ids import Json
from mosaic.store.index.summary import REWARD
from mosaic.ui.cli.backend import BackendRun

if TYPE_CHECKING:
    from mosaic.store.views import RunDetails, RunRow


_BUCKETS = 200


Interval: TypeAlias = "list[float | None]"  # its low and high end


class CurveColumns(TypedDict):
    """Columns of a group's curve; None where there is no value."""

    x: list[float | None]
    mean: list[float | None]
    iqm: list[float | None]
    low: list[float | None]
    high: list[float | None]


class GroupDocument(TypedDict):
    """Results of a group, as in `mosaic runs compare --json`."""

    group: str
    label: str
    env: str
    metric: str
    runs: list[str]
    scores: list[float]
    mean: float | None
    iqm: float | None
    iqm_ci95: Interval
    curve: CurveColumns


class ComparisonDocument(TypedDict):
    """Two groups of one env: how much better the first is."""

    env: str
    first: str
    second: str
    difference: float | None
    difference_ci95: Interval
    probability_of_improvement: float | None
    probability_of_improvement_ci95: Interval


class Group(NamedTuple):
    """Runs of one env that differ in nothing but their seed."""

    name: str  # the group's id
    env: str
    runs: list[BackendRun]
    scores: list[float]  # of the runs that have one
    config: Mapping[str, Json]  # of the group's first run
    measure: str  # metric that the scores are values of
    run_names: list[str]  # as they are now: a run can be renamed

    @property
    def label(self) -> str:
        """Return the name that the group's runs share apart from their numbers, or its id where there is none."""
        return shared_name(self.run_names) or self.name

    def document(self) -> GroupDocument:
        from mosaic.evaluation.statistics import estimate_iqm, finite_mean

        found = estimate_iqm(self.scores)
        return {
            "group": self.name,
            "label": self.label,
            "env": self.env,
            "metric": self.measure,
            "runs": [run.id for run in self.runs],
            "scores": self.scores,
            "mean": finite_mean(self.scores),
            "iqm": found.mean,
            "iqm_ci95": found.ci95,
            "curve": group_curve(self.runs, self.measure),
        }


def measure_name(metric: str) -> str:
    """Return what a metric measures, whichever policy it is of: rating for policies/learner/rating."""
    from mosaic.ui.web.data.chart_groups import measure_title

    return metric if metric == REWARD else measure_title(metric).lower()


def shared_name(names: Sequence[str]) -> str:
    """Return the name that runs of a group share apart from their numbers, or ""."""
    if len(names) == 1:
        return names[0]
    shared = {_without_number(name) for name in names}
    return shared.pop() if len(shared) == 1 else ""


def runs_asked_for(asked: Sequence[str], rows: Sequence[RunRow]) -> list[str]:
    """Replace each seed group, given by its id or by the --name that it was trained with, by the ids of its runs."""
    groups: dict[str, list[RunRow]] = {}
    for row in sorted(rows, key=lambda row: row.run_id):
        if row.group:
            groups.setdefault(row.group, []).append(row)
    alone = {text for row in rows for text in (row.run_id, row.name)}
    found: list[str] = []
    for text in asked:
        named = None if text in alone - groups.keys() else group_named(text, groups)
        found += [row.run_id for row in groups[named]] if named else [text]
    return found


class NamedRun(Protocol):
    """A run in a list."""

    @property
    def name(self) -> str: ...


def group_named(text: str, groups: Mapping[str, Sequence[NamedRun]]) -> str | None:
    """Return the id of the seed group with this id, or whose runs are named TEXT-1, TEXT-2, and so on."""
    from mosaic.core.errors import InputError

    if text in groups:
        return text
    found = [group for group, rows in groups.items() if name_of_group(group, rows) == text]
    if len(found) > 1:
        raise InputError(f"{len(found)} seed groups are named '{text}'. Give the id of one: {', '.join(found)}.")
    return found[0] if found else None


def name_of_group(group: str, rows: Sequence[NamedRun]) -> str:
    """Return the name that a seed group was trained with, or its id."""
    names = {_without_number(row.name) for row in rows}
    return (names.pop() if len(names) == 1 else "") or group


def _without_number(name: str) -> str:
    """Return NAME for NAME-1, the form in which runs of a seed group are named; "" for other names."""
    start, _, number = name.rpartition("-")
    return start if number.isdigit() else ""


def make_groups(runs: Sequence[BackendRun], details: Sequence[RunDetails], groups: Sequence[str]) -> list[Group]:
    """Group runs that share env, settings, measure and seed group; `groups` has the seed group of each run, or ""."""
    found: dict[tuple[str, str, str], Group] = {}
    for run, shown, group in zip(runs, details, groups, strict=True):
        key = (group, settings_key(shown.config), shown.measure)
        put = found.setdefault(key, Group(group, env_key(shown.config), [], [], shown.config, shown.measure, []))
        put.runs.append(run)
        put.run_names.append(shown.name)
        if shown.score is not None:
            put.scores.append(shown.score)
    names = [group.name for group in found.values()]  # a search id is shared by all of its trials
    return [
        each if each.name and names.count(each.name) == 1 else each._replace(name=each.runs[0].id)
        for each in found.values()
    ]


def compare_groups(groups: Sequence[Group]) -> list[ComparisonDocument]:
    """Return one document per pair of groups in the same env with the same measure."""
    from mosaic.evaluation.statistics import estimate_difference, estimate_improvement

    found: list[ComparisonDocument] = []
    for first, second in combinations(groups, 2):
        if first.env == second.env and measure_name(first.measure) == measure_name(second.measure):
            difference = estimate_difference(first.scores, second.scores)
            improvement = estimate_improvement(first.scores, second.scores)
            found.append(
                {
                    "env": first.env,
                    "first": first.name,
                    "second": second.name,
                    "difference": difference.mean,
                    "difference_ci95": difference.ci95,
                    "probability_of_improvement": improvement.mean,
                    "probability_of_improvement_ci95": improvement.ci95,
                }
            )
    return found


def group_curve(runs: Sequence[BackendRun], metric: str) -> CurveColumns:
    import numpy as np

    from mosaic.telemetry.curves.seed_groups import group_curves

    points = [run.curve(metric, buckets=_BUCKETS) for run in runs]
    curves = [(np.array(p.x, float), np.array(p.mean, float)) for p in points]
    found = group_curves(curves)
    return {
        "x": _numbers(found.x),
        "mean": _numbers(found.mean),
        "iqm": _numbers(found.iqm),
        "low": _numbers(found.low),
        "high": _numbers(found.high),
    }


def group_labels(groups: Sequence[GroupDocument]) -> dict[str, str]:
    """Return the display name of each group, by id: its label if no other group has the same."""
    labels = [each["label"] for each in groups]
    return {
        each["group"]: each["label"] if labels.count(each["label"]) == 1 else f"{each['label']} ({each['group']})"
        for each in groups
    }


def show_groups(groups: Sequence[GroupDocument], pairs: Sequence[ComparisonDocument]) -> None:
    from mosaic.ui.cli.output import interval, note, out, print_table

    labels = group_labels(groups)
    for env, measure in dict.fromkeys((each["env"], measure_name(each["metric"])) for each in groups):
        here = [each for each in groups if (each["env"], measure_name(each["metric"])) == (env, measure)]
        rows = [[labels[each["group"]], len(each["scores"]), interval(each["iqm"], each["iqm_ci95"])] for each in here]
        columns = ["group", "seeds", "interquartile mean (95 %)"]
        print_table(f"{env}: last {measure}", columns, rows, columns[1:])
        compared = [
            [
                f"{labels[pair['first']]} − {labels[pair['second']]}",
                interval(pair["difference"], pair["difference_ci95"]),
                interval(pair["probability_of_improvement"], pair["probability_of_improvement_ci95"], digits=2),
            ]
            for pair in pairs
            if pair["env"] == env and pair["first"] in {each["group"] for each in here}
        ]
        if compared:
            columns = ["groups", "difference (95 %)", "P(first > second)"]
            print_table(f"{env}: differences", columns, compared, columns[1:], whole=0)
        for each in here:
            _draw(each, labels[each["group"]], out.width)
    if any(len(each["scores"]) == 1 for each in groups):
        note("A group of one run has no interval: train with --seeds 5 or more.")


def _draw(group: GroupDocument, label: str, width: int) -> None:
    from mosaic.ui.cli.output import chart, out

    curve = group["curve"]
    if len({x for x, value in zip(curve["x"], curve["mean"], strict=True) if value is not None}) > 1:  # else a dot
        out.print(f"{label}, mean over {len(group['runs'])} runs:")
        out.print("\n".join(chart(curve["x"], curve["mean"], min(width, 100), 12)))


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [float(value) if value == value else None for value in values]


_OWN = {"run_id", "name"}  # always different, and not a setting
_NOT_COMPARED = {*_OWN, "seed", "tags"}
_OTHER_RETURNS = {"clip_reward", "time_limit"}  # wrappers: all others of Mosaic change observations alone


def differences(configs: Sequence[Mapping[str, Json]]) -> dict[str, list[Json]]:
    """Return each dotted setting that is not the same in all configurations, with its value in each."""
    flat = [dict(flatten(config)) for config in configs]
    keys = dict.fromkeys(key for one in flat for key in one if key not in _OWN)
    found = {key: [one.get(key) for one in flat] for key in keys}
    return {key: values for key, values in found.items() if any(value != values[0] for value in values)}


def short_differences(configs: Sequence[Mapping[str, Json]]) -> dict[str, list[Json]]:
    """Return the differences that a table shows: by short names, without settings that are empty in all."""
    found = differences(configs)
    return {short_key(key): values for key, values in found.items() if any(v not in (None, {}, [], "") for v in values)}


def short_key(key: str) -> str:
    """Return a setting without the common prefix of its section."""
    return key.removeprefix("training.params.").removeprefix("training.").removeprefix("environment.")


def settings_key(config: Mapping[str, Json]) -> str:
    """Return a text that is equal for runs that differ only in seed, name and tags: their scores can be pooled."""
    return json.dumps({key: value for key, value in config.items() if key not in _NOT_COMPARED}, sort_keys=True)


def env_key(config: Mapping[str, Json]) -> str:
    """Return a text that is equal for runs whose returns can be compared: the same env, options and kind of return."""
    environment = config.get("environment")
    if not isinstance(environment, Mapping):
        return ""
    name = join_id(str(environment.get("family") or ""), str(environment.get("env_id") or ""))
    options, wrappers = environment.get("options"), environment.get("wrappers")
    parts = [json.dumps(options, sort_keys=True)] if options else []
    given = wrappers if isinstance(wrappers, list | tuple) else ()
    parts += [str(each) for each in given if str(each).partition(":")[0] in _OTHER_RETURNS]
    return " ".join([name, *parts])


def flatten(config: Mapping[str, Json], above: str = "") -> Iterator[tuple[str, Json]]:
    """Yield each setting of a configuration with its dotted name."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
