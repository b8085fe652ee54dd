"""The `mosaic runs` commands, which list runs and act on them."""

from __future__ import annotations

from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaic.ui.cli.options import (
    CheckpointEveryOption,
    EarlierWorkersOption,
    JsonOption,
    RunArgument,
    ServerOption,
    SetOption,
    SettingsCommand,
    TrustOption,
    setting,
)

if TYPE_CHECKING:
    from mosaic.store.views import CheckpointRow
    from mosaic.ui.cli.backend import BackendRun

app = typer.Typer(help="List runs and act on them.", invoke_without_command=True, rich_markup_mode=None)

PatienceOption = Annotated[
    float | None,
    typer.Option(
        "--patience",
        min=0,
        metavar="SECONDS",
        help="Kill the run if it has not saved and stopped within this time.",
        show_default="what its worker needs",
    ),
]


@app.callback()
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_(tag=None, project=None, server=None, json=False)


@app.command(name="list")
def list_(
    tag: Annotated[
        str | None, typer.Option("--tag", help="List only runs with this tag or of this seed group.")
    ] = None,
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="PROJECT", help="List only runs of this project; . is this folder's."),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """List runs, the newest first."""
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.output import note, out, print_json, print_table
    from mosaic.ui.cli.setting_layers import name_of_project

    with open_backend(server) as runs:
        wanted = name_of_project(project) if project == "." else project
        rows = [row for row in runs.runs(project=wanted) if tag is None or tag in (*row.tags, row.group)]
    named = any(row.name for row in rows)
    if json:
        print_json([row.model_dump(mode="json") for row in rows])
        return
    wide = out.width >= 110
    cells = [
        [
            row.run_id,
            str(row.state),
            row.env if wide else row.env.partition("/")[2] or row.env,
            f"{row.env_steps or 0:,}",
            "–" if row.episode_reward_mean is None else f"{row.episode_reward_mean:.4g}",
            *([f"{row.worker or '–'} {row.algorithm or ''}"] if wide else []),
            *([row.name] if named else []),
        ]
        for row in rows
    ]
    columns = ["run", "state", "env", "steps", "reward", *(["worker"] if wide else []), *(["name"] if named else [])]
    print_table(f"{len(cells)} runs", columns, cells, ["steps", "reward"], whole=5)
    if not cells:
        note("Start one: mosaic train ENV --worker WORKER")


@app.command()
def show(run: RunArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Show a run: state, attempts, checkpoints, last evaluation, configuration."""
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.evaluation_view import EVALUATION_COLUMNS, evaluation_rows, evaluation_title, own_metrics
    from mosaic.ui.cli.output import out, print_json, print_table

    with open_backend(server) as runs:
        details = runs.run(run).show()
    if json:
        print_json(details.model_dump(mode="json"))
        return
    last = details.last_metric or {}
    reward = last.get("episode_reward_mean")
    out.print(f"{details.run_id}: {details.state}" + (f", {details.reason}" if details.reason else ""))
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
    print_table("Checkpoints", ["env steps", "", "folder"], points, ["env steps"])
    for event in details.last_evaluation:
        print_table(evaluation_title(event), EVALUATION_COLUMNS, evaluation_rows(event))
    out.print_json(data=details.config)


@app.command()
def compare(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs, or the id or name of a seed group.")],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Compare runs: results, settings that differ, and statistics over seeds per env.

    A seed group's id, or the --name it was trained with, means all of its runs. Runs that differ in nothing but
    their seed form one group; groups of one env are compared by the interquartile mean of their last rewards, its
    difference and the probability that a run of the first group scores higher, each with a 95 % bootstrap interval.
    """
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.group_results import (
        compare_groups,
        differences,
        group_labels,
        make_groups,
        runs_asked_for,
        show_groups,
    )
    from mosaic.ui.cli.output import note, print_json, print_table

    with open_backend(server) as runs:
        rows_here = runs.runs()
        group_of = {row.run_id: row.group or "" for row in rows_here}
        named = [runs.run(ref) for ref in runs_asked_for(run, rows_here)]
        chosen = list({each.id: each for each in named}.values())  # a run given twice counts once
        shown = [each.show() for each in chosen]
        made = make_groups(chosen, shown, [group_of.get(each.id, "") for each in chosen])
        together = [group.document() for group in made]
        pairs = compare_groups(made)
    differing = differences([details.config for details in shown])
    results = [
        {
            "run_id": details.run_id,
            "state": str(details.state),
            "env_steps": details.env_steps,
            "episode_reward_mean": (details.last_metric or {}).get("episode_reward_mean"),
        }
        for details in shown
    ]
    if json:
        curve = together[0]["curve"] if len(together) == 1 else None
        print_json(
            {"runs": results, "differences": differing, "groups": together, "comparisons": pairs, "group": curve}
        )
        return
    rows = [[row["run_id"], row["state"], *(_figure(row[name]) for name in list(row)[2:])] for row in results]
    print_table("Results", list(results[0]), rows, list(results[0])[2:])
    labels = group_labels(together)
    if len(made) < len(shown):  # one column per group: its runs differ only in their seeds
        differing = differences([group.config for group in made])
        differing.pop("seed", None)
        heads = list(labels.values())
    else:
        heads = [details.run_id for details in shown]
    rows = [[key, *("–" if value is None else value for value in values)] for key, values in differing.items()]
    print_table("Settings that differ", ["setting", *heads], rows)
    show_groups(together, pairs)
    if any(details.config.get("policy_configuration") == "self_play" for details in shown):
        note("In self-play the reward does not measure strength. Let them play: mosaic tournament ENV run:A run:B")


def _figure(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else "–"


@app.command()
def stop(
    run: RunArgument, patience: PatienceOption = None, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Stop a run and save it. Fails if the run had to be killed, in which case nothing new was saved."""
    from mosaic.core.errors import MosaicError
    from mosaic.store.state import ENDED
    from mosaic.ui.cli.run_config import unsaved_work

    def stop_and_check(chosen: BackendRun) -> None:
        had_ended = chosen.show().state in ENDED
        chosen.stop(patience)
        if not had_ended and (text := unsaved_work(chosen.show())):
            raise MosaicError(text)

    _act(run, server, json, stop_and_check)


@app.command()
def pause(run: RunArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Pause a run at the end of its iteration."""
    _act(run, server, json, lambda it: it.pause())


@app.command(cls=SettingsCommand)
def resume(
    run: RunArgument,
    num_env_runners: Annotated[
        int | None, typer.Option("--num-env-runners", min=1, help=setting("resources.num_env_runners"))
    ] = None,
    num_workers: EarlierWorkersOption = None,
    ray_address: Annotated[
        str | None, typer.Option("--ray-address", metavar="HOST:PORT", help=setting("resources.ray_address"))
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, help="Stop after this many environment steps in all; extends a finished run."),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option("--episodes", min=1, help="Stop after this many episodes in all; extends a finished run."),
    ] = None,
    checkpoint_every: CheckpointEveryOption = None,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    trust: TrustOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Resume a paused or ended run from its last checkpoint. Settings can be changed only after it has ended."""
    from mosaic.ui.cli.options import checkpoint_interval, give_trust, number_of_env_runners

    give_trust(trust, server)
    number = number_of_env_runners(num_env_runners, num_workers)
    typed = {"num_env_runners": number, "ray_address": ray_address}
    resources = {key: value for key, value in typed.items() if value is not None}
    limits = {"training.total_timesteps": steps, "training.episodes": episodes}
    changes = [*settings, *(f"{name}={limit}" for name, limit in limits.items() if limit is not None)]
    every = {} if checkpoint_every is None else checkpoint_interval(checkpoint_every)
    changes += [f"checkpoint.{name}={'null' if value is None else value}" for name, value in every.items()]
    _act(run, server, json, lambda it: it.resume(resources=resources, settings=changes))


@app.command()
def checkpoint(run: RunArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Save a checkpoint now."""
    _act(run, server, json, lambda it: it.checkpoint())


@app.command()
def delete(run: RunArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Delete a run that has ended, and all of its files."""
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.output import out, print_json

    with open_backend(server) as runs:
        chosen = runs.run(run)
        chosen.delete()
    if json:
        print_json({"run_id": chosen.id, "deleted": True})
    else:
        out.print(f"{chosen.id} is deleted.")


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


def _act(run: str, server: str | None, json: bool, action: Callable[[BackendRun], object]) -> None:
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.output import out, print_json

    with open_backend(server) as runs:
        chosen = runs.run(run)
        action(chosen)
        details = chosen.show()
    if json:
        print_json({"run_id": details.run_id, "state": str(details.state), "env_steps": details.env_steps})
    else:
        out.print(f"{details.run_id} is {details.state} at {details.env_steps or 0:,} env steps.")


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
