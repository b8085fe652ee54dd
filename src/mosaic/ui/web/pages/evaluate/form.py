"""Form for an evaluation or tournament: environment, policies, number of games."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from typing import Any, Literal
from urllib.parse import urlencode

from nicegui import run, ui

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, EnvID, JsonObject, PolicyID
from mosaic.ui.web.components.policy_picker import PolicyPicker
from mosaic.ui.web.components.theme import avatar, env_title, title
from mosaic.ui.web.components.widgets import Segmented, box, button, complain, enable, panel, raw, select
from mosaic.ui.web.data.env_info import EnvLook, catalog
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.pages.play_choices import policies_for

Kind = Literal["evaluate", "tournament"]
_KINDS = {"tournament": "Tournament", "evaluate": "Evaluate"}
_MOST_ROWS = 8
_MOST_ENTRANTS = 20


class EvaluationForm:
    """The form; `request` returns the body for the API and raises where a field is invalid."""

    def __init__(
        self, facts: Facts, env: EnvID, kind: Kind, request: Mapping[str, Any], begin: Callable[[], object]
    ) -> None:
        self._facts, self.env, self.kind = facts, env, kind
        self._look: EnvLook | None = None
        self._entrants: list[PolicyID] = list(request.get("policies", ()))
        self._agents: dict[AgentID, PolicyID] = dict(request.get("agents", {}))
        self._pickers: list[PolicyPicker] = []
        with box("row between wrap"):
            with box("row wrap"):
                self._kind_choice = Segmented(_KINDS, kind, self._choose_kind, "Kind")
                envs = {entry.id: env_title(entry.id) for entry in catalog() if entry.installed}
                self._env = select(envs, env, label="Environment", on_change=self._choose_env, with_input=True)
                self._env.style("width:214px")
                self._count = self._field("Games", str(request.get("games") or request.get("episodes") or ""), "112px")
                self._seed = self._field("Seed", str(request.get("seed", 0)), "104px")
            with box("row"):
                self._seed.props["prefix"] = "seed"
                button("Ladder", lambda: ui.navigate.to(f"/ladder?{urlencode({'env': self.env})}"), kind="ghost")
                self._add = button("Add a policy", self._add_entrant, glyph="plus")
                self.start = button("Run", begin, glyph="play", kind="primary")
        with panel("Policies", body="m-body tight") as end:
            with end:
                self._hint = raw("", "small faint", "span")
                self._count.on_value_change(self._say_games)
            self._body = box()

    async def load(self) -> None:
        """Read facts about the env in a thread, then show the rows."""
        env = self.env
        try:
            look = await run.io_bound(self._facts.look, env)
        except MosaicError as error:
            complain(str(error))
            look = None
        if self._body.is_deleted or env != self.env or look is None:
            return
        self._look = look
        if not look.holds_tournaments:
            self.kind = "evaluate"
            self._kind_choice.choose("evaluate")
            self._kind_choice.set_visibility(False)
        else:
            self._kind_choice.set_visibility(True)
        self._draw()

    def request(self) -> JsonObject:
        problems = [picker.problem for picker in self._pickers if picker.problem]
        if problems:
            raise MosaicError(problems[0])
        asked: JsonObject = {"environment": {"env_id": self.env}, "seed": _whole(self._seed, "The seed", 0)}
        if self.kind == "tournament":
            return {**asked, "policies": self._entrants, "games": _whole(self._count, "The number of games", 1)}
        return {**asked, "agents": self._agents, "episodes": _whole(self._count, "The number of episodes", 1)}

    def busy(self, on: bool) -> None:
        enable(self.start, not on)

    def _field(self, label: str, value: str, width: str) -> ui.input:
        element = ui.input(value=value).props("outlined dense hide-bottom-space inputmode=numeric")
        element.props["aria-label"] = label
        element.classes("e-number")
        return element.style(f"width:{width}")

    def _offers(self) -> dict[PolicyID, str]:
        rows = self._facts.rows()
        names = {f"run:{row.run_id}": f"{title(row)} · {row.run_id}" for row in rows}
        return {policy: names.get(policy, policy) for policy in policies_for(self.env, rows) if policy != "human"}

    def _choose_kind(self, kind: str) -> None:
        self.kind = "tournament" if kind == "tournament" else "evaluate"
        self._count.set_value("")
        if self._look is not None:
            self._draw()

    async def _choose_env(self, env: EnvID) -> None:
        if env is None or env == self.env:
            return
        self.env, self._look = env, None
        self._entrants, self._agents = [], {}
        await self.load()

    def _draw(self) -> None:
        assert self._look is not None
        self._pickers.clear()
        self._body.clear()
        offers = self._offers()
        tournament = self.kind == "tournament"
        self._add.set_visibility(tournament)
        self._count.props["suffix"] = "as each agent" if tournament else "episodes"
        self._count.style("width:158px" if tournament else "width:148px")
        if not self._count.value:
            self._count.set_value("20" if tournament else "100")
        with self._body:
            if tournament:
                self._draw_entrants(offers)
            else:
                self._draw_agents(offers)
        self._say_games()

    def _say_games(self) -> None:
        """Show how many games a tournament has: a pair plays the number given twice, as either agent."""
        text = str(self._count.value or "").strip().replace(",", "")
        number = len(self._entrants) * (len(self._entrants) - 1) // 2
        words = "every pair plays, each policy as either agent"
        if text.isdigit() and number:
            words = f"{2 * int(text):,} games a pair"
            words += f", {2 * int(text) * number:,} in all" if number > 1 else ""
        self._hint.set_content(words if self.kind == "tournament" else "policy of each agent")

    def _draw_entrants(self, offers: Mapping[PolicyID, str]) -> None:
        if len(self._entrants) < 2:
            missing = [policy for policy in [*offers, "random"] if policy not in self._entrants]
            self._entrants += missing[: 2 - len(self._entrants)]
        with box("e-entrants"):
            for place, policy in enumerate(self._entrants):
                with box("row e-entrant"):
                    raw(avatar(policy, place))
                    self._pickers.append(
                        PolicyPicker(
                            offers,
                            policy,
                            f"Policy {place + 1}",
                            partial(self._put_entrant, place),
                        )
                    )
                    if len(self._entrants) > 2:
                        button(glyph="x", kind="ghost small", label=f"Remove {policy}",
                               on_click=partial(self._remove, place))  # fmt: skip

    def _draw_agents(self, offers: Mapping[PolicyID, str]) -> None:
        assert self._look is not None
        agents = self._look.agents
        rows = list(agents) if 0 < len(agents) <= _MOST_ROWS else ["*"]
        if set(self._agents) != set(rows):
            trained = next((policy for policy in offers if policy.startswith("run:")), next(iter(offers)))
            given = next(iter(self._agents.values()), trained)
            others = "random" if self._look.competitive else given
            self._agents = {row: given if place == 0 else others for place, row in enumerate(rows)}
        with box("e-entrants"):
            for place, agent in enumerate(rows):
                with box("row e-entrant"):
                    raw(avatar(agent, place))
                    words = f"all {len(agents) or ''} agents" if agent == "*" else agent
                    raw(f'<b class="strong">{escape(words)}</b>', "clip e-agent")
                    self._pickers.append(
                        PolicyPicker(
                            offers,
                            self._agents[agent],
                            f"Policy of {words}",
                            partial(self._put_agent, agent),
                        )
                    )

    def _put_entrant(self, place: int, picker: PolicyPicker) -> None:
        self._entrants[place] = picker.policy

    def _put_agent(self, agent: AgentID, picker: PolicyPicker) -> None:
        self._agents[agent] = picker.policy

    def _add_entrant(self) -> None:
        if self._look is None:
            return
        if len(self._entrants) >= _MOST_ENTRANTS:
            complain(f"At most {_MOST_ENTRANTS} policies take part.")
            return
        offers = self._offers()
        self._entrants.append(next((policy for policy in offers if policy not in self._entrants), "random"))
        self._draw()

    def _remove(self, place: int) -> None:
        del self._entrants[place]
        self._draw()


def _whole(field: ui.input, what: str, least: int) -> int:
    text = (field.value or "").strip().replace(",", "")
    if not text.isdigit() or int(text) < least:
        raise MosaicError(f"{what} should be a whole number of at least {least}.")
    return int(text)
