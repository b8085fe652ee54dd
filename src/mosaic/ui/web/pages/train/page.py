"""Train page: environment, agents, options from the schema and resources, then start."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import FastAPI
from nicegui import run as threads

from mosaic.config.run import RunConfig
from mosaic.config.sections import PolicyConfiguration
from mosaic.core.errors import MosaicError
from mosaic.core.ids import EnvID, Json
from mosaic.server.context import ServerContext
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.schema_form import JsonView, SchemaForm
from mosaic.ui.web.components.widgets import Segmented, box, panel, raw, say, text_input
from mosaic.ui.web.data.advice import ProposedChange, places_in
from mosaic.ui.web.data.draft import FIRST_ENV, Checked, Draft, draft_of_run, workers
from mosaic.ui.web.data.drawn_pictures import add_picture_routes
from mosaic.ui.web.data.env_info import EnvLook, catalog, usual_algorithms
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.data.train_form import SECTIONS, forget_method, policy_offers, usual_configuration
from mosaic.ui.web.pages.train.choices import AgentTable, EnvPicker, card_picture
from mosaic.ui.web.pages.train.configurations import FilePanel, ProjectPanel, project_config
from mosaic.ui.web.pages.train.summary import FormEvents, SummaryPanel
from mosaic.workers.presets import find_preset
from mosaic.workers.registry import load_worker, options_model


def add_routes(app: FastAPI, context: ServerContext) -> None:
    add_picture_routes(app, context)


async def page(frame: PageLayout, env: str = "", project: str = "", preset: str = "", run: str = "") -> None:
    """Show the form, with `env` selected at first, or filled by a preset of `project` or by what a run was asked."""
    frame.title("Train")
    await threads.io_bound(workers)  # imports: a server's first page must not block all others
    known = {entry.id: entry for entry in await threads.io_bound(catalog) or ()}
    chosen = env if env in known and known[env].installed else FIRST_ENV
    await threads.io_bound(frame.facts.projects)
    draft, problem = Draft(env=chosen), ""
    if project:
        try:
            config = await threads.io_bound(project_config, frame.facts, project, preset)
            draft = Draft.of(config) if config is not None else draft
        except MosaicError as error:
            problem = f"{project}: {error}"
    elif run:
        draft = await threads.io_bound(draft_of_run, frame.context.folder(run)) or draft
    await _TrainPage(frame, draft).build(preset, problem, kept=bool(run or (project and not problem)))


class _TrainPage:
    def __init__(self, frame: PageLayout, draft: Draft) -> None:
        self._frame, self._draft = frame, draft
        self._look: EnvLook | None = None
        self._forms: dict[str, SchemaForm] = {}
        self._section = "resources"
        self._configuration: PolicyConfiguration | None = None  # the one that the agents' rows show
        self._pointed: set[str] = set()  # fields that show an error of the whole draft

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
                self._options = _OptionsPanel(self._changed)
                with panel("Resources and runtime") as end:
                    with end:
                        names = {key: words for key, (words, _, _) in SECTIONS.items()}
                        self._tabs = Segmented(names, self._section, self._choose_section, "Settings")
                    self._settings = {key: box("stack") for key in SECTIONS}
                self._file = FilePanel(self._frame.facts, self._draft, self._take_file)
            with box("t-sum stack gap-4"):
                self._summary = SummaryPanel(
                    self._frame.facts,
                    self._draft,
                    FormEvents(self._method_changed, self._changed, self._show_checked, self._follow_advice),
                    self._problems,
                )

    async def _take_file(self, config: RunConfig) -> None:
        await self._fill(Draft.of(config), "The form now shows the settings of the file.")

    async def _take_project(self, config: RunConfig | None, preset: str) -> None:
        """Replace the form by a preset; without a project what it holds stays, and the run belongs to none."""
        if config is not None:
            await self._fill(Draft.of(config), "The form now shows the settings of the project.", preset)
        else:
            self._draft.further.pop("project", None)
            await self._fill(self._draft, "The run does not belong to a project.")

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
        found = await threads.io_bound(_look_and_pick, self._frame.facts, env, asked)
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
        await threads.io_bound(options_model, load_worker(draft.worker), draft.algorithm)  # may import for seconds
        if not self._options.is_deleted and chosen == (self._draft.env, self._draft.worker, self._draft.algorithm):
            self._show_method()

    def _show_method(self) -> None:
        possible = load_worker(self._draft.worker).info.paradigms_of(self._draft.algorithm)
        self._show_agents(self._draft.paradigm or usual_configuration(self._look, possible))
        self._forms["params"] = self._options.draw(self._draft)
        self._draw_settings()
        self._summary.show_method()
        self._changed()

    def _show_agents(self, configuration: PolicyConfiguration | None) -> None:
        self._configuration = configuration
        offers = policy_offers(self._draft.env, self._frame.facts.rows())
        possible = load_worker(self._draft.worker).info.paradigms_of(self._draft.algorithm)
        self._agents.show(self._look, configuration, possible, offers)

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

    def _choose_section(self, key: str) -> None:
        self._section = key
        if key not in self._forms:
            self._draw_section(key)
        for name, element in self._settings.items():
            element.set_visibility(name == key)

    async def _follow_advice(self, advice: ProposedChange) -> None:
        """Change the draft as an error message proposes, and show it."""
        advice.apply(self._draft)
        await self._fill(self._draft, f"{advice.label}: done.")

    def _show_checked(self, checked: Checked) -> None:
        """Show an error at the field that it names, and the policy configuration that Mosaic chose."""
        chosen = checked.config.policy_configuration if checked.config else None
        if chosen and self._draft.paradigm is None and chosen != self._configuration:
            self._show_agents(chosen)
        for form in self._forms.values():
            for name in self._pointed:
                form.point_at(name, "")
        self._pointed = {name for _, name in places_in(checked.error)}
        for section, name in places_in(checked.error):
            if section in SECTIONS and section not in self._forms:
                self._tabs.choose(section)
            if section in self._forms:
                self._forms[section].point_at(name, checked.error)

    def _changed(self) -> None:
        self._summary.touch()
        self._file.show()

    def _problems(self) -> list[str]:
        """Return the errors of all fields."""
        fields = [f"{name}: {text}" for form in self._forms.values() for name, text in form.problems.items()]
        agents = [f"{agent}: {text}" for agent, text in self._agents.problems.items()]
        return [*fields, *agents, *filter(None, [self._options.problem])]


class _OptionsPanel:
    """Options of the algorithm, as a form with a search and as JSON."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._form: SchemaForm | None = None
        self._json: JsonView | None = None
        self._tab = "Form"
        with panel("Options") as end:
            with end:
                self._hint = raw("", "small faint clip hide-phone", "span")
                self._search = text_input("Search the options", self._find, glyph="search").style("width:190px")
                Segmented(["Form", "JSON"], self._tab, self._choose_tab, "View")
            self._body = box("stack")

    @property
    def is_deleted(self) -> bool:
        return self._body.is_deleted

    @property
    def problem(self) -> str:
        return self._json.problem if self._json else ""

    def draw(self, draft: Draft) -> SchemaForm:
        """Show the options of the draft's algorithm."""
        model = options_model(load_worker(draft.worker), draft.algorithm)
        preset = find_preset(draft.env, draft.worker, draft.algorithm)
        self._hint.set_content("tuned for this environment" if preset else "")
        self._body.clear()
        with self._body:
            form = SchemaForm(model, draft.params, self._form_changed, defaults=preset.params if preset else None)
            self._json = JsonView(form, self._on_change)
        self._form = form
        form.search(str(self._search.value or ""))
        self._choose_tab(self._tab)
        return form

    def _find(self, text: str) -> None:
        if self._form is not None:
            self._form.search(text)

    def _choose_tab(self, tab: str) -> None:
        self._tab = tab
        if self._form is not None and self._json is not None:
            self._form.element.set_visibility(tab == "Form")
            self._json.element.set_visibility(tab == "JSON")

    def _form_changed(self) -> None:
        if self._json is not None:
            self._json.show()
        self._on_change()


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
