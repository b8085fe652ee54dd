"""The `mosaic projects` commands, which create, list and change projects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from mosaic.ui.cli.options import JsonOption, ServerOption

if TYPE_CHECKING:
    from mosaic.store.projects.controller_project import ControllerProject
    from mosaic.store.projects.project import Project
    from mosaic.store.projects.registry import ProjectRegistry

app = typer.Typer(
    help="Create projects and list them: folders whose mosaic.toml holds presets.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

ProjectArgument = Annotated[str, typer.Argument(metavar="PROJECT", help="Name or folder of a project.")]
NameOption = Annotated[
    str | None, typer.Option("--name", help="Name of the project.", show_default="the folder's name")
]


@app.callback()
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_(server=None, json=False)


@app.command(name="list")
def list_(server: ServerOption = None, json: JsonOption = False) -> None:
    """List all known projects, most recently used first, including missing and invalid ones."""
    from mosaic.ui.cli.output import note, print_json, print_table

    if server is None:
        rows = _registry().rows()
    else:
        from mosaic.server.client.client import Client

        with Client(server) as client:
            rows = client.projects()
    if json:
        print_json([row.model_dump(mode="json") for row in rows])
        return
    cells = [[row.name, row.state, row.env or "–", ", ".join(row.presets) or "–", row.folder] for row in rows]
    print_table(
        f"{len(rows)} project{'' if len(rows) == 1 else 's'}", ["project", "state", "env", "presets", "folder"], cells
    )
    for row in rows:
        if row.problem:
            note(row.problem)
    if not rows:
        note("Create one: mosaic projects create FOLDER --env ENV")


@app.command()
def create(
    folder: Annotated[Path, typer.Argument(help="Folder of the project; created if it does not exist.")] = Path("."),
    name: NameOption = None,
    env: Annotated[str | None, typer.Option("--env", help="Environment to train in.")] = None,
    game: Annotated[
        str | None, typer.Option("--game", metavar="PATH", help="Godot game to train in, relative to the folder.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Create a mosaic.toml in a folder and add the project to the list."""
    project = _registry().create(folder, name, env=env, game=game)
    _say(project, "is created", json, "Edit its presets there. Train it: mosaic train, in that folder")


@app.command(name="open")
def open_(
    folder: Annotated[Path, typer.Argument(help="Folder with a mosaic.toml.")] = Path("."), json: JsonOption = False
) -> None:
    """Add an existing or moved project to the top of the list. Runs no code of the project."""
    from mosaic.store.projects.project import find_project, read_project

    project = read_project(find_project(folder.expanduser()) or folder)
    _registry().register(project)
    _say(project, "is in the list", json, f"Train it: cd {project.folder} && mosaic train")


@app.command()
def show(
    project: Annotated[
        str | None,
        typer.Argument(
            metavar="PROJECT", help="Name or folder of a project.", show_default="the current folder's project"
        ),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show a project's settings and its newest runs. Runs no code of the project."""
    from mosaic.config.file_formats import write_toml
    from mosaic.ui.cli.output import out, print_json

    shown = _shown_here(project) if server is None else _shown_there(project, server)
    if json:
        print_json({"folder": shown.folder, "config": shown.config, "runs": shown.runs})
        return
    runs, where = shown.runs, "" if server is None else f" --server {server}"
    out.print(f"{shown.name}: {shown.folder}", soft_wrap=True)
    out.print(write_toml(shown.config), soft_wrap=True, markup=False)
    newest = f", newest {runs[0]}. List them: mosaic runs list --project {shown.name}{where}" if runs else ""
    out.print(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}{newest}", soft_wrap=True)


class _Shown(NamedTuple):
    name: str
    folder: str
    config: dict[str, object]
    runs: list[str]


def _shown_here(project: str | None) -> _Shown:
    from mosaic.core.errors import InputError
    from mosaic.store.projects.registry import file_settings
    from mosaic.store.store import Store

    store = Store()
    found = store.projects.here() if project is None else store.projects.find(project)
    if found is None:
        raise InputError("There is no mosaic.toml in this folder or above it. Name a project: mosaic projects list")
    runs = [run.run_id for run in store.index.list(projects=store.projects.names(found.name))]
    return _Shown(found.name, str(found.folder), file_settings(found.config), runs)


def _shown_there(project: str | None, server: str) -> _Shown:
    from mosaic.core.errors import InputError
    from mosaic.server.client.client import Client

    if project is None:
        raise InputError(f"Name a project of the server. Known: mosaic projects list --server {server}")
    with Client(server) as client:
        found = client.project(project)
        if found.state != "ok":
            raise InputError(found.problem)
        runs = [run.run_id for run in client.runs(project=found.name)]
    return _Shown(found.name, found.folder, found.config, runs)


@app.command()
def rename(
    project: ProjectArgument, name: Annotated[str, typer.Argument(help="New name.")], json: JsonOption = False
) -> None:
    """Rename a project, in its mosaic.toml too. Its runs are found under the new name."""
    _say(_registry().rename(project, name), "is the new name", json)


@app.command()
def delete(
    project: ProjectArgument,
    folder: Annotated[bool, typer.Option("--folder", help="Delete its folder and everything in it too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete the folder without asking.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove a project from the list. Its folder stays unless --folder is given; its runs stay in any case."""
    from mosaic.core.errors import InputError
    from mosaic.ui.cli.output import out, print_json

    registry = _registry()
    entry = registry.entry(project)
    if folder and not yes:
        if json:
            raise InputError("Deleting a folder has to be confirmed: add --yes.")
        typer.confirm(f"Delete {entry.folder} and everything in it?", abort=True, err=True)
    gone = registry.delete_folder(project) if folder else registry.forget(project)
    if json:
        print_json({"name": gone.name, "folder": gone.folder, "deleted": folder})
    else:
        rest = "Its folder is deleted." if folder else f"Its folder stays: {gone.folder}"
        out.print(f"{gone.name} is removed from the list. {rest}", soft_wrap=True)


@app.command(name="import")
def import_(
    path: Annotated[
        Path, typer.Argument(help="Folder of a project of the Godot RL controller, or the index.json of several.")
    ],
    into: Annotated[
        Path | None, typer.Option("--into", metavar="FOLDER", help="Folder to write to.", show_default="the project's")
    ] = None,
    name: NameOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the report without writing anything.")] = False,
    json: JsonOption = False,
) -> None:
    """Import projects of the Godot RL controller and report, for each setting, whether it was imported and why."""
    from mosaic.core.errors import InputError, MosaicError
    from mosaic.store.projects.controller_import import convert_controller_project, find_controller_projects
    from mosaic.ui.cli.output import complain, print_json

    folders = find_controller_projects(path)
    if len(folders) > 1 and (into is not None or name is not None):
        raise InputError(f"'{path}' lists {len(folders)} projects: import one at a time to use --into or --name.")
    done, failed = [], 0
    for folder in folders:
        try:
            converted = convert_controller_project(folder, _check_params)
            done.append(_imported(converted, into, name, dry_run, json))
        except MosaicError as error:
            if len(folders) == 1:
                raise
            failed += 1
            done.append({"folder": str(folder), "error": str(error)})
            if not json:
                complain(f"{folder}: {error}")
    if json:
        print_json(done[0] if len(folders) == 1 else done)
    if failed:
        raise MosaicError(f"{failed} of {len(folders)} projects could not be imported.")


def _imported(
    converted: ControllerProject, into: Path | None, name: str | None, dry_run: bool, json: bool
) -> dict[str, object]:
    """Write one project and print its report."""
    from mosaic.config.project import parse_project
    from mosaic.store.projects.project import create_project
    from mosaic.ui.cli.output import note, out, print_table

    document = converted.document(name, into)
    folder = into or converted.folder
    if dry_run:
        parse_project(document)
    else:
        registry, project = _registry(), create_project(folder, document)
        registry.register(project)
        folder = project.folder
    if not json:
        rows = [[each.file, each.setting, each.place or "–", each.why] for each in converted.report]
        print_table(f"{document['name']}: {folder}", ["file", "setting", "taken over as", "left out because"], rows)
        taken = sum(each.outcome == "taken over" for each in converted.report)
        out.print(f"{taken} of {len(converted.report)} settings are taken over.")
        note("Nothing was written." if dry_run else f"Train it: cd {folder} && mosaic train")
    report = [each.model_dump(mode="json") for each in converted.report]
    return {"folder": str(folder), "name": document["name"], "written": not dry_run, "report": report}


def _check_params(worker: str, algorithm: str, params: dict[str, object]) -> object:
    """Check options of a worker that is installed; another one checks them when it trains."""
    from mosaic.core.plugins import plugins
    from mosaic.workers.registry import algorithm_of, load_worker, parse_params

    if worker not in plugins("mosaic.workers"):
        return None
    loaded = load_worker(worker)
    return parse_params(loaded, algorithm_of(loaded, algorithm), params)


def _registry() -> ProjectRegistry:
    from mosaic.store.store import Store

    return Store().projects


def _say(project: Project, what: str, json: bool, advice: str = "") -> None:
    from mosaic.ui.cli.output import note, out, print_json

    if json:
        print_json({"name": project.name, "folder": str(project.folder)})
        return
    out.print(f"{project.name} {what}: {project.file}", soft_wrap=True)
    if advice:
        note(advice)
