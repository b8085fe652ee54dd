"""Drawings of the data flow for the documentation: boxes in columns, arrows between them, as SVG.

python scripts/docs_drawings.py    # write docs/drawings
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "docs" / "drawings"
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN, TOP = 150, 40, 90, 16, 16, 34
FONT = 'font-family="sans-serif" font-size="13"'
MARKER = (
    '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>'
)
COLOURS = {"env": "#d8ecd9", "learns": "#d6e4f7", "fixed": "#e9e9e9", "person": "#f9e6c8", "learner": "#e7daf4"}


class Box(NamedTuple):
    name: str
    kind: str  # a key of COLOURS


class Arrow(NamedTuple):
    start: str
    end: str
    back: bool = False  # new weights: from right to left, dashed


class Drawing(NamedTuple):
    titles: tuple[str, ...]  # of the columns
    columns: tuple[tuple[Box, ...], ...]
    arrows: tuple[Arrow, ...]


def boxes(kind: str, *names: str) -> tuple[Box, ...]:
    return tuple(Box(name, kind) for name in names)


def learning(policies: Sequence[str], learner: str = "learner") -> tuple[Arrow, ...]:
    """Return the arrows of experience to the learner and of new weights back."""
    return tuple(arrow for policy in policies for arrow in (Arrow(policy, learner), Arrow(learner, policy, back=True)))


AGENTS = boxes("env", "agent_0", "agent_1", "agent_2")
DRAWINGS = {
    "parameter_sharing": Drawing(
        ("agents of the env", "policies", "training"),
        (AGENTS, boxes("learns", "shared"), boxes("learner", "learner")),
        (*(Arrow(agent.name, "shared") for agent in AGENTS), *learning(["shared"])),
    ),
    "independent": Drawing(
        ("agents of the env", "policies", "training"),
        (AGENTS, boxes("learns", "policy 0", "policy 1", "policy 2"), boxes("learner", "learner")),
        (
            *(Arrow(f"agent_{n}", f"policy {n}") for n in range(3)),
            *learning(["policy 0", "policy 1", "policy 2"]),
        ),
    ),
    "shared_value_function": Drawing(
        ("agents of the env", "actors", "training"),
        (AGENTS, boxes("learns", "actor 0", "actor 1", "actor 2"), boxes("learner", "critic of all", "learner")),
        (
            *(Arrow(f"agent_{n}", f"actor {n}") for n in range(3)),
            *(Arrow(f"actor {n}", "critic of all") for n in range(3)),
            Arrow("critic of all", "learner"),
            *(Arrow("learner", f"actor {n}", back=True) for n in range(3)),
        ),
    ),
    "self_play": Drawing(
        ("agents of the env", "policies", "training"),
        (
            boxes("env", "player_0", "player_1"),
            (*boxes("learns", "main"), *boxes("fixed", "snapshot 1", "snapshot 2")),
            boxes("learner", "learner", "league"),
        ),
        (
            *(Arrow(player, "main") for player in ("player_0", "player_1")),
            *(Arrow("player_1", snapshot) for snapshot in ("snapshot 1", "snapshot 2")),
            *learning(["main"]),
            Arrow("learner", "league"),
            *(Arrow("league", snapshot, back=True) for snapshot in ("snapshot 1", "snapshot 2")),
        ),
    ),
    "mixed": Drawing(
        ("agents of the env", "policies", "training"),
        (
            boxes("env", "adversary_0", "adversary_1", "adversary_2", "agent_0"),
            (*boxes("fixed", "random"), *boxes("learns", "hunters"), *boxes("fixed", "run:prey")),
            boxes("learner", "learner"),
        ),
        (
            Arrow("adversary_0", "random"),
            Arrow("adversary_1", "hunters"),
            Arrow("adversary_2", "hunters"),
            Arrow("agent_0", "run:prey"),
            *learning(["hunters"]),
        ),
    ),
    "team": Drawing(
        ("agents of the env", "policies"),
        (
            boxes("env", "adversary_0", "adversary_1", "adversary_2", "agent_0"),
            (*boxes("person", "human"), *boxes("fixed", "run:chase/adversary", "run:chase/agent")),
        ),
        (
            Arrow("adversary_0", "human"),
            *(Arrow(f"adversary_{n}", "run:chase/adversary") for n in (1, 2)),
            Arrow("agent_0", "run:chase/agent"),
        ),
    ),
    "cluster": Drawing(
        ("env runners, any machine", "driver", "what you see"),
        (
            boxes("env", "env runner 1", "env runner 2", "env runner 3"),
            boxes("learner", "learner"),
            boxes("fixed", "run folder", "web app, terminal"),
        ),
        (
            *(Arrow(f"env runner {n}", "learner") for n in (1, 2, 3)),
            *(Arrow("learner", f"env runner {n}", back=True) for n in (1, 2, 3)),
            Arrow("learner", "run folder"),
            Arrow("run folder", "web app, terminal"),
        ),
    ),
}


def svg(drawing: Drawing) -> str:
    rows = max(len(column) for column in drawing.columns)
    height = TOP + rows * (HEIGHT + GAP_Y) - GAP_Y + MARGIN
    width = len(drawing.columns) * (WIDTH + GAP_X) - GAP_X + 2 * MARGIN
    places = {
        box.name: (
            MARGIN + x * (WIDTH + GAP_X),
            TOP + (rows - len(column)) * (HEIGHT + GAP_Y) / 2 + y * (HEIGHT + GAP_Y),
        )
        for x, column in enumerate(drawing.columns)
        for y, box in enumerate(column)
    }
    size = f'width="{width}" height="{height:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" {size} {FONT}>',
        f'<rect {size} rx="6" fill="#fff"/>',
        MARKER,
    ]
    for x, title in enumerate(drawing.titles):
        centre = MARGIN + x * (WIDTH + GAP_X) + WIDTH / 2
        parts.append(
            f'<text x="{centre:g}" y="22" text-anchor="middle" fill="#555" font-size="12">{escape(title)}</text>'
        )
    parts += [line(places, arrow) for arrow in drawing.arrows]
    for column in drawing.columns:
        for box in column:
            left, top = places[box.name]
            parts.append(
                f'<rect x="{left:g}" y="{top:g}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{COLOURS[box.kind]}" '
                'stroke="#777"/>'
            )
            parts.append(
                f'<text x="{left + WIDTH / 2:g}" y="{top + HEIGHT / 2 + 5:g}" text-anchor="middle" fill="#111">'
                f"{escape(box.name)}</text>"
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def line(places: dict[str, tuple[float, float]], arrow: Arrow) -> str:
    """Draw an arrow; those back run a little lower, so that both directions are seen."""
    (left, top), (end_left, end_top) = places[arrow.start], places[arrow.end]
    if left == end_left:
        x, y, end_x, end_y = left + WIDTH / 2, top + HEIGHT, end_left + WIDTH / 2, end_top
    else:
        shift = 8 if arrow.back else -4
        y, end_y = top + HEIGHT / 2 + shift, end_top + HEIGHT / 2 + shift
        x, end_x = (left, end_left + WIDTH) if arrow.back else (left + WIDTH, end_left)
    dashes = ' stroke-dasharray="5 4"' if arrow.back else ""
    return f'<path d="M{x:g} {y:g} {end_x:g} {end_y:g}" stroke="#555" fill="none" marker-end="url(#a)"{dashes}/>'


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, drawing in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(svg(drawing), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
