"""Demonstrations page: recorded play to learn from, and one demonstration with its agents and episodes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

from nicegui import ui

from mosaic.ui.web.api import ask, ask_or_complain
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import ago, number
from mosaic.ui.web.components.widgets import (
    box,
    button,
    command,
    complain,
    empty,
    line_link,
    link_button,
    panel,
    raw,
    say,
    select,
    text_input,
)

_MOST_EPISODES = 200  # shown, the last ones


async def page(frame: PageLayout, name: str = "") -> None:
    """List the demonstrations, or show the one called `name`."""
    frame.title(("Play", "/play"), *([("Demonstrations", "/demos"), name] if name else ["Demonstrations"]))
    with box("m-page"):
        place = box("stack gap-4")
    await (_Details(place, name).load() if name else _list(place))


async def _list(place: ui.element) -> None:
    reply = await ask("/demos", method="GET")
    if place.is_deleted:
        return
    if not reply.ok:
        complain(reply.error)
        return
    with place, box("m-cols").style("grid-template-columns:minmax(0,1fr) 368px"):
        with panel("Demonstrations", body="m-body tight"):
            now = time.time()
            for row in reply.document["demonstrations"]:
                facts = _episodes(row["episodes"]), row["env"] or "–", ago(row["created"], now)
                words = row["problem"] or " · ".join(facts)
                line_link(row["name"], words, f"/demos?{urlencode({'name': row['name']})}")
            if not reply.document["demonstrations"]:
                empty('None yet. Switch on "Record as demonstration" in a match.')
            for problem in reply.document["problems"]:
                raw(escape(problem), "m-note m-empty")
        with panel("What they are for"):
            raw(
                "Play of people and policies, step by step: observations, legal and chosen actions, rewards, and who "
                "chose each action. Learners imitate it, or learn from it without an env. Each agent's part is a "
                "Minari dataset.",
                "m-note",
            )
            command("mosaic play ENV --agent '*=human' --demo NAME")


class _Details:
    """One demonstration."""

    def __init__(self, place: ui.element, name: str) -> None:
        self._place, self._name = place, name
        self._path = f"/demos/{quote(name)}"
        self._agent, self._least = "", ""
        self._cut: dict[str, str] = {}  # episode, first and last step, as typed

    async def load(self) -> None:
        reply = await ask(self._path, method="GET")
        if self._place.is_deleted:
            return
        if reply.ok:
            self._build(reply.document)
            return
        with self._place, panel("This demonstration cannot be shown"):
            raw(escape(reply.error), "m-lead")
            link_button("All demonstrations", "/demos", kind="primary")

    def _build(self, demo: Mapping[str, Any]) -> None:
        self._place.clear()
        with self._place:
            with panel("Agents", hint=f"{_episodes(demo['episodes'])} of {demo['env'] or 'an env that is not known'}"):
                raw(_agents_table(demo["datasets"]), "m-scroll")
                with box("row wrap"):
                    download = link_button("Download", f"{self._path}/archive", glyph="export", kind="small")
                    download.props["download"] = f"{self._name}.zip"
                    self._confirmed("Drop the last episode", "The last episode will be lost.", self._drop_last)
                    self._confirmed("Delete", "All of its episodes will be lost.", self._delete)
            with box("m-cols").style("grid-template-columns:minmax(0,1fr) 368px"):
                with panel("Episodes", body="m-body tight"):
                    self._episodes(demo["episode_rows"])
                with box("stack gap-4"):
                    self._filter(demo["agents"])
                    self._trim()
                    with panel("Use for learning"):
                        command(f"demo:{self._name}")
                        raw("The name of this dataset for learners; one agent's part is demo:NAME/AGENT.", "m-note")

    def _episodes(self, rows: list[Mapping[str, Any]]) -> None:
        with box("m-scroll"), box("m-table dense", "table"):
            raw("<tr><th>#</th><th class=num>Steps</th><th>Returns</th><th>Controllers</th><th></th></tr>", "", "thead")
            with box("", "tbody"):
                for row in rows[-_MOST_EPISODES:]:
                    self._episode(row)

    def _episode(self, row: Mapping[str, Any]) -> None:
        returns = ", ".join(f"{agent} {number(value)}" for agent, value in row["returns"].items())
        cells = (str(row["number"]), f"{row['env_steps']:,}", returns, _controllers(row["controllers"]))
        with box("", "tr"):
            for index, cell in enumerate(cells):
                raw(escape(cell), "num" if index == 1 else "", "td")
            with box("", "td"):
                if row["replayable"]:
                    query = urlencode({"demo": self._name, "number": row["number"]})
                    link_button("Replay", f"/replay?{query}", kind="small")

    def _filter(self, agents: list[str]) -> None:
        self._agent = agents[0] if agents else ""
        with panel("Keep good episodes"):
            raw("Drop all episodes in which an agent's return is lower.", "m-note")
            if len(agents) > 1:
                select(agents, self._agent, label="Agent whose return counts", on_change=self._choose)
            text_input("Least return", self._type).classes("fill")
            self._confirmed("Filter", "Episodes with a lower return will be lost.", self._apply_filter)

    def _trim(self) -> None:
        self._cut = {"episode": "", "first": "", "last": ""}
        labels = (
            "Episode (default: the last one)",
            "First step to keep (default: 0)",
            "First step to cut (default: none)",
        )
        with panel("Trim an episode"):
            raw("Keep only some of its env steps: cut an idle start or a bad end.", "m-note")
            for name, label in zip(self._cut, labels, strict=True):
                text_input(label, partial(self._cut.__setitem__, name)).classes("fill")
            self._confirmed("Trim", "The other steps of the episode will be lost.", self._apply_trim)

    async def _apply_trim(self) -> None:
        try:
            asked = {name: int(text) if text.strip() else None for name, text in self._cut.items()}
        except ValueError:
            complain("Type whole numbers: the episode, the first env step to keep and the first one to cut.")
            return
        await self._change("trim", asked | {"first": asked["first"] or 0})

    def _choose(self, agent: str) -> None:
        self._agent = agent

    def _type(self, least: str) -> None:
        self._least = least

    def _confirmed(self, text: str, consequence: str, act: Callable[[], Awaitable[None]]) -> None:
        """Show a button that asks for confirmation before it acts."""
        with ui.dialog() as dialog, box("m-panel").props(f'role=dialog aria-label="{escape(text)}"'), box("m-body"):
            raw(escape(f"{text}: {self._name}?"), "strong")
            raw(escape(consequence), "m-note")

            async def go() -> None:
                dialog.close()
                await act()

            with box("row"):
                button(text, go, kind="primary")
                button("Cancel", dialog.close)
        button(text, dialog.open, kind="small")

    async def _drop_last(self) -> None:
        await self._change("drop", {"last": 1})

    async def _apply_filter(self) -> None:
        try:
            least = float(self._least)
        except ValueError:
            complain(f"'{self._least}' is not a number. Type the least return of an episode to keep, such as 1.")
            return
        await self._change("filter", {"agent": self._agent, "min_return": least})

    async def _change(self, what: str, body: Mapping[str, Any]) -> None:
        reply = await ask_or_complain(f"{self._path}/{what}", body)
        if reply is not None and not self._place.is_deleted:
            self._build(reply.document)  # it deletes the button that was pressed, and with it the place of the message
            with self._place:
                say(f"{self._name} has {_episodes(reply.document['episodes'])} now.")

    async def _delete(self) -> None:
        if await ask_or_complain(self._path, method="DELETE") is not None:
            ui.navigate.to("/demos")


def _episodes(count: int) -> str:
    return f"{count:,} episode{'' if count == 1 else 's'}"


def _agents_table(datasets: list[Mapping[str, Any]]) -> str:
    names = ("Agent", "Steps", "Mean return", "Controllers (steps)", "Spaces")
    heads = "".join(f"<th{' class=num' if index in (1, 2) else ''}>{name}</th>" for index, name in enumerate(names))
    lines = []
    for each in datasets:
        controllers = ", ".join(f"{policy} {steps:,}" for policy, steps in each["controllers"].items())
        spaces = f"{each['observation']} → {each['action']}"
        lines.append(
            f"<tr><td>{escape(each['agent'])}</td><td class=num>{each['steps']:,}</td>"
            f"<td class=num>{number(each['return_mean'])}</td><td>{escape(controllers)}</td>"
            f"<td>{escape(spaces)}</td></tr>"
        )
    return f'<table class="m-table dense"><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _controllers(controllers: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{agent}: {' → '.join(used)}" for agent, used in controllers.items())
