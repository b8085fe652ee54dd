"""Choices of the train page: the environment, and the policy of each agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from html import escape
from types import MappingProxyType
from typing import cast
from urllib.parse import urlencode

from nicegui import run, ui

from mosaic.config.sections import PolicyConfiguration
from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, EnvID, PolicyID
from mosaic.envs.family import EnvEntry
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.policy_picker import PolicyPicker
from mosaic.ui.web.components.theme import avatar, env_picture, env_title
from mosaic.ui.web.components.widgets import (
    Segmented,
    box,
    button,
    command,
    empty,
    panel,
    picture,
    raw,
    text_input,
)
from mosaic.ui.web.data.draft import LEARN, Draft, choices, rows_of, rules_of
from mosaic.ui.web.data.drawn_pictures import ADDRESS
from mosaic.ui.web.data.env_info import EnvLook, catalog, look_at

_ALL = "All"
_FIRST = (  # well-known ones, before the rest in alphabetical order
    "classic/tictactoe_v3",
    "classic/connect_four_v3",
    "gym/CartPole-v1",
    "mpe/simple_spread_v3",
    "butterfly/knights_archers_zombies_v10",
    "gym/LunarLander-v3",
    "classic/chess_v6",
    "gym/FrozenLake-v1",
    "mpe/simple_tag_v3",
    "gym/Taxi-v3",
)


def card_picture(entry: EnvEntry) -> str:
    """Return the picture that ships with Mosaic, or one drawn on first use."""
    if env_picture(entry.id) is not None:
        return picture(entry.id)
    if not entry.installed:
        return f'<span class="pic m-letters">{avatar(env_title(entry.id), len(entry.id))}</span>'
    return f'<img class="pic" src="{ADDRESS}?{urlencode({"env": entry.id})}" alt="" loading="lazy">'


def in_order(entries: tuple[EnvEntry, ...]) -> list[EnvEntry]:
    """Return installed envs first, and well-known ones first among them."""
    known = {env: place for place, env in enumerate(_FIRST)}
    return sorted(entries, key=lambda entry: (not entry.installed, known.get(entry.id, len(known)), entry.id))


class EnvPicker:
    """Cards of environments with pictures, filtered by family and by words."""

    def __init__(self, chosen: EnvID, on_choose: Callable[[EnvID], Awaitable[None]]) -> None:
        self._chosen = chosen
        self._on_choose = on_choose
        self._family, self._text = _ALL, ""
        self._cards: dict[EnvID, ui.html] = {}
        self._entries = {entry.id: entry for entry in in_order(catalog())}
        self._reachable = chosen if chosen in self._entries else next(iter(self._entries))  # a file may name any env
        families = {
            name: name.partition(":")[0] for name in (entry.partition("/")[0] for entry in sorted(self._entries))
        }
        with panel("Environment") as end:
            with end.classes("wraps"):
                Segmented({_ALL: _ALL, **families}, _ALL, self._filter_family, "Family").classes("hide-phone")
                label = f"Search {len(self._entries)} environments"
                text_input(label, self._filter_text, glyph="search").style("width:220px")
            self._grid = box("t-grid").props('role=group aria-label="Environments" data-arrows')
            self._missing = box("stack")
            with self._grid:
                for entry in self._entries.values():
                    self._cards[entry.id] = self._card(entry)
            self._none = raw("No environment has that name. Any registered Gymnasium id works in a terminal.", "m-note")
        self._none.set_visibility(False)
        ui.timer(0.2, self._tell_agents, once=True)

    def _card(self, entry: EnvEntry) -> ui.html:
        card = raw(_face(entry), "t-env" + ("" if entry.installed else " off"), "button").props("type=button")
        card.props["aria-pressed"] = str(entry.id == self._chosen).lower()
        card.props["tabindex"] = "0" if entry.id == self._reachable else "-1"
        card.props["title"] = entry.id
        card.on("click", lambda: self.choose(entry.id), [])
        return card

    async def choose(self, env: EnvID) -> None:
        entry = self._entries[env]
        self._missing.clear()
        if not entry.installed:
            with self._missing:
                missing = "is not installed. Type this, then start the server again:"
                words = f"is {entry.note}" if entry.note else missing
                raw(f"{escape(env_title(env))} {escape(words)}", "m-note")
                command(entry.install or "")
            return
        if self._chosen in self._cards:
            self._cards[self._chosen].props["aria-pressed"] = "false"
        self._cards[env].props["aria-pressed"] = "true"
        self._reach(env)
        self._chosen = env
        await self._on_choose(env)

    def _filter_family(self, family: str) -> None:
        self._family = family
        self._filter()

    def _filter_text(self, text: str) -> None:
        self._text = text.lower()
        self._filter()

    def _filter(self) -> None:
        found = [env for env in self._cards if self._fits(env)]
        for env, card in self._cards.items():
            card.set_visibility(env in found)
        self._none.set_visibility(not found)
        if found:
            self._reach(self._chosen if self._chosen in found else found[0])

    def _fits(self, env: EnvID) -> bool:
        words = f"{env} {env_title(env)}".lower()
        return self._family in (_ALL, env.partition("/")[0]) and all(word in words for word in self._text.split())

    def _reach(self, env: EnvID) -> None:
        """Make one card reachable with Tab and the others with arrow keys, instead of a Tab stop for each."""
        if env != self._reachable:
            self._cards[self._reachable].props["tabindex"] = "-1"
            self._cards[env].props["tabindex"] = "0"
            self._reachable = env

    async def _tell_agents(self) -> None:
        """Show how many agents each env has; a server's first page has to create all of them, one at a time."""
        for entry in self._entries.values():
            if not entry.installed:
                continue
            look = await run.io_bound(_look, entry.id)
            if self._grid.is_deleted:
                return
            if look is not None:
                self._cards[entry.id].set_content(_face(entry, look.card_words))
                self._cards[entry.id].props["title"] = f"{entry.id}: {look.full_words}"


def _look(env: EnvID) -> EnvLook | None:
    try:
        return look_at(env)
    except MosaicError:
        return None  # reported in full when the env is chosen


def _face(entry: EnvEntry, words: str = "") -> str:
    glyph = (icon("user") if words else "") if entry.installed else icon("export")
    words = (words or entry.id.partition("/")[0]) if entry.installed else "not installed"
    return (
        f'{card_picture(entry)}<span class="ok">{icon("check")}</span><span class="t">'
        f'<b class="clip">{escape(env_title(entry.id))}</b><span>{glyph}{escape(words)}</span></span>'
    )


_PRESETS: Mapping[PolicyConfiguration, str] = {
    "parameter_sharing": "One for all",
    "independent": "One per agent",
    "self_play": "Self-play",
    "shared_value_function": "Shared critic",
}
_WORDS: Mapping[PolicyConfiguration, str] = {
    "parameter_sharing": "agents with equal spaces share one policy",
    "independent": "every agent learns its own policy",
    "self_play": "one policy plays all agents, also against its past versions",
    "shared_value_function": "policies share a value function that sees all agents",
}
_MOST_ROWS = 8


class AgentTable:
    """A policy picker per agent, to learn or only to play, and presets that rewrite the rows."""

    def __init__(self, draft: Draft, on_change: Callable[[], object]) -> None:
        self._draft, self._on_change = draft, on_change
        self._look: EnvLook | None = None
        self._offers: Mapping[PolicyID, str] = {}
        self._paradigm: PolicyConfiguration = "parameter_sharing"
        self._rows: dict[AgentID, str] = {}
        self._pickers: dict[AgentID, PolicyPicker] = {}
        self._all = False
        with panel("Agents", hint="policies that learn, and fixed ones", body="m-body tight") as end:
            self._head = end
            self._words = raw("", "m-note").style("padding:10px 16px 8px")
            self._body = box()

    def show(
        self,
        look: EnvLook | None,
        paradigm: PolicyConfiguration | None,
        possible: Collection[PolicyConfiguration],
        offers: Mapping[PolicyID, str],
    ) -> None:
        """Show the rules of the draft for another env or worker."""
        self._look, self._offers = look, offers
        rules = self._draft.agents
        self._head.clear()
        if look is None or paradigm is None or paradigm not in look.policies or isinstance(rules, str):
            self._words.set_visibility(False)
            self._body.clear()
            self._pickers.clear()
            with self._body:
                by = escape(rules) if isinstance(rules, str) else "The worker"
                empty(f"{by} itself decides which policy plays each agent.")
            return
        self._words.set_visibility(True)
        with self._head:
            presets: dict[str, str] = {name: _PRESETS[name] for name in _PRESETS if name in possible}
            if len(look.agents) > 1:
                Segmented(presets, paradigm, self._choose_preset, "Policy configuration")
        self._fill(paradigm, rules)

    @property
    def problems(self) -> dict[AgentID, str]:
        return {agent: picker.problem for agent, picker in self._pickers.items() if picker.problem}

    def _choose_preset(self, name: str) -> None:
        self._draft.paradigm = cast(PolicyConfiguration, name)
        self._draft.agents = {}
        self._fill(self._draft.paradigm)
        self._on_change()

    def _fill(self, paradigm: PolicyConfiguration, rules: Mapping[str, PolicyID] = MappingProxyType({})) -> None:
        self._paradigm = paradigm
        self._words.set_content(_WORDS[paradigm][:1].upper() + _WORDS[paradigm][1:] + ".")
        self._rows = rows_of(rules, self._default)
        self._draw()

    @property
    def _default(self) -> Mapping[AgentID, str]:
        assert self._look is not None
        return self._look.policies[self._paradigm]

    def _draw(self) -> None:
        names = list(dict.fromkeys(choice for choice in self._rows.values() if choice.startswith(LEARN)))
        shown = list(self._rows) if self._all else list(self._rows)[:_MOST_ROWS]
        self._body.clear()
        self._pickers.clear()
        with self._body:
            for agent in shown:
                self._row(agent, names)
            if len(self._rows) > len(shown):
                with box("m-empty"):
                    button(f"Show all {len(self._rows)} agents", self._show_all, kind="ghost small")

    def _show_all(self) -> None:
        self._all = True
        self._draw()

    def _row(self, agent: AgentID, names: list[str]) -> None:
        assert self._look is not None
        choice = self._rows[agent]
        learns = choice.startswith(LEARN)
        with box("t-agent"):
            raw(avatar(agent, names.index(choice) if choice in names else 5))
            raw(f'<b class="strong">{escape(agent)}</b>', "clip").props["title"] = agent
            raw(icon("arrow", "faint"), "arrow row")
            with box("stack gap-1"):
                offered = choices(agent, self._rows, self._default, self._paradigm, self._offers)
                self._pickers[agent] = PolicyPicker(
                    offered, choice, f"Policy of {agent}", lambda picker: self._choose(agent, picker)
                )
            words = self._look.spaces[agent]
            tag = '<span class="m-tag accent">learns</span>' if learns else '<span class="m-tag">plays only</span>'
            raw(f'{tag}<span class="faint small clip" title="{escape(words)}">{escape(words)}</span>', "row t-spaces")

    def _choose(self, agent: AgentID, picker: PolicyPicker) -> None:
        if not picker.problem:
            self._rows[agent] = picker.policy
            self._draft.agents = rules_of(self._rows, self._default)
        self._on_change()
        if not picker.typing:
            self._draw()  # every row says which agents share its policy
