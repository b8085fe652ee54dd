"""Statistics of the selected runs over seeds and environments: table, performance profiles, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from nicegui import run as threads
from nicegui import ui

from mosaic.evaluation.across_envs import STATISTICS, StudyDocument
from mosaic.store.index.summary import RunSummary
from mosaic.ui.cli.group_results import short_key
from mosaic.ui.study import (
    ALGORITHM,
    NAME,
    MethodComparison,
    StudiedRun,
    caveats,
    compare_selected,
    scored_groups,
    ways_to_compare,
)
from mosaic.ui.study_files import HEADS, as_csv, as_png
from mosaic.ui.web.components.theme import clipped, env_title, number, series_key, series_look
from mosaic.ui.web.components.widgets import box, button, panel, raw, select
from mosaic.ui.web.data.facts import Facts

_WIDTH, _HEIGHT = 400, 236  # of the profiles, in their own units
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 392, 8, 200
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


class _Found(NamedTuple):
    compared: MethodComparison
    ways: list[str]
    notes: list[str]


class StatisticsPanel:
    """Panel that compares methods, or says what the selection lacks for a comparison."""

    def __init__(self, facts: Facts, by: str, on_by: Callable[[str], None]) -> None:
        """Build the panel; `by` distinguishes the methods ("": the first setting that does), `on_by` gets it."""
        self._facts, self._by, self._on_by = facts, by, on_by
        self._study: StudyDocument | None = None
        self._runs: Sequence[RunSummary] = ()
        self._shown_way: str | None = None
        with panel("Statistics", hint="over seeds and environments, 95 % intervals", body="s-study") as end:
            self._said = raw("", "m-note").props("role=status")
            self._body = raw("")
            with end:
                self._way = select(dict[str, str](), None, label="Methods differ in", on_change=self._choose)
                self._way.style("width:190px")
                self._files = box("row")
                with self._files:
                    for kind, save in (("CSV", self._save_csv), ("PNG", self._save_png)):
                        button(kind, save, glyph="export", kind="ghost small", label=f"Save the statistics as {kind}")
        self._show(_Found(MethodComparison(None, "Reading the runs …"), [], []))

    async def load(self, runs: Sequence[RunSummary]) -> None:
        """Compare these runs; reading their settings and resampling take a moment."""
        self._runs = runs
        found = await threads.io_bound(self._compare, list(runs), self._by)
        if found is not None and not self._body.is_deleted and runs is self._runs:
            self._show(found)

    def _compare(self, runs: Sequence[RunSummary], by: str) -> _Found:
        groups = scored_groups(runs, self._facts.settings)
        ways = ways_to_compare(groups) if groups else []
        compared = compare_selected(groups, by if by in ways else "")
        about = [StudiedRun(row.state, row.score, row.measure, row.seed, self._facts.settings(row)[0]) for row in runs]
        return _Found(compared, ways, [*caveats(about), *_single_runs(compared.study)])

    def _show(self, found: _Found) -> None:
        self._study = found.compared.study
        self._said.set_visibility(self._study is None)
        self._said.set_content(escape(found.compared.reason))
        self._body.set_content("" if self._study is None else study_html(self._study, found.notes))
        self._files.set_visibility(self._study is not None)
        self._way.set_visibility(len(found.ways) > 1)
        self._shown_way = self._by if self._by in found.ways else next(iter(found.ways), None)
        self._way.set_options({way: _way_title(way) for way in found.ways}, value=self._shown_way)

    async def _choose(self, by: str | None) -> None:
        if by is None or by == self._shown_way:
            return
        self._by = by
        self._on_by(by)
        await self.load(self._runs)

    def _save_csv(self) -> None:
        if self._study is not None:
            ui.download.content(as_csv(self._study), "statistics.csv", "text/csv")

    def _save_png(self) -> None:
        if self._study is not None:
            ui.download.content(as_png(self._study), "statistics.png", "image/png")


def study_html(study: StudyDocument, notes: Sequence[str] = ()) -> str:
    """Return table, profiles and probabilities; `notes` are sentences that follow them."""
    parts = [_table(study), '<div class="s-two">', _section("Performance profiles", _PROFILES, profile_chart(study))]
    if study["improvements"]:
        parts.append(_section("Probability of improvement", _IMPROVEMENT, _improvements(study)))
    said = " ".join((_ranges(study), *notes))
    return "".join([*parts, f'</div><p class="s-notes">{escape(said)}</p>'])


_PROFILES = "Share of runs whose normalized score is above the value on the horizontal axis."
_IMPROVEMENT = "That a run of the first method scores higher than one of the second, averaged over environments."


def _section(title: str, words: str, html: str) -> str:
    return f'<section><h3>{title}</h3><p class="small faint">{words}</p>{html}</section>'


def _table(study: StudyDocument) -> str:
    heads = f'<th>{HEADS[0]}</th><th class="num">{HEADS[1]}</th>' + "".join(f"<th>{head}</th>" for head in HEADS[2:])
    values = [dict(row) for row in study["methods"]]
    reaches = {name: max([1.0, *(end for row in values for end in _known(row[f"{name}_ci95"]))]) for name in STATISTICS}
    rows = ""
    for place, row in enumerate(study["methods"]):
        found = values[place]
        cells = "".join(
            f"<td>{_estimate(found[name], found[f'{name}_ci95'], reaches[name], place)}</td>" for name in STATISTICS
        )
        rows += (
            f'<tr><th scope="row"><span class="row">{series_key(place)}{clipped(row["method"])}</span></th>'
            f'<td class="num">{row["runs"]}</td>{cells}</tr>'
        )
    return (
        f'<div class="m-scroll" tabindex="0" role="region" aria-label="Statistics of each method">'
        f'<table class="m-table s-table"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _estimate(value: object, ends: object, reach: float, place: int) -> str:
    """Return a number, its interval in words, and both on a scale from 0 to `reach`."""
    known = _known(ends)
    words = f"{known[0]:.2f} to {known[1]:.2f}" if len(known) == 2 else "no interval"
    shown = value if isinstance(value, float) else None
    return f'<b>{number(shown)}</b><span class="faint small">{words}</span>{_bar(shown, known, reach, place)}'


def _bar(value: float | None, ends: Sequence[float], reach: float, place: int) -> str:
    colour, _ = series_look(place)
    low, high = (100 * max(0.0, end) / reach for end in ends) if len(ends) == 2 else (0.0, 0.0)
    band = f'<i style="left:{min(low, 99):.1f}%;width:{max(high - low, 1):.1f}%"></i>' if len(ends) == 2 else ""
    mark = "" if value is None else f'<u style="left:{100 * min(max(value / reach, 0.0), 1.0):.1f}%"></u>'
    return f'<span class="s-bar" style="--c:{colour}" aria-hidden="true">{band}{mark}</span>'


def _improvements(study: StudyDocument) -> str:
    """Return a line per pair of methods, the one that is more often higher first."""
    places = {row["method"]: place for place, row in enumerate(study["methods"])}
    lines = ""
    for pair in study["improvements"]:
        first, second, value, ends = (
            pair["first"],
            pair["second"],
            pair["probability"],
            _known(pair["probability_ci95"]),
        )
        if value is not None and value < 0.5:
            first, second, value, ends = second, first, 1 - value, [1 - end for end in reversed(ends)]
        words = f" · {ends[0]:.0%} to {ends[1]:.0%}" if len(ends) == 2 else " · no interval"
        shown = "—" if value is None else f"{value:.0%}"
        lines += (
            f'<li><span class="row">{series_key(places[first])}{clipped(first)}<span class="muted">over</span>'
            f"{series_key(places[second])}{clipped(second)}</span><span><b>{shown}</b>"
            f'<span class="faint small">{words}</span></span>{_bar(value, ends, 1.0, places[first])}</li>'
        )
    return f'<ul class="s-pairs">{lines}</ul>'


def profile_chart(study: StudyDocument) -> str:
    """Return the share of each method's runs above a score, with the band of its interval."""
    most = study["thresholds"][-1]
    grid = "".join(
        f'<path class="g" d="M{_LEFT},{_y(share):.1f}H{_RIGHT}"/>'
        f'<text x="{_LEFT - 6}" y="{_y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        f'<text x="{_x(share):.1f}" y="{_BOTTOM + 15}" text-anchor="middle">{share * most:.3g}</text>'
        for share in _SHARES
    )
    places = [_x(threshold / most) for threshold in study["thresholds"]]
    drawn = ""
    for place, row in enumerate(study["methods"]):
        colour, dash = series_look(place)
        above, below = _known(row["profile_high"]), _known(row["profile_low"])
        if above and below:
            outline = [*_points(places, above), *reversed(_points(places, below))]
            drawn += f'<path d="M{"L".join(outline)}Z" fill="{colour}" opacity="0.14"/>'
        drawn += (
            f'<path d="M{"L".join(_points(places, row["profile"]))}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"><title>{escape(row["method"])}</title></path>'
        )
    names = ", ".join(row["method"] for row in study["methods"])
    return (
        f'<svg class="s-plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="Performance profiles of {escape(names)}">{grid}{drawn}'
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">normalized score</text></svg>'
    )


def _x(share: float) -> float:
    return _LEFT + share * (_RIGHT - _LEFT)


def _y(share: float) -> float:
    return _BOTTOM - share * (_BOTTOM - _TOP)


def _points(places: Sequence[float], shares: Sequence[float]) -> list[str]:
    return [f"{x:.1f},{_y(share):.1f}" for x, share in zip(places, shares, strict=True)]


def _known(ends: object) -> list[float]:
    return [end for end in ends if end is not None] if isinstance(ends, list) else []


def _ranges(study: StudyDocument) -> str:
    ranges = "; ".join(
        f"{_env_words(env)} {number(low)} to {number(high)}" for env, (low, high) in study["ranges"].items()
    )
    left_out = ", ".join(map(_env_words, study["left_out"]))
    said = f"Scores are normalized per environment, from the lowest run (0) to the highest (1): {ranges}."
    return f"{said} Left out, as a method has no run there: {left_out}." if left_out else said


def _env_words(env: str) -> str:
    """Return the short name of an env, followed by its options where it has some."""
    name, _, options = env.partition(" ")
    return f"{env_title(name)} {options}".rstrip()


def _single_runs(study: StudyDocument | None) -> list[str]:
    if study is not None and any(not _known(row["iqm_ci95"]) for row in study["methods"]):
        return ["A method with one run in an environment has no interval: train it with 5 seeds or more."]
    return []


def _way_title(way: str) -> str:
    return {ALGORITHM: "Methods by algorithm", NAME: "Methods by name"}.get(way, f"Methods by {short_key(way)}")
