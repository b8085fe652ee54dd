"""Dialogs of the Play tab about recorded episodes: which one to replay, who plays on from a position of it, and what is
done with a demonstration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mosaic.core.errors import InputError
from mosaic.ui.tui.backend.files import LocalFiles
from mosaic.ui.tui.tabs.play_dialogs import choose_policy
from mosaic.ui.tui.widgets.browser import browse
from mosaic.ui.tui.widgets.dialogs import Choose, Confirm, Prompt

if TYPE_CHECKING:
    from mosaic.server.play.replay_views import ReplayRow
    from mosaic.store.demos.summary import DemoDetails
    from mosaic.ui.tui.tabs.play import PlayTab

T = TypeVar("T")
_FILE, _START = "a file …", "start with these players"
_DROP, _TRIM, _FILTER, _DELETE = "drop its last episode …", "trim an episode …", "keep the good ones …", "delete it …"
_EPISODE, _FIRST, _LAST = "Episode (empty: the last one)", "First step to keep (empty: 0)", "First step to cut"
_AGENT, _LEAST, _MOST = "Agent whose return counts", "Least return of an episode to keep", "Greatest return to keep"


def ask_for_replay(tab: PlayTab) -> None:
    """Ask which recorded episode, or which episode of a demonstration, is replayed."""
    from mosaic.server.play.replay_views import EpisodeRow, ReplayAsked
    from mosaic.store.demos.summary import DemoRow
    from mosaic.ui.web.components.theme import ago

    def choose(found: tuple[list[EpisodeRow], tuple[list[DemoRow], list[str]]]) -> None:
        now, (rows, problems) = tab.shell.clock(), found[1]
        episodes = {f"{row.name}  {ago(row.time, now)}": row.name for row in found[0]}
        demos = {f"{row.name}  demonstration, {_count(row.episodes)}, {row.env or '–'}": row for row in rows}
        for problem in problems:
            tab.shell.say(problem, "warning")

        def chosen(label: str | None) -> None:
            if label == _FILE:
                browse(tab, "episode", lambda path: _replay_file(tab, path), LocalFiles())
            elif label in demos and demos[label].problem:
                tab.shell.say(demos[label].problem, "error")
            elif label in demos:
                _show_demo(tab, demos[label].name)
            elif label is not None:
                tab.replay(ReplayAsked(name=episodes[label]), episodes[label])

        title = "Replay" if episodes or demos else "Nothing is recorded: set Record or Demo in the form of a game"
        tab.app.push_screen(Choose(title, [*episodes, *demos, _FILE]), chosen)

    backend = tab.backend
    tab.shell.prepare(lambda: (backend.replays.episodes(), backend.demos.rows()), choose)


def _replay_file(tab: PlayTab, path: str) -> None:
    """Replay an episode file of this machine; a server is sent its content."""
    from mosaic.server.play.replay_views import ReplayAsked

    def read() -> ReplayAsked:
        try:
            return ReplayAsked(episode=json.loads(Path(path).read_text(encoding="utf-8")))
        except ValueError as error:
            raise InputError(f"'{path}' is not an episode file: {error}.") from error

    tab.shell.aside(read, lambda asked: tab.replay(asked, Path(path).name))


def ask_to_play_on(tab: PlayTab, row: ReplayRow, step: int) -> None:
    """Ask who plays each agent from this position of a replay on, and start that game."""
    players = dict(row.policies)

    def ask(offers: list[str], agent: str = "") -> None:
        labels = {f"{name}: {policy}": name for name, policy in players.items()}

        def chosen(label: str | None) -> None:
            if label == _START:
                tab.play_on(step, players)
            elif label is not None:
                agent = labels[label]
                known = list(dict.fromkeys([*offers, *row.policies.values()]))
                choose_policy(tab, f"Who plays {agent}", players[agent], partial(take, agent), known)

        def take(agent: str, policy: str) -> None:
            players[agent] = policy
            ask(offers, agent)

        current = next((label for label, name in labels.items() if name == agent), _START)
        tab.app.push_screen(Choose(f"Play on from step {step:,}", [_START, *labels], current), chosen)

    def read() -> list[str]:
        from mosaic.ui.web.pages.play_choices import policies_for

        return policies_for(row.env, tab.backend.runs.rows())

    tab.shell.prepare(read, ask)


# Demonstrations


def _show_demo(tab: PlayTab, name: str) -> None:
    tab.shell.prepare(lambda: tab.backend.demos.details(name), lambda demo: _choose_episode(tab, demo))


def _choose_episode(tab: PlayTab, demo: DemoDetails) -> None:
    """Ask for an episode of a demonstration, or for what else is done with it."""
    from mosaic.server.play.replay_views import ReplayAsked

    name, demos = demo.name, tab.backend.demos
    labels = {}
    for row in reversed(demo.episode_rows):
        returns = ", ".join(f"{agent} {value:g}" for agent, value in row.returns.items())
        words = f"{row.env_steps:,} steps  {returns}" + ("" if row.replayable else "  (no record to replay)")
        labels[f"episode {row.number}  {words}"] = row

    def chosen(label: str | None) -> None:
        if label == _DROP:
            _change(tab, f"Drop the last episode of {name}? It will be lost.", lambda: demos.drop(name))
        elif label == _TRIM:
            _ask_to_trim(tab, demo)
        elif label == _FILTER:
            _ask_to_filter(tab, demo)
        elif label == _DELETE:
            _confirm(
                tab,
                f"Delete {name}? All of its episodes will be lost.",
                lambda: demos.delete(name),
                lambda _: tab.shell.say(f"{name} is deleted.", "done"),
            )
        elif label is not None and not labels[label].replayable:
            tab.shell.say("This episode was imported from a dataset without a record to replay.", "warning")
        elif label is not None:
            tab.replay(ReplayAsked(demo=name, number=labels[label].number), f"{name}, episode {labels[label].number}")

    title = f"{name}: {_count(demo.episodes)} of {demo.env or 'an env that is not known'}"
    drop = [_DROP] if len(labels) > 1 else []
    tab.app.push_screen(Choose(title, [*labels, _TRIM, _FILTER, *drop, _DELETE]), chosen)


def _ask_to_trim(tab: PlayTab, demo: DemoDetails) -> None:
    """Ask which env steps of an episode are kept."""

    def take(said: dict[str, str] | None) -> None:
        if said is None:
            return
        try:
            episode, first, last = (_number(said, label, int) for label in (_EPISODE, _FIRST, _LAST))
        except InputError as error:
            tab.shell.say(str(error), "error")
            return
        which = "the last episode" if episode is None else f"episode {episode}"
        question = (
            f"Keep only steps {first or 0} to {'its end' if last is None else last - 1} of {which} of {demo.name}?"
        )
        lost = " Its other steps will be lost."
        _change(tab, question + lost, lambda: tab.backend.demos.trim(demo.name, episode, first or 0, last))

    fields, hints = {_EPISODE: "", _FIRST: "", _LAST: ""}, {_LAST: "empty: none, the end is kept"}
    tab.app.push_screen(Prompt(f"Trim an episode of {demo.name}", fields, hints), take)


def _ask_to_filter(tab: PlayTab, demo: DemoDetails) -> None:
    """Ask which returns an episode may have to be kept."""

    def take(said: dict[str, str] | None) -> None:
        if said is None:
            return
        agent = said.get(_AGENT, "") or None
        try:
            least, most = _number(said, _LEAST, float), _number(said, _MOST, float)
        except InputError as error:
            tab.shell.say(str(error), "error")
            return
        question = f"Drop the episodes of {demo.name} with other returns? They will be lost."
        _change(tab, question, lambda: tab.backend.demos.filter(demo.name, agent, least, most))

    agents = {_AGENT: demo.agents[0]} if len(demo.agents) > 1 else {}
    fields, hints = {**agents, _LEAST: "", _MOST: ""}, {_LEAST: "such as 1", _MOST: "empty: any"}
    tab.app.push_screen(Prompt(f"Keep the good episodes of {demo.name}", fields, hints), take)


def _change(tab: PlayTab, question: str, work: Callable[[], DemoDetails]) -> None:
    """Change a demonstration after a confirmation, and show what is left of it."""

    def done(demo: DemoDetails) -> None:
        tab.shell.say(f"{demo.name} has {_count(demo.episodes)} now.", "done")
        _choose_episode(tab, demo)

    _confirm(tab, question, work, done)


def _confirm(tab: PlayTab, question: str, work: Callable[[], T], done: Callable[[T], None]) -> None:
    tab.app.push_screen(Confirm(question), lambda sure: tab.shell.aside(work, done) if sure else None)


def _number(said: Mapping[str, str], label: str, kind: Callable[[str], T]) -> T | None:
    """Return the number in a field; None where it is empty."""
    try:
        return kind(said[label]) if said[label] else None
    except ValueError as error:
        raise InputError(f"{label.partition(' (')[0]}: '{said[label]}' is not a number such as 2.") from error


def _count(episodes: int) -> str:
    return f"{episodes:,} episode{'' if episodes == 1 else 's'}"
