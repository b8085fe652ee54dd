"""The `mosaic tune` command: a search for good options, each trial a run of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaic.ui.cli.options import (
    AlgorithmOption,
    EarlierWorkersOption,
    JsonOption,
    LearningAgentOption,
    Mode,
    NoProjectOption,
    PoliciesOption,
    PresetOption,
    ProjectOption,
    Scheduler,
    SetOption,
    TrustOption,
    WorkerOption,
)
from mosaic.ui.cli.setting_help import setting

if TYPE_CHECKING:
    from mosaic.runs.tuning.folder import SearchFolder
    from mosaic.runs.tuning.plan import TuneSettings
    from mosaic.ui.cli.setting_layers import ProjectOptions, SettingLayers

_FILES = (".json", ".yaml", ".yml", ".toml")


def tune(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="ENV|FILE",
            help="Environment, or a JSON, YAML or TOML file of settings, which may have a section [tune]; "
            "a project may name the environment.",
        ),
    ] = None,
    worker: WorkerOption = None,
    algo: AlgorithmOption = None,
    policies: PoliciesOption = None,
    agent: LearningAgentOption = [],  # noqa: B006 - Typer copies it
    search: Annotated[
        list[str],
        typer.Option(
            "--search",
            metavar="NAME=VALUES",
            help="Option of the worker and its values: gamma=0.9..0.999 (a range), "
            "learning_rate=log:1e-5..1e-2 (a logarithmic range), n_epochs=int:1..20 (whole numbers), "
            "n_steps=32|64|128 or n_steps=choice:32,64,128, hidden=[64,64]|[128,128] (one of these).",
        ),
    ] = [],  # noqa: B006 - Typer copies it
    scheduler: Annotated[
        Scheduler | None,
        typer.Option("--scheduler", case_sensitive=False, help=setting("tune.scheduler")),
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help=setting("tune.trials"))] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", help=setting("tune.metric")),
    ] = None,
    mode: Annotated[Mode | None, typer.Option("--mode", case_sensitive=False, help=setting("tune.mode"))] = None,
    concurrent: Annotated[
        int | None, typer.Option("--concurrent", min=1, help=setting("tune.concurrent"), show_default="one per core")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Stop each trial after this many environment steps.")
    ] = None,
    decision_steps: Annotated[
        int | None,
        typer.Option(
            "--decision-steps",
            min=1,
            help=setting("tune.decision_steps"),
            show_default="a ninth of a trial; with pbt a tenth",
        ),
    ] = None,
    num_env_runners: Annotated[
        int | None,
        typer.Option(
            "--num-env-runners", min=1, help="Env runners of each trial.", show_default="2, or as many as fit"
        ),
    ] = None,
    num_workers: EarlierWorkersOption = None,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    project: ProjectOption = None,
    preset: PresetOption = None,
    no_project: NoProjectOption = False,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Random seed of every trial and of the search itself.", show_default="0"),
    ] = None,
    tag: Annotated[list[str], typer.Option("--tag", help="Tag to find the runs by; may be repeated.")] = [],  # noqa: B006
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="SEARCH", help="Resume a search: its id, or latest.")
    ] = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Search for good options with Ray Tune. Ctrl-C stops and saves; --resume continues."""
    from mosaic.core.errors import InputError
    from mosaic.ui.cli.options import give_trust, number_of_env_runners
    from mosaic.ui.cli.run_config import read_agents
    from mosaic.ui.cli.setting_layers import ProjectOptions

    give_trust(trust)
    given = {
        "search": search or None,
        "scheduler": scheduler,
        "trials": trials,
        "metric": metric,
        "mode": mode,
        "concurrent": concurrent,
        "decision_steps": decision_steps,
    }
    asked: dict[str, Any] = {
        "training": {"worker": worker, "algorithm": algo, "total_timesteps": steps},
        "resources": {"num_env_runners": number_of_env_runners(num_env_runners, num_workers)},
        "top": {
            "policy_configuration": policies,
            "agents": read_agents(agent),
            "seed": seed,
            "tags": tag or None,
        },
    }
    if resume is not None:
        sections = (asked["training"], asked["resources"], asked["top"])
        typed = [target, *given.values(), *(v for section in sections for v in section.values()), settings or None]
        typed += [project, preset, no_project or None]
        if any(value is not None for value in typed):
            raise InputError(
                f"--resume continues the search with its own settings. Type: mosaic tune --resume {resume}"
            )
        _run(_found(resume), json)
        return
    layers = _layers(target, asked, settings, ProjectOptions(project, preset, no_project))
    _run(_created(*layers, given, json), json)


def _found(reference: str) -> SearchFolder:
    from mosaic.runs.tuning.folder import find_search
    from mosaic.store.store import Store

    return find_search(Store(), reference)


def _layers(
    target: str | None, asked: dict[str, Any], settings: list[str], options: ProjectOptions
) -> tuple[SettingLayers, object]:
    """Read the layers of settings, and the file's section [tune], which is not a setting of a run."""
    from mosaic.config.file_formats import read_document
    from mosaic.core.errors import InputError
    from mosaic.ui.cli.setting_layers import layers_of

    file = Path(target) if target is not None and target.lower().endswith(_FILES) else None
    document = {} if file is None else read_document(file)
    section = document.pop("tune", None)
    layers = layers_of({"env": target if file is None else None, **asked}, file, document, settings, options)
    if "environment" not in layers.document():
        raise InputError(
            "Name an environment: mosaic tune ENV --search NAME=VALUES, a file, or a project (mosaic projects create). "
            "Type: mosaic envs"
        )
    return layers, section


def _created(layers: SettingLayers, section: object, given: dict[str, Any], json: bool) -> SearchFolder:
    """Create the search folder, after everything is checked."""
    import os

    from mosaic.core.machine import available_cores
    from mosaic.runs.tuning.folder import create_search
    from mosaic.runs.tuning.plan import make_plan
    from mosaic.runtimes.ray.session import check_installed
    from mosaic.store.store import Store
    from mosaic.ui.cli.run_config import resolved
    from mosaic.ui.cli.setting_layers import remember_project

    config = resolved(layers, quiet=json).asked
    plan = make_plan(config, _settings(section, given), available_cores(), os.getcwd())
    check_installed()
    if layers.project is not None:
        remember_project(layers.project)
    return create_search(Store(), plan)


def _settings(section: object, given: dict[str, Any]) -> TuneSettings:
    """Merge the file's [tune] section with the typed options, which take precedence."""
    from pydantic import ValidationError

    from mosaic.core.errors import InputError
    from mosaic.core.reference import explain
    from mosaic.runs.tuning.plan import TuneSettings
    from mosaic.runs.tuning.search_space import split_specs

    typed = {key: value for key, value in given.items() if value is not None}
    if "search" in typed:
        typed["search"] = split_specs(typed["search"])
    try:
        below = TuneSettings.model_validate(section).model_dump(exclude_unset=True)
        if "search" in typed:
            typed["search"] = {**below.get("search", {}), **typed["search"]}
        return TuneSettings.model_validate({**below, **typed})
    except ValidationError as error:
        raise InputError(f"tune: {explain(error, TuneSettings)}") from error


def _run(folder: SearchFolder, json: bool) -> None:
    from mosaic.core.errors import MosaicError
    from mosaic.runs.tuning.search import InterruptedSearchError, run_search
    from mosaic.ui.cli.output import note, print_json
    from mosaic.ui.cli.tuning_view import SearchView, show_outcome, shown_live

    view = SearchView(folder.read_plan())
    if not json:
        note(f"Search {folder.search_id}. Its runs: mosaic runs list --tag {folder.search_id}")
    try:
        with shown_live(view, shown=not json):
            document = run_search(folder, view.show)
    except (InterruptedSearchError, KeyboardInterrupt) as error:
        if not json:
            note(f"Resume it: mosaic tune --resume {folder.search_id}")
        raise KeyboardInterrupt from error
    if json:
        print_json(document)
    else:
        show_outcome(document)
    if document["best"] is None:
        reasons = [trial["reason"] for trial in document["trials"] if trial["reason"]]
        first = f" The first reason: {reasons[0]}" if reasons else ""
        raise MosaicError(f"No trial of the search {folder.search_id} has a result.{first}")
