"""Train page: environment, agents, options from the schema and resources, then start."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI
from nicegui import run

from mosaic.config.run import RunConfig
from mosaic.core.errors import MosaicError
from mosaic.core.ids import EnvID, Json
from mosaic.server.context import ServerContext
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.schema_form import JsonView, SchemaForm
from mosaic.ui.web.components.widgets import Segmented, box, panel, raw, say
from mosaic.ui.web.data.draft import FIRST_ENV, Checked, Draft, workers
from mosaic.ui.web.data.env_info import EnvLook, catalog, usual_algorithms
from mosaic.ui.web.data.env_pictures import add_picture_route
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.data.train_form import SECTIONS, forget_method, policy_offers, usual_configuration
from mosaic.ui.web.pages.train.choices import AgentTable, EnvPicker, card_picture
from mosaic.ui.web.pages.train.file_panel import FilePanel
from mosaic.ui.web.pages.train.project_panel import ProjectPanel, project_config
from mosaic.ui.web.pages.train.summary import SummaryPanel
from mosaic.workers.presets import find_preset
from mosaic.workers.registry import load_worker, options_model


def add_routes(app: FastAPI, context: ServerContext) -> None:
    add_picture_route(app, context.store.home)


async def page(frame: PageLayout, env: str = "", project: str = "", preset: str = "") -> None:
    """Show the form, with `env` selected at first, or filled by a preset of `project`."""
    frame.title("Train")
    await run.io_bound(workers)  # imports: a server's first page must not block all others
    known = {entry.id: entry for entry in await run.io_bound(catalog) or ()}
    chosen = env if env in known and known[env].installed else FIRST_ENV
    await run.io_bound(frame.facts.projects)
    draft, problem = Draft(env=chosen), ""
    if project:
        try:
            config = await run.io_bound(project_config, frame.facts, project, preset)
            draft = Draft.of(config) if config is not None else draft
        except MosaicError as error:
            problem = f"{project}: {error}"
    await _TrainPage(frame, draft).build(preset, problem, kept=bool(project and not problem))


class _TrainPage:
    def __init__(self, frame: PageLayout, draft: Draft) -> None:
        self._frame, self._draft = frame, draft
        self._look: EnvLook | None = None
        self._forms: dict[str, SchemaForm] = {}
        self._json: JsonView | None = None
        self._tab = "Form"
        self._section = "resources"

    async def build(self, preset: str = "", problem: str = "", *, kept: bool = False) -> None:
        self._page = box("m-page")
        self._build_panels(preset, problem)
        await self._load_env(kept=kept)

    def _build_panels(self, preset: str = "", problem: str = "") -> None:
        with self._page, box("m-cols t-cols").style("grid-template-columns:minmax(0,1fr) 340px"):
            with box("stack gap-4"):
                project = str(self._draft.further.get("project", ""))
                with box("stack gap-4"):
                    ProjectPanel(self._frame.facts, project, preset, problem, self._take_project)
                    EnvPicker(self._draft.env, self._choose_env)
                self._agents = AgentTable(self._draft, self._changed)
                with panel("Options") as end:
                    with end:
                        self._hint = raw("", "small faint clip hide-phone", "span")
                        Segmented(["Form", "JSON"], self._tab, self._choose_tab, "View")
                    self._options = box("stack")
                with panel("Resources and runtime") as end:
                    with end:
                        names = {key: words for key, (words, _, _) in SECTIONS.items()}
                        Segmented(names, self._section, self._choose_section, "Settings")
                    self._settings = {key: box("stack") for key in SECTIONS}
                self._file = FilePanel(self._frame.facts, self._draft, self._take_file)
            with box("t-sum stack gap-4"):
                self._summary = SummaryPanel(
                    self._frame.facts, self._draft, self._method_changed, self._changed, self._problems
                )

    async def _take_file(self, config: RunConfig) -> None:
        await self._fill(Draft.of(config), "The form now holds what the file says.")

    async def _take_project(self, config: RunConfig | None, preset: str) -> None:
        """Replace the form by a preset; without a project what it holds stays, and the run belongs to none."""
        if config is not None:
            await self._fill(Draft.of(config), "The form now holds what the project says.", preset)
        else:
            self._draft.further.pop("project", None)
            await self._fill(self._draft, "The run belongs to no project.")

    async def _fill(self, draft: Draft, words: str, preset: str = "") -> None:
        """Show another draft; the number of seeds is not part of it."""
        draft.seeds, self._draft = self._draft.seeds, draft
        self._forms.clear()
        with self._page:  # the button that was pressed is about to be deleted
            self._page.clear()
            self._build_panels(preset)
            await self._load_env(kept=True)
            say(words)

    async def _choose_env(self, env: EnvID) -> None:
        self._draft.env = env
        self._draft.worker = self._draft.algorithm = ""
        self._draft.paradigm = None
        self._draft.params.clear()
        self._draft.sections["environment"].clear()
        await self._load_env()

    async def _load_env(self, *, kept: bool = False) -> None:
        """Read facts about the env and let Mosaic pick the worker, both in a thread; what is `kept` stays as it is."""
        env = self._draft.env
        asked: Mapping[str, Json] = self._draft.document() if kept else {"environment": {"env_id": env}}
        found = await run.io_bound(_look_and_pick, self._frame.facts, env, asked)
        if found is None or self._options.is_deleted or env != self._draft.env:
            return
        self._look, usual, picked = found
        training = picked.config.training if picked.config else None
        self._draft.worker = (training and training.worker) or "native"
        worker = load_worker(self._draft.worker)
        first = usual.get(self._draft.worker, worker.info.algorithms[0])
        self._draft.algorithm = (training and training.algorithm) or first
        entry = next((entry for entry in catalog() if entry.id == env), None)
        self._summary.show_env(env, self._look, card_picture(entry) if entry else "", usual)
        if not kept:
            forget_method(self._draft)
        self._show_method()

    async def _method_changed(self) -> None:
        """Show the options and policy configurations of another worker or algorithm."""
        draft = self._draft
        chosen = draft.env, draft.worker, draft.algorithm
        forget_method(draft)
        self._summary.show_checking()
        await run.io_bound(options_model, load_worker(draft.worker), draft.algorithm)  # may import for seconds
        if not self._options.is_deleted and chosen == (self._draft.env, self._draft.worker, self._draft.algorithm):
            self._show_method()

    def _show_method(self) -> None:
        draft, possible = self._draft, load_worker(self._draft.worker).info.paradigms
        offers = policy_offers(draft.env, self._frame.facts.rows())
        self._agents.show(self._look, draft.paradigm or usual_configuration(self._look, possible), possible, offers)
        self._draw_options()
        self._draw_settings()
        self._summary.show_method()
        self._changed()

    def _draw_options(self) -> None:
        draft = self._draft
        model = options_model(load_worker(draft.worker), draft.algorithm)
        preset = find_preset(draft.env, draft.worker, draft.algorithm)
        self._hint.set_content("tuned for this environment" if preset else "")
        self._options.clear()
        with self._options:
            form = SchemaForm(model, draft.params, self._form_changed, defaults=preset.params if preset else None)
            self._json = JsonView(form, self._changed)
        self._forms["params"] = form
        self._choose_tab(self._tab)

    def _draw_settings(self) -> None:
        """Reset all sections; hidden ones are built when shown, as building all takes a browser long."""
        for key, place in self._settings.items():
            place.clear()
            self._forms.pop(key, None)
        self._choose_section(self._section)

    def _draw_section(self, key: str) -> None:
        draft = self._draft
        _, model, only = SECTIONS[key]
        preset = find_preset(draft.env, draft.worker, draft.algorithm) if key == "environment" else None
        tuned = {"num_envs": preset.num_envs} if preset else None
        with self._settings[key]:
            self._forms[key] = SchemaForm(model, draft.sections[key], self._changed, defaults=tuned, only=only)

    def _choose_tab(self, tab: str) -> None:
        self._tab = tab
        self._forms["params"].element.set_visibility(tab == "Form")
        assert self._json is not None
        self._json.element.set_visibility(tab == "JSON")

    def _choose_section(self, key: str) -> None:
        self._section = key
        if key not in self._forms:
            self._draw_section(key)
        for name, element in self._settings.items():
            element.set_visibility(name == key)

    def _form_changed(self) -> None:
        assert self._json is not None
        self._json.show()
        self._changed()

    def _changed(self) -> None:
        self._summary.touch()
        self._file.show()

    def _problems(self) -> list[str]:
        """Return the errors of all fields."""
        fields = [f"{name}: {text}" for form in self._forms.values() for name, text in form.problems.items()]
        agents = [f"{agent}: {text}" for agent, text in self._agents.problems.items()]
        return [*fields, *agents, *([self._json.problem] if self._json and self._json.problem else [])]


def _look_and_pick(
    facts: Facts, env: EnvID, asked: Mapping[str, Json]
) -> tuple[EnvLook | None, Mapping[str, str], Checked]:
    """Return facts about the env, the default algorithms that workers choose for it, and what Mosaic picks."""
    try:
        look = facts.look(env)
        usual = usual_algorithms(env)
    except MosaicError as error:
        return None, {}, Checked(None, str(error))
    return look, usual, facts.check(asked)
