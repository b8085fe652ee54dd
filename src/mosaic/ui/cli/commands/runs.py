"""The `mosaic runs` commands, which list, compare, import and archive runs."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaic.ui.cli.options import JsonOption, RunArgument, ServerOption

if TYPE_CHECKING:
    from mosaic.store.views import CheckpointRow, RunDetails

app = typer.Typer(help="List runs and act on them.", invoke_without_command=True, rich_markup_mode=None)


@app.callback()
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_(tag=None, project=None, hidden=False, server=None, json=False)


@app.command(name="list")
def list_(
    tag: Annotated[
        str | None, typer.Option("--tag", help="List only runs with this tag or of this seed group.")
    ] = None,
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="PROJECT", help="List only runs of this project; . is this folder's."),
    ] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="List hidden runs too.")] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """List runs, the newest first."""
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.output import note, out, print_json, print_table, short, shorten
    from mosaic.ui.cli.setting_layers import name_of_project

    with open_backend(server) as runs:
        wanted = name_of_project(project) if project == "." else project
        rows = [row for row in runs.runs(project=wanted, hidden=hidden) if tag is None or tag in (*row.tags, row.group)]
        for each in runs.unreadable_runs() if server else ():  # a list of this machine notes them by itself
            note(f"Run '{each.run_id}' cannot be shown: {each.reason}")
    named = any(row.name for row in rows)
    if json:
        print_json([row.model_dump(mode="json") for row in rows])
        return
    wide = out.width >= 110
    cells = [
        [
            row.run_id,
            str(row.state),
            row.env if wide else row.env.removeprefix("python:").rpartition("/")[2] or row.env,
            f"{row.env_steps or 0:,}" if wide else short(row.env_steps or 0),
            "–" if row.episode_reward_mean is None else f"{row.episode_reward_mean:.4g}",
            *([f"{row.worker or '–'} {row.algorithm or ''}"] if wide else []),
            *([row.name or ""] if named else []),
        ]
        for row in rows
    ]
    columns = ["run", "state", "env", "steps", "reward", *(["worker"] if wide else []), *(["name"] if named else [])]
    fits = shorten(cells, columns, [("name", 16), ("env", 6), ("name", 8)] if named else [("env", 6)])
    if not fits and not wide:  # the id says which env it is
        cells = [[*row[:2], *row[3:]] for row in cells]
        columns.remove("env")
        shorten(cells, columns, [("name", 8)] if named else [])
    print_table("1 run" if len(cells) == 1 else f"{len(cells)} runs", columns, cells, ["steps", "reward"], whole=5)
    if not cells:
        note("Start one: mosaic train ENV --worker WORKER")


@app.command()
def show(
    run: RunArgument,
    settings: Annotated[
        bool,
        typer.Option(
            "--settings", help="Print all of its settings and nothing else: a file for `mosaic train --config`."
        ),
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show a run: state, attempts, checkpoints, last evaluation, changed settings."""
    from mosaic.core.errors import InputError
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.evaluation_view import EVALUATION_COLUMNS, evaluation_rows, evaluation_title, own_metrics
    from mosaic.ui.cli.output import out, print_json, print_table

    if settings and json:
        raise InputError("--settings prints JSON of the settings alone, --json everything: leave one of them out.")

    with open_backend(server) as runs:
        details = runs.run(run).show()
    if json:
        print_json(details.model_dump(mode="json"))
        return
    if settings:
        out.print_json(data=details.config)
        return
    last = details.last_metric or {}
    reward = last.get("episode_reward_mean")
    out.print(f"{details.run_id}: {details.state}" + (f", {details.reason}" if details.reason else ""))
    labels = {"name": details.name, "tags": ", ".join(details.tags), "note": details.note}
    out.print("\n".join(f"{label}: {text}" for label, text in labels.items() if text), markup=False)
    out.print(f"{details.env_steps or 0:,} env steps" + (f", reward {reward:.3f}" if reward is not None else ""))
    attempts = [[a.number, _moment(a.started), _moment(a.ended), a.exit, a.reason] for a in details.attempts]
    print_table("Attempts", ["", "started", "ended", "exit", "why it ended"], attempts)
    if details.stages:
        stages = [
            [stage.stage, "" if stage.env_steps is None else f"{stage.env_steps:,}", dumps(stage.options)]
            for stage in details.stages
        ]
        print_table("Curriculum", ["stage", "from env steps", "options"], stages, ["from env steps"])
    if own := own_metrics(last):
        print_table("Own metrics in the last report", ["policy", "metric", "value"], own, ["value"])
    points = [[f"{c.env_steps:,}", _why_best(c) if c.best else "", c.path] for c in details.checkpoints]
    if points:
        print_table("Checkpoints", ["env steps", "", "folder"], points, ["env steps"])
    else:
        out.print("No checkpoint")
    for event in details.last_evaluation:
        print_table(evaluation_title(event), EVALUATION_COLUMNS, evaluation_rows(event))
    _print_settings(details)


def _print_settings(details: RunDetails) -> None:
    """Print what the run trains and its settings that differ from the defaults; the rest would be a hundred lines."""
    from mosaic.config.sections import join_id
    from mosaic.core.errors import InputError
    from mosaic.ui.cli.output import note, out, print_table
    from mosaic.ui.cli.setting_layers import changed_settings

    environment, training = details.config["environment"], details.config["training"]
    method = [training["worker"], training["algorithm"], details.config["policy_configuration"]]
    env = join_id(environment["family"], environment["env_id"])
    out.print(f"{env}: {', '.join(filter(None, method))}", markup=False)
    try:
        changed = changed_settings(details.config)
    except InputError as error:
        note(f"Which of its settings differ from the defaults is not known here. {error}")
    else:
        rows = [[each.name, _shown(each.value), _shown(each.default)] for each in changed]
        print_table("Settings that differ from the defaults", ["setting", "value", "default"], rows)
    note(f"All settings: mosaic runs show {details.run_id} --settings")


def _shown(value: object) -> str:
    return "–" if value is None else value if isinstance(value, str) else dumps(value, ensure_ascii=False)


@app.command()
def compare(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs, or the id or name of a seed group.")],
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="What the runs of one method share over envs: algorithm, name, or a setting.",
            show_default="algorithm",
        ),
    ] = None,
    normalize: Annotated[
        list[str],
        typer.Option(
            "--normalize",
            metavar="ENV=LOW:HIGH",
            help="Scores of an env that count as 0 and as 1.",
            show_default="lowest and highest of the runs",
        ),
    ] = [],  # noqa: B006 - Typer copies it
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the statistics over envs: .png or .csv.")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Compare runs: results, settings that differ, and statistics over seeds and envs.

    A seed group's id, or the --name it was trained with, means all of its runs. Runs that differ in nothing but
    their seed form one group; groups of one env are compared by the interquartile mean of their last scores (the
    reward; in self-play the rating), its difference and the probability that a run of the first group scores
    higher, each with a 95 % bootstrap interval.
    Over several envs, methods are compared as the package rliable does, with scores normalized per env.
    """
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.group_results import (
        compare_groups,
        differences,
        group_labels,
        make_groups,
        measure_name,
        runs_asked_for,
        show_groups,
    )
    from mosaic.ui.cli.output import note, print_json, print_table
    from mosaic.ui.study import caveats, show_study, studied_run, study_of
    from mosaic.ui.study_files import check_out

    if out is not None:
        check_out(out)
    with open_backend(server) as runs:
        rows_here = runs.runs()
        group_of = {row.run_id: row.group or "" for row in rows_here}
        named = [runs.run(ref) for ref in runs_asked_for(run, rows_here)]
        chosen = list({each.id: each for each in named}.values())  # a run given twice counts once
        shown = [each.show() for each in chosen]
        made = make_groups(chosen, shown, [group_of.get(each.id, "") for each in chosen])
        together = [group.document() for group in made]
        pairs = compare_groups(made)
    compared = study_of(made, by, normalize, out)
    differing = differences([details.config for details in shown])
    results = [
        {
            "run_id": details.run_id,
            "name": details.name,
            "state": str(details.state),
            "env_steps": details.env_steps,
            "episode_reward_mean": (details.last_metric or {}).get("episode_reward_mean"),
            "measure": details.measure,
            "score": details.score,
        }
        for details in shown
    ]
    if json:
        curve = together[0]["curve"] if len(together) == 1 else None
        print_json(
            {
                "runs": results,
                "differences": differing,
                "groups": together,
                "comparisons": pairs,
                "group": curve,
                "across_envs": compared.study,
            }
        )
        return
    figures = {"env_steps": "steps", "episode_reward_mean": "reward"}
    measures = {details.measure for details in shown} - set(figures)
    if measures:
        figures["score"] = measure_name(min(measures)) if len(measures) == 1 else "score"
    rows = [
        [row["run_id"], row["name"] or "–", row["state"], *(_figure(row[name]) for name in figures)] for row in results
    ]
    print_table("Results", ["run", "name", "state", *figures.values()], rows, [*figures.values()], whole=3)
    labels = group_labels(together)
    if len(made) < len(shown):  # one column per group: its runs differ only in their seeds
        differing = differences([group.config for group in made])
        differing.pop("seed", None)
        heads = list(labels.values())
    else:
        heads = [details.run_id for details in shown]
    rows = [[key, *("–" if value is None else value for value in values)] for key, values in differing.items()]
    if rows:
        print_table("Settings that differ", ["setting", *heads], rows)
    show_groups(together, pairs)
    show_study(compared, len({group.env for group in made}))
    for caveat in caveats([studied_run(details) for details in shown]):
        note(caveat)
    if out is not None:
        note(f"The statistics over envs are in {out}")


def _figure(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else "–"


@app.command()
def log(
    run: RunArgument,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, metavar="N", help="Print only the last N lines of each stream.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new lines until the run has ended.")] = False,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print only stdout.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="Print only stderr.")] = False,
    server: ServerOption = None,
) -> None:
    """Print the log of a run's worker: its stdout, then its stderr. Very long logs lose their oldest lines."""
    from mosaic.store.logs import STREAMS
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.log import print_log

    streams = [stream for stream, asked in zip(STREAMS, (stdout, stderr), strict=True) if asked] or STREAMS
    with open_backend(server) as runs:
        print_log(runs.run(run), streams, tail, follow=follow)


@app.command()
def values(
    run: RunArgument,
    to: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.png", help="Write an image to this file instead of printing a table."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what a table learned in a grid world: values and best moves.

    Works for FrozenLake, CliffWalking and mosaic/gridworld trained by the worker tabular; reads the latest checkpoint.
    """
    from mosaic.ui.cli.grid_values import read_run, save_image
    from mosaic.ui.cli.output import out, print_json

    found = read_run(run)
    if to is not None:
        save_image(found.cells, to)
    if json:
        print_json({**found.document(), "path": None if to is None else str(to)})
    elif to is not None:
        out.print(f"The values of {found.run_id} at {found.env_steps:,} env steps are drawn in {to}.", soft_wrap=True)
    else:
        found.show(out)


@app.command()
def reindex(json: JsonOption = False) -> None:
    """Rebuild the index from the run folders."""
    from mosaic.store.store import Store
    from mosaic.ui.cli.output import out, print_json

    count = Store().index.reindex()
    if json:
        print_json({"runs": count})
    else:
        out.print(f"{count} runs are in the index.")


@app.command()
def archive(
    run: RunArgument,
    to: Annotated[Path | None, typer.Option("--out", help="File to write.", show_default="RUN.tar.gz")] = None,
    json: JsonOption = False,
) -> None:
    """Pack a run into one file."""
    from mosaic.store.archives.archive import archive_run
    from mosaic.store.store import Store
    from mosaic.ui.cli.output import out, print_json

    folder = Store().resolve(run)
    path = archive_run(folder, to or Path(f"{folder.run_id}.tar.gz"))
    if json:
        print_json({"run_id": folder.run_id, "path": str(path)})
    else:
        out.print(f"{folder.run_id} is packed into {path}.", soft_wrap=True)


@app.command(name="import")
def import_(
    file: Annotated[Path, typer.Argument(help="File written by `mosaic runs archive`.")], json: JsonOption = False
) -> None:
    """Unpack an archived run into this store."""
    from mosaic.store.archives.import_run import import_run
    from mosaic.store.store import Store
    from mosaic.ui.cli.output import out, print_json

    folder = import_run(Store(), file)
    if json:
        print_json({"run_id": folder.run_id})
    else:
        out.print(f"{folder.run_id} is imported. Code that it names, or packs into pickles, runs only with --trust.")


def _why_best(checkpoint: CheckpointRow) -> str:
    match checkpoint.best_by:
        case "rating":
            return f"best: rating {checkpoint.rating:,.0f}"
        case "env_steps":
            return "best: newest"  # self-play without a league has no measure of its own
        case _:
            return f"best: reward {checkpoint.reward:.4g}"


def _moment(seconds: float | None) -> str:
    from datetime import datetime

    return "–" if seconds is None else datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
