"""Dialogs of the Play tab: environment, players and settings of a new game, moves and players of an open one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mosaic.ui.tui.widgets.browser import browse, reference_of
from mosaic.ui.tui.widgets.dialogs import Choose, FieldEditor, Prompt

if TYPE_CHECKING:
    from mosaic.server.schemas import EnvRow
    from mosaic.ui.tui.tabs.play import PlayTab
    from mosaic.ui.web.data.schema_fields import SchemaField

_OTHER, _FILE = "other …", "a file …"
_SWAP, _BACK = "swap sides", "return it to its policy"
_MOVE = "Move, or number of the action"


def edit_row(tab: PlayTab, key: str) -> None:
    """Change the row of the form with this key."""
    from mosaic.ui.tui.play.form import AGENT, ENV, EVERYONE

    form = tab.form
    if form is None or not key:
        tab.shell.say("The form is not ready yet.", "warning")
    elif key == ENV:
        tab.shell.prepare(tab.backend.catalog.envs, lambda rows: _choose_env(tab, rows))
    elif key.startswith(AGENT) or key == EVERYONE:
        name = "Every agent" if key == EVERYONE else key.removeprefix(AGENT)
        current = form.policies.get(name, "")
        choose_policy(tab, f"Who plays {name}", current, lambda said: _set_policy(tab, key, said), form.offers)
    else:
        _edit_option(tab, form.option(key))


def _choose_env(tab: PlayTab, rows: list[EnvRow]) -> None:
    known = {row.id: row for row in sorted(rows, key=lambda row: (not row.installed, row.id))}
    labels = {name if row.installed else f"{name} (not installed)": row for name, row in known.items()}

    current = tab.form.env if tab.form is not None else ""

    def chosen(label: str | None) -> None:
        if label == _OTHER:
            _type_env(tab, current)
        elif label == _FILE:
            browse(tab, "game", lambda path: _type_env(tab, reference_of("game", path)))
        elif label is not None and label not in labels:
            tab.look(label)
        elif label is not None and labels[label].installed:
            tab.look(labels[label].id)
        elif label is not None:
            tab.shell.say(f"{labels[label].id} is not installed. Type: {labels[label].install}", "warning")

    tab.app.push_screen(Choose("Environment", [*labels, _FILE, _OTHER], current, free=True), chosen)


def _type_env(tab: PlayTab, first: str) -> None:
    help = "An id such as gym/CartPole-v1, or one of your own: python:FILE.py:Class"
    check = lambda text: "" if text.strip() else "Type an environment."  # noqa: E731
    tab.app.push_screen(
        FieldEditor("Environment", help, first, check), lambda text: tab.look(text.strip()) if text else None
    )


def choose_policy(
    tab: PlayTab, title: str, current: str, take: Callable[[str], None], offers: Sequence[str], *more: str
) -> None:
    """Ask for a policy: one of those that fit the env, one of a file, or any other."""
    from mosaic.ui.tui.play.form import problem_of_policy

    def type_it(first: str) -> None:
        help = "A policy: run:ID, run:ID@best, checkpoint:PATH, onnx:PATH, python:FILE.py:Class, …"
        editor = FieldEditor(title, help, first, problem_of_policy, suggestions=offers)
        tab.app.push_screen(editor, lambda text: take(text.strip()) if text else None)

    def chosen(label: str | None) -> None:
        if label == _OTHER:
            type_it(current)
        elif label == _FILE:
            browse(tab, "checkpoint", lambda path: type_it(reference_of("checkpoint", path)))
        elif label is not None and label not in (*more, *offers) and problem_of_policy(label):
            type_it(label)
        elif label is not None:
            take(label)

    tab.app.push_screen(Choose(title, [*more, *offers, _FILE, _OTHER], current, free=True), chosen)


def _set_policy(tab: PlayTab, key: str, policy: str) -> None:
    if tab.form is not None:
        tab.form.set_policy(key, policy)
        tab.show_form(tab.form)


def _edit_option(tab: PlayTab, option: SchemaField) -> None:
    from mosaic.ui.web.data.schema_fields import as_text, from_text

    form = tab.form
    if form is None:
        return
    value = form.options.get(option.name, option.default)

    def take(said: str | bool | None) -> None:
        if said is not None:
            form.set_option(option, from_text(option, said) if isinstance(said, str) else said)
            tab.show_form(form)

    if option.widget == "switch":
        take(not value)
    elif option.widget == "choice":
        tab.app.push_screen(Choose(option.title, option.choices, as_text(value)), take)
    else:
        check = lambda text: form.problem(option, text)  # noqa: E731
        help = f"{option.help} {option.bounds}".strip()
        tab.app.push_screen(FieldEditor(option.title, help, as_text(value), check), take)


def ask_for_move(tab: PlayTab) -> None:
    """Ask for a move by its name, or an action by its number."""
    view = tab.game.view
    if view is None or not view.plays:
        tab.shell.say("You play no agent of an open game.", "warning")
        return

    def send(said: dict[str, str] | None) -> None:
        if said and said[_MOVE]:
            tab.send("move", text=said[_MOVE])

    shown = ", ".join(spot.label for spot in view.spots[:12])
    tab.app.push_screen(Prompt(f"Type a move{f': {shown}' if shown else ''}", {_MOVE: ""}), send)


def ask_for_players(tab: PlayTab) -> None:
    """Ask which agent gets which policy."""
    view = tab.game.view
    if view is None:
        tab.shell.say("No game is open here: t starts one.", "warning")
        return
    labels = {f"{agent.agent}: {agent.policy}": agent for agent in view.agents}
    first = [_SWAP] if len(view.agents) > 1 else []

    def chosen(label: str | None) -> None:
        if label == _SWAP:
            tab.send("swap")
        elif label is not None:
            agent = labels[label]
            more = [_BACK] if agent.human else []
            offers = tab.form.offers if tab.form is not None else ["human", "random"]
            title = f"Who plays {agent.agent}"
            choose_policy(tab, title, agent.policy, lambda said: assign(agent.agent, said), offers, *more)

    def assign(agent: str, policy: str) -> None:
        tab.send("assign", agent=agent, policy=None if policy == _BACK else policy)

    tab.app.push_screen(Choose("Players", [*first, *labels]), chosen)
