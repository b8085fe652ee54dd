"""The `mosaic train` command, which starts a run in the foreground or detached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaic.ui.cli.options import (
    AlgorithmOption,
    CheckpointEveryOption,
    EarlierWorkersOption,
    JsonOption,
    LearningAgentOption,
    NoProjectOption,
    PoliciesOption,
    PresetOption,
    ProjectOption,
    Runtime,
    ServerOption,
    SetOption,
    TrustOption,
    WorkerOption,
)
from mosaic.ui.cli.setting_help import setting

if TYPE_CHECKING:
    from mosaic.store.views import RunDetails
    from mosaic.ui.cli.backend import BackendRun
    from mosaic.ui.cli.setting_layers import SettingLayers
    from mosaic.workers.resolution import ResolvedConfig


def train(
    env: Annotated[
        str | None, typer.Argument(metavar="ENV", help="Environment; --config or a project may name it.")
    ] = None,
    worker: WorkerOption = None,
    algo: AlgorithmOption = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, help=setting("training.total_timesteps")),
    ] = None,
    episodes: Annotated[int | None, typer.Option("--episodes", min=1, help=setting("training.episodes"))] = None,
    stop_reward: Annotated[float | None, typer.Option("--stop-reward", help=setting("training.stop_reward"))] = None,
    policies: PoliciesOption = None,
    agent: LearningAgentOption = [],  # noqa: B006 - Typer copies it
    init: Annotated[
        str | None,
        typer.Option("--init", metavar="POLICY", help=setting("training.init")),
    ] = None,
    demo: Annotated[
        str | None,
        typer.Option(
            "--demo",
            metavar="NAME",
            help="Demonstration to learn from (mosaic demos list), or another dataset: minari:ID, a folder. "
            "Without --algo it is cloned: --algo bc.",
        ),
    ] = None,
    checkpoint_every: CheckpointEveryOption = None,
    checkpoint_folder: Annotated[
        str | None,
        typer.Option("--checkpoint-folder", metavar="PATH", help=setting("checkpoint.folder")),
    ] = None,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    config: Annotated[Path | None, typer.Option("--config", help="Settings file: JSON, YAML or TOML.")] = None,
    project: ProjectOption = None,
    preset: PresetOption = None,
    no_project: NoProjectOption = False,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help=setting("seed"))] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Start a group of this many runs with different seeds.")
    ] = 1,
    name: Annotated[str | None, typer.Option("--name", help=setting("name"))] = None,
    tag: Annotated[list[str], typer.Option("--tag", help="Tag to find the run by; may be repeated.")] = [],  # noqa: B006
    num_env_runners: Annotated[
        int | None,
        typer.Option(
            "--num-env-runners", min=1, help=setting("resources.num_env_runners"), show_default="2, or as many as fit"
        ),
    ] = None,
    num_workers: EarlierWorkersOption = None,
    runtime: Annotated[
        Runtime | None,
        typer.Option(
            "--runtime",
            case_sensitive=False,
            help=setting("resources.runtime"),
            show_default="chosen by the worker",
        ),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="HOST:PORT",
            help=setting("resources.ray_address"),
            show_default="start Ray on this machine",
        ),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Start the run in the background and return.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved configuration without starting a run.")
    ] = False,
    trust: TrustOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Train policies. Ctrl-C stops the run and saves it."""
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.options import dataset_reference, give_trust, number_of_env_runners
    from mosaic.ui.cli.run_config import read_agents, resolved
    from mosaic.ui.cli.setting_layers import ProjectOptions, read_layers, remember_project

    give_trust(trust, server)
    asked: dict[str, object] = {
        "env": env,
        "training": {
            "worker": worker,
            "algorithm": algo,
            "total_timesteps": steps,
            "episodes": episodes,
            "stop_reward": stop_reward,
            "init": init,
        },
        "resources": {
            "num_env_runners": number_of_env_runners(num_env_runners, num_workers),
            "runtime": runtime,
            "ray_address": ray_address,
        },
        "checkpoint": {"folder": checkpoint_folder},
        "checkpoint_every": checkpoint_every,
        "params": {"dataset": dataset_reference(demo)},
        "top": {
            "policy_configuration": policies,
            "agents": read_agents(agent),
            "seed": seed,
            "name": name,
            "tags": tag or None,
        },
    }
    layers = read_layers(asked, config, settings, ProjectOptions(project, preset, no_project))
    configured = resolved(layers, quiet=json, here=server is None)
    if dry_run:
        if server is None:  # a server knows its own runs
            from mosaic.runs.trainer import Trainer

            Trainer().check(configured)
        _show_dry(configured, layers, json)
        return
    if layers.project is not None and server is None:
        remember_project(layers.project)
    with open_backend(server) as runs:

        def submit() -> Sequence[BackendRun]:
            return [runs.submit(configured)] if seeds == 1 else runs.submit_group(configured, seeds)

        if detach:
            _say_detached(submit(), json)
        else:
            _foreground(submit, json)


def _show_dry(configured: ResolvedConfig, layers: SettingLayers, json: bool) -> None:
    from mosaic.config.loading import dump_run_config
    from mosaic.ui.cli.output import note, out, print_json

    config = configured.config
    document = dump_run_config(config)
    if json:
        print_json(document)
        return
    out.print_json(data=document)
    layers.mention_sources(configured)
    note(f"Nothing was started. The worker {config.training.worker} would train {config.environment.id}.")


def _say_detached(started: Sequence[BackendRun], json: bool) -> None:
    from mosaic.ui.cli.output import note, out, print_json

    if json:
        rows = [{"run_id": run.id, "state": str(run.show().state)} for run in started]
        print_json(rows[0] if len(rows) == 1 else rows)
        return
    for run in started:
        out.print(run.id)
    note("Follow it: mosaic watch latest    Stop it: mosaic runs stop latest")


def _advise(details: RunDetails) -> None:
    """Say how to continue a run after Ctrl-C, if it saved anything; it may have finished in that moment."""
    from mosaic.ui.cli.output import note

    if details.state == "finished":
        return
    if details.checkpoints:
        note(f"Resume it: mosaic runs resume {details.run_id}")
    else:
        note(f"Nothing was saved: {details.run_id} ended before its first checkpoint.")


def _foreground(submit: Callable[[], Sequence[BackendRun]], json: bool) -> None:
    """Submit runs and follow them to their end; Ctrl-C stops and saves all of them."""
    from mosaic.core.errors import MosaicError
    from mosaic.core.interrupts import ctrl_c_deferred, ctrl_c_kept
    from mosaic.ui.cli.group_results import make_groups, show_groups
    from mosaic.ui.cli.output import complain, note, print_json
    from mosaic.ui.cli.run_config import result, show_result, unsaved_work
    from mosaic.ui.cli.watching import follow, view_of

    started: list[BackendRun] = []
    try:
        with ctrl_c_kept():
            with ctrl_c_deferred():
                started += submit()
            for run in started:
                view = view_of(run)
                view.note = "Ctrl-C stops and saves."
                follow(run, view, shown=not json)
                run.wait()
    except KeyboardInterrupt:
        if not json:
            note("Stopping and saving …")
        for run in started:
            run.stop()
            if text := unsaved_work(run.show()):
                complain(text)
        if not json:
            for run in started:
                _advise(run.show())
        raise
    results = [result(run) for run in started]
    if json:
        print_json(results[0] if len(results) == 1 else results)
    else:
        show_result(results)
        if len(started) > 1:
            groups = make_groups(started, [run.show() for run in started], [""] * len(started))
            show_groups([group.document() for group in groups], [])
    for run, document in zip(started, results, strict=True):
        if document["state"] in ("failed", "lost"):
            reason = (document["reason"] or "see its log").rstrip(".")
            environment = run.show().config["environment"]
            check = f". To check your env: {_check_command(environment)}" if environment["family"] == "python" else ""
            raise MosaicError(
                f"The run {document['run_id']} {document['state']}: {reason}. "
                f"Type: mosaic runs log {document['run_id']}{check}"
            )


def _check_command(environment: Mapping[str, Any]) -> str:
    """Return the command that checks an env with its options."""
    from json import dumps
    from shlex import join

    from mosaic.config.sections import join_id

    settings = [f"--set=environment.options.{key}={dumps(value)}" for key, value in environment["options"].items()]
    return join(["mosaic", "check", join_id(environment["family"], environment["env_id"]), *settings])
