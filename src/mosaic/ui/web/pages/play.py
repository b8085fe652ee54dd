"""Play page: open a match of any environment, take part in it, or join one by its link."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from urllib.parse import quote, urlencode

from nicegui import run as threads
from nicegui import ui

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import MosaicError
from mosaic.core.ids import JsonObject
from mosaic.ui.web.api import ask, ask_or_complain
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import env_title
from mosaic.ui.web.components.widgets import (
    box,
    button,
    complain,
    empty,
    line_link,
    link_button,
    panel,
    picture,
    raw,
    select,
    text_input,
)
from mosaic.ui.web.pages.play_choices import QUICK, Quick, initial_policies, labels_of, policies_for, trained_agents
from mosaic.ui.web.pages.replay import episode_link
from mosaic.ui.web.pages.train.choices import EnvPicker

_ICONS = (
    "link",
    "export",
    "play",
    "pause",
    "step",
    "restart",
    "swap",
    "user",
    "hand",
    "alert",
    "info",
    "record",
    "undo",
    "flip",
)
_PACES = {
    "auto": "the environment's",
    "turns": "wait for my action",
    "real_time": "real time, with keys held down",
}
_CLOCKS: dict[str, JsonObject | None] = {
    "no clock": None,
    **{
        f"{minutes} min + {increment} s": {"initial_s": 60.0 * minutes, "increment_s": float(increment)}
        for minutes, increment in ((1, 0), (3, 2), (5, 3), (10, 0), (15, 10))
    },
}
_NO_MATCH = (
    "It has ended, or the link is wrong. A match ends after five minutes without a viewer; "
    "open matches and recorded episodes are listed on the page Play."
)
_MOST_ROWS = 8  # agents with a row each; with more, the user picks one and the others share a policy


class MatchBoard(ui.element, component="../static/play.js"):
    """Match: its picture, players, moves and controls; it connects to the server on its own socket."""

    def __init__(self, match_id: str, agent: str, title: str, policies: list[str], labels: dict[str, str]) -> None:
        super().__init__()
        self.props.update(match_id=match_id, agent=agent, title=title, policies=policies, labels=labels)
        self.props["icons"] = {name: icon(name) for name in _ICONS}


async def page(frame: PageLayout, match: str = "", agent: str = "", env: str = "", run: str = "") -> None:
    """Show the open match `match`, or a form for a new one in `env` or against `run`."""
    if match:
        await _show_match(frame, match, agent)
        return
    frame.title("Play")
    if run:
        env = env or _env_of(frame, run)
    await _Setup(frame, env, run).build()


async def _show_match(frame: PageLayout, match_id: str, agent: str) -> None:
    frame.title(("Play", "/play"), "Match")
    with box("m-page"):
        place = box()
    reply = await ask(f"/matches/{quote(match_id, safe='')}", method="GET")
    if place.is_deleted:
        return
    with place:
        agents = [str(each["agent"]) for each in reply.document["agents"]] if reply.ok else []
        if reply.status == 404:
            _no_match("There is no match at this link", _NO_MATCH)
            return
        if not reply.ok:
            _no_match("This match cannot be shown", reply.error)
            return
        if agent and agent not in agents:
            said = f"The link names the agent '{agent}'; this match has: {', '.join(agents)}."
            _no_match("This match has no such agent", said, match_id)
            return
        env = str(reply.document["env"])
        frame.title(("Play", "/play"), env_title(env))
        rows = frame.facts.rows()
        offers = policies_for(env, rows)
        labels = labels_of([*offers, *(each["policy"] for each in reply.document["agents"])], rows)
        MatchBoard(match_id, agent, env_title(env), offers, labels)


def _no_match(title: str, why: str, match_id: str = "") -> None:
    """Say why there is nothing to play; `match_id` is that of a match that can be watched instead."""
    with panel(title):
        raw(escape(why), "m-lead")
        with box("row"):
            if match_id:
                link_button("Watch the match", f"/play?{urlencode({'match': match_id})}", glyph="play")
            link_button("New match", "/play", glyph="play", kind="primary")


def _env_of(frame: PageLayout, run: str) -> str:
    """Return the env that a run was trained in."""
    return EnvironmentConfig.model_validate(
        frame.facts.details(frame.context.folder(run).run_id).config["environment"]
    ).id


class _Setup:
    """Form for a new match."""

    def __init__(self, frame: PageLayout, env: str, run: str) -> None:
        self._frame, self._run = frame, run
        self._env = env or "classic/tictactoe_v3"
        self._agents: tuple[str, ...] = ()
        self._policies: dict[str, str] = {}
        self._pace, self._clock = "auto", "no clock"

    async def build(self) -> None:
        with box("m-page"):
            if not self._run:
                with panel("Start at once"), box("p-cards"):
                    for quick in QUICK:
                        self._card(quick)
            with box("m-cols").style("grid-template-columns:minmax(0,1fr) 368px"):
                EnvPicker(self._env, self._choose)
                with box("stack gap-4"):
                    with panel("Your own match"):
                        self._title = raw("", "strong")
                        self._rows = box("stack gap-1")
                        with box("p-rows"):
                            raw("Pace", "strong")
                            select(_PACES, self._pace, label="Pace", on_change=self._choose_pace)
                            raw("Seed", "strong")
                            self._seed = text_input("a new seed for each match")
                            self._seed.props["aria-label"] = "Seed"
                            raw("Clock", "strong")
                            select(list(_CLOCKS), self._clock, label="Clock of each side", on_change=self._choose_clock)
                        with box("row"):
                            self._start = button("Play", self._open, glyph="play", kind="primary")
                    self._open_matches = box("stack gap-4")
        await self._fill()
        await self._list()

    def _card(self, quick: Quick) -> None:
        text = f'{picture(quick.env)}<span class="words"><b>{escape(quick.title)}</b>'
        text += f'<span class="faint small">{escape(quick.words)}</span></span>'
        card = raw(text, "p-card", "button").props("type=button")
        card.on("click", lambda: self._begin(quick.env, dict(quick.agents)), [])

    async def _choose(self, env: str | None) -> None:
        if env and env != self._env:
            self._env = env
            await self._fill()

    async def _fill(self) -> None:
        asked = self._env
        self._title.set_content(escape(env_title(asked)))
        self._rows.clear()
        with self._rows:
            raw("Looking at the environment…", "m-note")
        try:
            look = await threads.io_bound(self._frame.facts.look, asked)
            agents, problem = look.agents if look else (), ""
        except MosaicError as error:
            agents, problem = (), str(error)
        if self._rows.is_deleted or asked != self._env:
            return
        self._agents = agents
        offers = policies_for(self._env, self._frame.facts.rows())
        trained = trained_agents(self._frame.context.folder(self._run), self._agents) if self._run else ()
        self._policies = initial_policies(self._agents, f"run:{self._run}" if self._run else "", offers, trained)
        self._rows.clear()
        with self._rows:
            if problem:
                raw(escape(problem), "m-lead")
            elif not self._agents:
                raw("Its agents are known when the match begins; you play all of them.", "m-note")
            elif len(self._agents) <= _MOST_ROWS:
                self._each(offers)
            else:
                self._one_and_the_rest(offers)

    def _each(self, offers: list[str]) -> None:
        with box("p-rows"):
            for agent in self._agents:
                raw(escape(agent), "strong")
                self._picker(f"Policy of {agent}", offers, self._policies[agent], _setter(self._policies, agent))

    def _one_and_the_rest(self, offers: list[str]) -> None:
        rest = next((p for p in self._policies.values() if p != "human"), "random")
        chosen = {"agent": next(agent for agent, p in self._policies.items() if p == "human"), "rest": rest}

        def settle() -> None:
            self._policies = dict.fromkeys(self._agents, chosen["rest"]) | {chosen["agent"]: "human"}

        def choose(key: str) -> Callable[[str], None]:
            def change(value: str) -> None:
                chosen[key] = value
                settle()

            return change

        with box("p-rows"):
            raw("You play", "strong")
            select(list(self._agents), chosen["agent"], label="Your agent", on_change=choose("agent"), with_input=True)
            raw(f"The other {len(self._agents) - 1}", "strong")
            self._picker("Policy of the others", offers, rest, choose("rest"))
        settle()

    def _picker(self, label: str, offers: list[str], value: str, on_change: Callable[[str], None]) -> None:
        offered = dict.fromkeys((*offers, value))
        labels = {"human": "You or an invited person", **labels_of(offered, self._frame.facts.rows())}
        names = {policy: labels.get(policy, policy) for policy in offered}
        select(names, value, label=label, on_change=on_change, with_input=True, new_value_mode="add-unique")

    def _choose_pace(self, pace: str) -> None:
        self._pace = pace

    def _choose_clock(self, clock: str) -> None:
        self._clock = clock

    async def _open(self) -> None:
        text = str(self._seed.value or "").strip()
        if text and not text.isdecimal():
            complain(f"'{text}' is not a seed. Type a whole number, or leave the field empty.")
            return
        seed = int(text) if text else None
        more: JsonObject = {"pace": self._pace, "clock": _CLOCKS[self._clock], "seed": seed}
        await self._begin(self._env, self._policies or {"*": "human"}, more)

    async def _begin(self, env: str, agents: dict[str, str], more: JsonObject | None = None) -> None:
        asked = {"environment": {"env_id": env}, "agents": agents, **(more or {})}
        reply = await ask_or_complain("/matches", asked)
        if reply is not None:
            ui.navigate.to(match_link(reply.document))

    async def _list(self) -> None:
        matches, kept = await ask("/matches", method="GET"), await ask("/episodes", method="GET")
        if self._open_matches.is_deleted:
            return
        for reply in (matches, kept):
            if not reply.ok:
                complain(reply.error)
                return
        with self._open_matches:
            with panel("Open matches", hint=str(len(matches.document) or ""), body="m-body tight"):
                with box("p-open").props('tabindex="0" role="group" aria-label="Open matches"'):
                    for row in matches.document:
                        words = f"step {row['step']} · {row['viewers']} watching"
                        line_link(env_title(row["env"]), words, f"/play?{urlencode({'match': row['match_id']})}")
                if not matches.document:
                    empty("None. A match ends after five minutes without a viewer.")
            with panel("Recorded episodes", body="m-body tight") as end:
                with end:
                    raw("All", "m-link small", "a").props('href="/replay"')
                for row in kept.document[:6]:
                    episode_link(row)
                if not kept.document:
                    empty('None yet. Switch on "Keep the episodes" in a match.')
            with panel("Demonstrations") as end:
                with end:
                    raw("All", "m-link small", "a").props('href="/demos"')
                raw("Play that was recorded step by step, to learn from.", "m-note")


def match_link(opened: JsonObject) -> str:
    """Return the owner's link to a match; browsers do not send the part with the key."""
    return f"/play?{urlencode({'match': opened['match_id']})}#{urlencode({'key': opened['owner_key']})}"


def _setter(policies: dict[str, str], agent: str) -> Callable[[str], None]:
    def change(policy: str) -> None:
        policies[agent] = policy

    return change
