"""Agent table: a policy picker per agent, to learn or only to play, and presets that rewrite the rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from html import escape
from typing import Any, cast

from mosaic.config.sections import PolicyConfiguration
from mosaic.core.ids import AgentID, PolicyID
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.policy_picker import PolicyPicker
from mosaic.ui.web.components.theme import avatar
from mosaic.ui.web.components.widgets import Segmented, box, button, empty, panel, raw
from mosaic.ui.web.data.env_info import EnvLook
from mosaic.ui.web.pages.train.draft import LEARN, Draft, choices, default_rows, rules_of

_PRESETS: Mapping[PolicyConfiguration, str] = {
    "parameter_sharing": "All share one",
    "independent": "One per agent",
    "self_play": "Self-play",
    "shared_value_function": "Shared critic",
}
_WORDS: Mapping[PolicyConfiguration, str] = {
    "parameter_sharing": "agents that see and act alike share one policy",
    "independent": "every agent learns a policy of its own",
    "self_play": "one policy plays all agents and its own past",
    "shared_value_function": "policies share a value function that sees all agents",
}
_MOST_ROWS = 8


class AgentTable:
    def __init__(self, draft: Draft, on_change: Callable[[], Any]) -> None:
        self._draft, self._on_change = draft, on_change
        self._look: EnvLook | None = None
        self._offers: Mapping[PolicyID, str] = {}
        self._paradigm: PolicyConfiguration = "parameter_sharing"
        self._rows: dict[AgentID, str] = {}
        self._pickers: dict[AgentID, PolicyPicker] = {}
        self._all = False
        with panel("Agents", hint="who learns, who only plays", body="m-body tight") as end:
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
        """Reset the rows for another env or worker."""
        self._look, self._offers = look, offers
        self._draft.agents = {}
        self._head.clear()
        if look is None or paradigm is None or paradigm not in look.policies:
            self._words.set_visibility(False)
            self._body.clear()
            self._pickers.clear()
            with self._body:
                empty("The worker decides by itself who acts for whom.")
            return
        self._words.set_visibility(True)
        with self._head:
            presets = {name: _PRESETS[name] for name in _PRESETS if name in possible}
            if len(look.agents) > 1:
                Segmented(presets, paradigm, self._choose_preset, "Policy configuration")
        self._fill(paradigm)

    @property
    def problems(self) -> dict[AgentID, str]:
        return {agent: picker.problem for agent, picker in self._pickers.items() if picker.problem}

    def _choose_preset(self, name: str) -> None:
        self._draft.paradigm = cast(PolicyConfiguration, name)
        self._draft.agents = {}
        self._fill(self._draft.paradigm)
        self._on_change()

    def _fill(self, paradigm: PolicyConfiguration) -> None:
        self._paradigm = paradigm
        self._words.set_content(_WORDS[paradigm][:1].upper() + _WORDS[paradigm][1:] + ".")
        self._rows = default_rows(self._default)
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
        learns = choice.startswith((LEARN, "self@"))
        with box("t-seat"):
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
