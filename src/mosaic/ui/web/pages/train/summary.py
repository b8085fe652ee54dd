"""Summary of a draft: its method, limits and name, what will happen, the start button, and the same as a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from html import escape
from typing import NamedTuple
from urllib.parse import quote, urlencode

from nicegui import events, run, ui

from mosaic.core.errors import MosaicError
from mosaic.core.ids import Json
from mosaic.core.seeding import SEED_LIMIT
from mosaic.ui.web.api import ask
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.theme import env_title
from mosaic.ui.web.components.widgets import box, button, command, complain, enable, panel, picture, raw, select
from mosaic.ui.web.data.advice import ProposedChange, advice_in, without_advice
from mosaic.ui.web.data.draft import Checked, Draft, group_documents, suggest_name, train_command, workers
from mosaic.ui.web.data.env_info import EnvLook
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.data.run_plan import SpeedEstimate, find_pace, plan_html
from mosaic.workers.presets import find_preset
from mosaic.workers.registry import load_worker

_LOOK_S = 0.3


class FormEvents(NamedTuple):
    """Callbacks of the page for changes of the summary's fields and for completed checks."""

    method: Callable[[], Awaitable[None]]
    change: Callable[[], None]
    checked: Callable[[Checked], None]
    advice: Callable[[ProposedChange], Awaitable[None]]


class SummaryPanel:
    """Panel that checks the draft in a thread whenever it has changed, and shows the result."""

    def __init__(
        self,
        facts: Facts,
        draft: Draft,
        events: FormEvents,
        problems: Callable[[], list[str]],
    ) -> None:
        self._facts, self._draft, self._problems, self._events = facts, draft, problems, events
        self._stale, self._loaded = True, False
        with panel("Start"):
            self._cover = raw("", "t-cover")
            self._fields = RunFields(draft, events.method, events.change)
            self._plan = raw("", "m-kv", "dl")
            self._problem = raw("", "t-problem")
            self._problem.props("role=status")
            self._advice = box("row wrap")
            self._start = button("Start training", self._begin, glyph="train", kind="primary big")
            self._start.props('title="Ctrl+Enter" aria-keyshortcuts="Control+Enter Meta+Enter"')
            enable(self._start, False)  # until the form is there and what it says was checked
        with panel("Same run from a terminal"):
            self._command = command(train_command(draft.document()), multi=True)
        ui.timer(_LOOK_S, self._refresh)

    def touch(self) -> None:
        """Mark the draft as changed."""
        self._stale = True
        self._command.set_content(escape(train_command(self._draft.document(), self._draft.seeds)))

    def show_env(self, env: str, look: EnvLook | None, cover: str, usual: Mapping[str, str]) -> None:
        """Show another env; `usual` holds the default algorithm of workers that choose one for it."""
        self._fields.usual = usual
        words = f" · {look.full_words}" if look else ""
        self._cover.set_content(
            f'{cover or picture(env)}<span class="t-badge">{escape(env_title(env))}{escape(words)}</span>'
        )

    def show_method(self) -> None:
        """Show the draft's worker and algorithm; from now on it can be checked."""
        self._loaded = True
        self._fields.show_method(suggest_name(self._draft, [row.name for row in self._facts.rows(hidden=True)]))

    def show_checking(self) -> None:
        """Remove the plan of another method, since the check of the new one may take seconds."""
        self._problem.set_content("")
        self._plan.set_content("<dt>Method</dt><dd>checking …</dd>")
        enable(self._start, False)

    async def _refresh(self) -> None:
        if not self._stale or not self._loaded:
            return
        self._stale = False
        typed = [*self._problems(), *self._fields.problems]
        found = None if typed else await run.io_bound(_examine, self._draft.document(), self._facts)
        if self._problem.is_deleted or self._stale:
            return  # the page was left, or the draft changed again meanwhile
        if found is None:
            found = Checked(None, typed[0] if typed else "The server is ending."), None
        self._show(*found)

    def _show(self, checked: Checked, pace: SpeedEstimate | None) -> None:
        enable(self._start, checked.config is not None)
        offered = advice_in(checked.error, self._draft)
        said = escape(without_advice(checked.error, offered))
        self._problem.set_content(f"{icon('alert', 'warn')}<span>{said}</span>" if said else "")
        self._advice.clear()
        with self._advice:
            for advice in offered:
                button(advice.label, partial(self._events.advice, advice), glyph="check", kind="small")
        self._events.checked(checked)
        self._plan.set_content(plan_html(checked.config, pace, self._draft.seeds) if checked.config else "")

    async def _begin(self) -> None:
        enable(self._start, False)
        try:
            await run.io_bound(self._facts.require_allowed, self._draft.document())
            document = {**self._draft.document(), "name": self._draft.name or self._fields.suggested}
            found = await run.io_bound(group_documents, document, self._draft.seeds)
        except MosaicError as error:
            complain(str(error))
            enable(self._start, True)
            return
        if found is None:
            return  # the server is shutting down
        (group, documents), first = found, ""
        for document in documents:
            query = f"?{urlencode({'group': group})}" if group else ""
            reply = await ask(f"/runs{query}", document)
            if not reply.ok:
                complain(reply.error)
                enable(self._start, True)
                return
            first = first or str(reply.document["run_id"])
        ui.navigate.to(f"/runs/{quote(first, safe='')}")


def _examine(document: Mapping[str, Json], facts: Facts) -> tuple[Checked, SpeedEstimate | None]:
    checked = facts.check(document)
    return checked, find_pace(checked.config, facts) if checked.config else None


class RunFields:
    """Form for a draft's worker, algorithm, env steps, seeds, name and tags; invalid numbers are not taken over."""

    def __init__(self, draft: Draft, on_method: Callable[[], Awaitable[None]], on_change: Callable[[], None]) -> None:
        self._draft, self._on_method, self._on_change = draft, on_method, on_change
        self._workers = workers()
        self.suggested = ""  # name of a run without one
        self.usual: Mapping[str, str] = {}  # default algorithms that workers choose for the env
        self._quiet = False  # while the program itself sets its widgets
        with box("row"):
            self._worker = select(list(self._workers), label="Worker", on_change=self._choose_worker)
            self._algorithm = select([], label="Algorithm", on_change=self._choose_algorithm)
        with box("row top"):
            self._steps = self._number("Env steps", self._take_steps).style("flex:1.4")
            self._seeds = self._number("Seeds", self._take_seeds, "1 run").style("flex:1")
        self._steps.props["suffix"] = "env steps"
        with box("row top"):
            self._name = self._text("Name (optional)", "Name of the run", self._take_name)
            self._name.style("flex:1.4")
            self._seed = self._number("Seed", self._take_seed, "0").style("flex:1")
            self._seed.props["prefix"] = "seed"
        self._tags = self._text("Tags, separated by commas (optional)", "Tags of the run", self._take_tags)

    @property
    def problems(self) -> list[str]:
        numbers = {"Env steps": self._steps.error, "Seeds": self._seeds.error, "Seed": self._seed.error}
        return [f"{name}: {error}" for name, error in numbers.items() if error]

    def show_method(self, suggested: str) -> None:
        draft, self.suggested = self._draft, suggested
        self._quiet = True
        self._name.props["placeholder"] = suggested
        self._seeds.set_value("" if draft.seeds == 1 else str(draft.seeds))
        self._seed.set_value(str(draft.seed) if draft.seed else "")
        self._name.set_value(draft.name)
        self._tags.set_value(", ".join(draft.tags))
        if draft.worker not in self._workers:  # of a file: the form itself does not offer every worker
            self._workers[draft.worker] = load_worker(draft.worker).info
            self._worker.set_options(list(self._workers))
        self._worker.set_value(draft.worker)
        algorithms = list(self._workers[draft.worker].algorithms)
        self._algorithm.set_options(algorithms, value=draft.algorithm)
        preset = find_preset(draft.env, draft.worker, draft.algorithm)
        steps = draft.sections["training"].get("total_timesteps")
        self._steps.set_value("" if steps is None else f"{steps:,}")
        self._steps.props["placeholder"] = f"{preset.total_timesteps:,}" if preset else "no limit"
        self._quiet = False

    def _number(self, label: str, take: Callable[[str], str], placeholder: str = "") -> ui.input:
        def typed(event: events.ValueChangeEventArguments[str | None]) -> None:
            if not self._quiet:
                element.error = take((event.value or "").strip().replace(",", "").replace("_", "")) or None
                self._on_change()

        element = ui.input(placeholder=placeholder or label).without_auto_validation()
        element.on_value_change(typed)
        element.props("outlined dense hide-bottom-space debounce=250 inputmode=decimal").classes("t-number")
        element.props["aria-label"] = label
        return element

    def _text(self, placeholder: str, label: str, take: Callable[[str], None]) -> ui.input:
        def typed(event: events.ValueChangeEventArguments[str | None]) -> None:
            if not self._quiet:
                take((event.value or "").strip())
                self._on_change()

        element = ui.input(placeholder=placeholder, on_change=typed)
        element.props("outlined dense hide-bottom-space debounce=250")
        element.props["aria-label"] = label
        return element

    def _take_steps(self, text: str) -> str:
        training = self._draft.sections["training"]
        if not text:
            training.pop("total_timesteps", None)
            return ""
        try:
            value = float(text)
        except ValueError:
            return "It should be a number, such as 100000 or 1e6."
        if value < 1 or value != int(value):
            return "It should be a whole number of at least 1."
        training["total_timesteps"] = int(value)
        return ""

    def _take_seeds(self, text: str) -> str:
        if text and not (text.isdigit() and 1 <= int(text) <= 100):
            return "It should be 1 to 100."
        self._draft.seeds = int(text or 1)
        return ""

    def _take_seed(self, text: str) -> str:
        if text and not (text.isdigit() and int(text) < SEED_LIMIT):
            return f"It should be 0 to {SEED_LIMIT - 1:,}."
        self._draft.seed = int(text or 0)
        return ""

    def _take_name(self, text: str) -> None:
        self._draft.name = text

    def _take_tags(self, text: str) -> None:
        self._draft.tags = tuple(dict.fromkeys(tag.strip() for tag in text.split(",") if tag.strip()))

    def _choose_worker(self, name: str) -> Awaitable[None] | None:
        if self._quiet or not name:
            return None
        self._draft.worker, self._draft.algorithm = name, self.usual.get(name, self._workers[name].algorithms[0])
        return self._on_method()

    def _choose_algorithm(self, name: str) -> Awaitable[None] | None:
        if self._quiet or not name:
            return None
        self._draft.algorithm = name
        return self._on_method()
