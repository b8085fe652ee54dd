"""Report of benchmarks: figures with intervals, the machine, a table, Markdown and a picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import psutil

from mosaic.core.files import replace_file, write_atomic
from mosaic.store.origin import GitState, all_versions, describe_git, git_state, machine_here
from mosaic.telemetry.curves.bootstrap import bounds, resampled_places

if TYPE_CHECKING:
    from PIL import ImageFont

Document: TypeAlias = dict[str, Any]
PICTURE = "report.png"
COLUMNS = ("benchmark", "figure", "ours (95 %)", "peer's (95 %)", "peer", "ratio (95 %)", "goal", "met")
NUMBERS = [column for column in COLUMNS if "95 %" in column]
FOOTNOTE = (
    "Medians of the repeats; ratios are those of the same repeat, and above 1 is better. In brackets: the 95 % "
    "bootstrap interval of the median; with seven repeats or fewer it is the range of them all."
)
_PLAIN = str.maketrans({"×": "x", "µ": "u", "–": "-", "—": "-"})
_VERDICTS = {True: "yes", False: "NO", None: ""}


class MedianInterval(NamedTuple):
    """Median of repeats with its 95 % interval; one repeat has no interval."""

    median: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> MedianInterval:
        import numpy as np

        if len(values) < 2:
            return cls(values[0], None, None)
        found = np.asarray(values)
        medians = [np.median(found[places], axis=1) for places in resampled_places(len(values), len(values))]
        low, high = bounds(np.concatenate(medians), len(values))
        return cls(float(np.median(found)), float(low), float(high))

    def text(self, sign: str = "") -> str:
        if self.low is None or self.high is None:
            return f"{_short(self.median)}{sign}"
        return f"{_short(self.median)}{sign} [{_short(self.low)}, {_short(self.high)}]"


def summarized(figures: Sequence[Document]) -> list[Document]:
    """Return the figures with median and 95 % interval of ours, the peer's and their ratios."""
    sides = {"ours": "values", "peer": "peer_values", "ratio": "ratios"}
    return [
        {
            **figure,
            "medians": {
                side: MedianInterval.of(figure[key])._asdict() for side, key in sides.items() if figure.get(key)
            },
        }
        for figure in figures
    ]


def circumstances(folder: Path, command: str, used_percent: float, packages: Iterable[str]) -> Document:
    """Return what the figures depend on: command, machine, what else it does, versions, state of the repository."""
    git = git_state(folder)
    return {
        "command": command,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **machine_here().model_dump(mode="json", exclude={"host"}),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load": round(psutil.getloadavg()[0], 1),
        "used_percent": round(used_percent),
        "git": None if git is None else git.model_dump(mode="json"),
        "versions": all_versions(packages),
    }


def read_figures(path: Path, benchmark: str) -> list[Document]:
    """Return the figures that a benchmark has written down; one that is cut off, as on a full disk, is a failure."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    return [{"benchmark": benchmark, **_read_figure(line, benchmark)} for line in lines]


def _read_figure(line: str, benchmark: str) -> Document:
    try:
        found: Document = json.loads(line)
    except json.JSONDecodeError:
        return {"what": benchmark, "failed": f"a figure was not written whole (is the disk full?): {line[:60]}"}
    return found


def rows(figures: Sequence[Document]) -> list[list[str]]:
    """Return the cells of the table, one row for each figure."""
    return [_cells(figure) for figure in figures]


def missed(figures: Sequence[Document]) -> list[str]:
    """Return the figures that failed or miss their goal."""
    return [each["what"] for each in figures if each.get("failed") or each.get("met") is False]


def markdown(about: Mapping[str, Any], figures: Sequence[Document]) -> str:
    versions = ", ".join(f"{name} {found}" for name, found in about["versions"].items())
    commit = describe_git(GitState.model_validate(about["git"])) if about["git"] else "no repository"
    lines = [
        "# Benchmarks",
        "",
        f"`{about['command']}`",
        "",
        (
            f"{about['at']}: {', '.join((about['cpu'], *about['gpus']))}, {about['cores']} cores, "
            f"{about['memory_gb']:g} GB, {about['system']}; before the first benchmark load {about['load']:.1f}, and "
            f"other programs used {about['used_percent']} % of the cores."
        ),
        "",
        f"Commit {commit}; {versions}.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
        *(f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in row)} |" for row in rows(figures)),
        "",
        FOOTNOTE,
    ]
    if compared(figures):
        lines += ["", f"![Ratios to the peers]({PICTURE})"]
    return "\n".join(lines) + "\n"


def write_report(folder: Path, about: Mapping[str, Any], figures: Sequence[Document]) -> list[Path]:
    """Write report.json, report.md and, where there are ratios, report.png; return their paths.

    A picture of an earlier report does not stay beside figures that it does not show.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document = {"machine": dict(about), "figures": summarized(figures)}
    written = [folder / "report.json", folder / "report.md"]
    write_atomic(written[0], json.dumps(document, indent=1))
    write_atomic(written[1], markdown(about, figures))
    if shown := compared(figures):
        written.append(folder / PICTURE)
        _draw(shown, written[-1])
    else:
        (folder / PICTURE).unlink(missing_ok=True)
    return written


def compared(figures: Sequence[Document]) -> list[Document]:
    return [each for each in figures if each.get("ratios")]


def _cells(figure: Document) -> list[str]:
    if figure.get("failed"):
        return [figure["benchmark"], figure["what"], figure["failed"], "", "", "", "", _VERDICTS[False]]
    if figure.get("skipped"):
        return [figure["benchmark"], figure["what"], f"left out: {figure['skipped']}", "", "", "", "", _VERDICTS[None]]
    unit = f" {figure['unit']}".rstrip()
    ours = MedianInterval.of(figure["values"]).text(unit)
    theirs = MedianInterval.of(figure["peer_values"]).text(unit) if figure.get("peer_values") else ""
    ratio = MedianInterval.of(figure["ratios"]).text("×") if figure.get("ratios") else ""
    goal = f"{figure['goal']} {figure['bound']:g}" if "goal" in figure else ""
    verdict = _VERDICTS[figure.get("met")]
    return [figure["benchmark"], figure["what"].strip(), ours, theirs, figure.get("peer", ""), ratio, goal, verdict]


def _draw(figures: Sequence[Document], path: Path) -> None:
    """Draw a bar for each ratio on a logarithmic scale, with its interval and its goal."""
    from math import log10

    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(15)
    left, wide, tall, top = 430, 520, 30, 44
    picture = Image.new("RGB", (left + wide + 140, top + tall * len(figures) + 20), "#ffffff")
    pen = ImageDraw.Draw(picture)
    found = [MedianInterval.of(figure["ratios"]) for figure in figures]
    reach = [value for each in found for value in each if value is not None]
    reach += [figure["bound"] for figure in figures if "bound" in figure]
    low, high = min(0.5, *reach) * 0.9, max(2.0, *reach) * 1.1

    def place(value: float) -> float:
        return left + wide * (log10(max(value, low)) - log10(low)) / (log10(high) - log10(low))

    pen.text((10, 12), "How many times as fast as the peer, logarithmic; the thick mark is the goal", "#333a44", font)
    pen.line([(place(1), top - 6), (place(1), top + tall * len(figures))], "#8891a0")
    for number, (figure, ratio) in enumerate(zip(figures, found, strict=True)):
        y = top + tall * number
        pen.text((10, y + 4), _label(figure, font, left - 20), "#333a44", font)
        ends = sorted((place(1), place(ratio.median)))
        pen.rectangle([ends[0], y + 5, ends[1], y + 21], "#d9822b" if figure.get("met") is False else "#3b7dd8")
        if ratio.low is not None and ratio.high is not None:
            pen.line([(place(ratio.low), y + 13), (place(ratio.high), y + 13)], "#1b2430", 2)
        if "bound" in figure:
            pen.line([(place(figure["bound"]), y + 2), (place(figure["bound"]), y + 24)], "#1b2430", 3)
        said = f"{_short(ratio.median)} times{', missed' if figure.get('met') is False else ''}"
        pen.text((max(ends[1], place(ratio.high or 0)) + 6, y + 4), said, "#1b2430", font)
    replace_file(path, lambda new: picture.save(new, "PNG"))


def _label(figure: Document, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: float) -> str:
    """Return the figure and the peer, cut to the width, without letters that Pillow's own font does not have."""
    text = f"{figure['what'].strip()} / {figure['peer']}".translate(_PLAIN)
    if font.getlength(text) <= width:
        return text
    while font.getlength(f"{text}…") > width:
        text = text[:-1]
    return f"{text}…"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
