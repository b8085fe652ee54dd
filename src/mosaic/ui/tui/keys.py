"""Keys of the terminal app: one meaning per key, on every tab; bindings, help and palette are made from this table."""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding, BindingType


class KeyMeaning(NamedTuple):
    key: str
    action: str
    title: str
    help: str
    footer: bool = True
    hint: str | None = None  # in the hint line, in place of the title; "" where the next key explains both
    hinted: bool = True  # whether it is in the hint line, which has little room


EVERYWHERE = (
    KeyMeaning("n", "new", "New", "Set up a new run; in the list of projects, create a project; on Play, a new game"),
    KeyMeaning("enter", "open", "Open", "Open what is selected"),
    KeyMeaning("s", "stop", "Stop", "Stop the run and save it; on Export, cancel the export; on Play, end the game"),
    KeyMeaning("p", "pause", "Pause", "Pause the run or the game, or continue it"),
    KeyMeaning("r", "resume", "Resume", "Resume a run that has ended, or start one that is queued", footer=False),
    KeyMeaning("k", "checkpoint", "Save", "Save a checkpoint of the run now", footer=False),
    KeyMeaning(
        "u", "rename", "Rename", "Change the name, tags and note of the run, or rename the project", footer=False
    ),
    KeyMeaning("d", "delete", "Delete", "Delete what is selected, after a confirmation", footer=False),
    KeyMeaning("l", "log", "Log", "Show the log of the run; on Train, change between it and the form", footer=False),
    KeyMeaning(
        "i",
        "config",
        "Config",
        "Show the configuration of the run, project or form",
        footer=False,
    ),
    KeyMeaning("slash", "filter", "Filter", "Filter the lists of the tab"),
    KeyMeaning("m", "messages", "Messages", "Show all messages of this session", footer=False),
    KeyMeaning("question_mark", "help", "Help", "Show all keys"),
    KeyMeaning("escape", "back", "Back", "Go back", footer=False),
    KeyMeaning("ctrl+z", "suspend_process", "Suspend", "Suspend; fg in the shell comes back", footer=False),
    KeyMeaning("q", "quit", "Quit", "Quit; runs continue"),
)
OF_TABS = {
    "home": (KeyMeaning("g", "doctor", "Doctor", "Show what is installed and what is missing"),),
    "train": (
        KeyMeaning("t", "start", "Start", "Start training with these settings"),
        KeyMeaning("y", "queue", "Queue", "Queue the run; r on Runs, or a server, starts it"),
        KeyMeaning("a", "advanced", "Advanced", "Show or hide the advanced settings"),
        KeyMeaning("o", "load", "Load", "Load a preset of a project, or a file"),
        KeyMeaning("w", "save", "Save as", "Save the settings as a preset or as a file"),
        KeyMeaning("backspace", "reset", "Reset", "Reset the setting to its default"),
    ),
    "metrics": (
        KeyMeaning("up", "step_chart(-1)", "Previous chart", "Show the chart before this one", hinted=False),
        KeyMeaning("down", "step_chart(1)", "Next chart", "Show the chart after this one", hinted=False),
        KeyMeaning("x", "axis", "X-axis", "Choose the x-axis: steps, time, episodes, iterations", hint="axis"),
        KeyMeaning("z", "smooth", "Smoothing", "Choose the smoothing: none, 0.6, 0.9", hint="smooth"),
        KeyMeaning("plus", "zoom_in", "Zoom in", "Show half of the x-axis", hint=""),
        KeyMeaning("minus", "zoom_out", "Zoom out", "Show twice as much of the x-axis", hint=""),
        KeyMeaning("0", "zoom_reset", "All", "Show the whole x-axis", hint="zoom"),
        KeyMeaning("left_square_bracket", "pan_left", "Earlier", "Move to the left", hint=""),
        KeyMeaning("right_square_bracket", "pan_right", "Later", "Move to the right", hint="pan"),
        KeyMeaning("equals_sign", "curves", "Curves", "Show all policies together, each policy, or both", hint="lines"),
        KeyMeaning("f", "charts", "Charts", "Show one chart or several", hint="grid"),
        KeyMeaning("b", "band", "Seeds", "Show the mean of the run's seed group with its band"),
        KeyMeaning("v", "picture", "Picture", "Show the live picture beside the curves", hint="pic"),
        KeyMeaning("e", "export", "Export", "Save the chart as PNG, SVG or CSV", hint="save"),
    ),
    "play": (
        KeyMeaning("t", "start", "Start", "Start the game with these players; in a replay, play on from its position"),
        KeyMeaning("E", "evaluate", "Evaluate", "Evaluate the players, hold a tournament, or show earlier results"),
        KeyMeaning("o", "replay", "Replay", "Replay a recorded episode, or one of a demonstration"),
        KeyMeaning("j", "move", "Type a move", "Type a move by its name, or an action by its number", hint="move"),
        KeyMeaning("backspace", "undo", "Take back", "Undo your last move and the policies' replies", hint="undo"),
        KeyMeaning("h", "players", "Players", "Assign another player to an agent, take one over, or swap sides"),
        KeyMeaning("period", "step", "One step", "Pause, and take one step", hint="step"),
        KeyMeaning("less_than_sign", "slower", "Slower", "Half as many steps per second", hint=""),
        KeyMeaning("greater_than_sign", "faster", "Faster", "Twice as many steps per second", hint="pace"),
        KeyMeaning("comma", "advice", "Advice", "Show what the policy would do"),
    ),
    "export": (
        KeyMeaning("t", "start", "Start", "Start the export"),
        KeyMeaning("space", "mark", "Mark", "Exclude a policy, or include it again"),
        KeyMeaning("w", "save_files", "Save files", "Write the files of the selected export to a folder"),
    ),
    "runs": (
        KeyMeaning("space", "mark", "Mark", "Mark the run for a comparison, at most 6"),
        KeyMeaning("c", "compare", "Compare", "Show the marked runs in one chart, and in which settings they differ"),
        KeyMeaning(
            "H", "hide", "Hide", "Hide the run from lists, or show it again; the filter hidden shows hidden runs"
        ),
    ),
}
SHOWN_AS = {
    "slash": "/",
    "question_mark": "?",
    "enter": "⏎",
    "up": "↑",
    "down": "↓",
    "escape": "esc",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "backspace": "⌫",
    "period": ".",
    "comma": ",",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}


def bindings(keys: tuple[KeyMeaning, ...], *, footer: bool = True) -> list[BindingType]:
    """Return bindings; the keys of one tab are in its own hint line, and in the footer only those of every tab."""
    return [
        Binding(key.key, key.action, key.title, show=footer and key.footer, key_display=SHOWN_AS.get(key.key))
        for key in keys
    ]


def hint(keys: tuple[KeyMeaning, ...]) -> str:
    """Return a line with a tab's own keys."""
    parts = []
    for key in keys:
        if not key.hinted:
            continue
        words = key.title.lower() if key.hint is None else key.hint
        sign = shown(key.key).replace("[", chr(92) + "[")
        parts.append(f"[b]{sign}[/b] {words}  " if words else f"[b]{sign}[/b] ")
    return "".join(parts).rstrip()


def shown(key: str) -> str:
    return SHOWN_AS.get(key, key)
