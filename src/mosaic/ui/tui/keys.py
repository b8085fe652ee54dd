"""Keys of the terminal app: one meaning per key, on every tab; bindings, help and palette are made from this table."""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding, BindingType


class Key(NamedTuple):
    key: str
    action: str
    title: str
    help: str
    footer: bool = True


EVERYWHERE = (
    Key("n", "new", "New", "Create a project on Home; elsewhere, how to start a run"),
    Key("enter", "open", "Open", "Open what is selected"),
    Key("s", "stop", "Stop", "Stop the run and save it"),
    Key("p", "pause", "Pause", "Pause the run, or continue it"),
    Key("r", "resume", "Resume", "Resume a run that has ended, or start one that is queued", footer=False),
    Key("k", "checkpoint", "Save", "Save a checkpoint of the run now", footer=False),
    Key("d", "delete", "Delete", "Delete what is selected, after a confirmation", footer=False),
    Key("slash", "filter", "Filter", "Filter the list"),
    Key("m", "messages", "Messages", "Show all messages of this session", footer=False),
    Key("question_mark", "help", "Help", "Show all keys"),
    Key("q", "quit", "Quit", "Quit; runs continue"),
)
OF_TABS = {
    "home": (
        Key("u", "rename", "Rename", "Rename the selected project"),
        Key("g", "doctor", "Doctor", "Show what is installed and what is missing"),
    ),
    "metrics": (
        Key("x", "axis", "X-axis", "Choose the x-axis: steps, time, episodes, iterations"),
        Key("z", "smooth", "Smoothing", "Choose the smoothing: none, 0.6, 0.9"),
        Key("plus", "zoom_in", "Zoom in", "Show half of the x-axis"),
        Key("minus", "zoom_out", "Zoom out", "Show twice as much of the x-axis"),
        Key("left_square_bracket", "pan_left", "Earlier", "Move to the left"),
        Key("right_square_bracket", "pan_right", "Later", "Move to the right"),
        Key("0", "zoom_reset", "All", "Show the whole x-axis"),
        Key("f", "charts", "Charts", "Show one chart or several"),
        Key("b", "band", "Seeds", "Show the mean of the run's seed group with its band"),
        Key("v", "picture", "Picture", "Show the live picture beside the curves"),
        Key("e", "export", "Export", "Save the chart as PNG, SVG or CSV"),
    ),
    "runs": (
        Key("space", "mark", "Mark", "Mark the run for a comparison, at most 6"),
        Key("c", "compare", "Compare", "Show the marked runs in one chart"),
    ),
}
SHOWN_AS = {
    "slash": "/",
    "question_mark": "?",
    "enter": "⏎",
    "plus": "+",
    "minus": "-",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}


def bindings(keys: tuple[Key, ...], *, footer: bool = True) -> list[BindingType]:
    """Return bindings; the keys of one tab are in its own hint line, and in the footer only those of every tab."""
    return [
        Binding(key.key, key.action, key.title, show=footer and key.footer, key_display=SHOWN_AS.get(key.key))
        for key in keys
    ]


def hint(keys: tuple[Key, ...]) -> str:
    """Return a line with a tab's own keys."""
    return "  ".join(f"[b]{shown(key.key).replace('[', chr(92) + '[')}[/b] {key.title.lower()}" for key in keys)


def shown(key: str) -> str:
    return SHOWN_AS.get(key, key)
