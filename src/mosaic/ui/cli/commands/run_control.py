"""Commands that control runs: `mosaic runs stop`, `pause`, `resume`, `checkpoint` and `delete`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from mosaic.ui.cli.options import (
    EarlierWorkersOption,
    JsonOption,
    NewCheckpointEveryOption,
    RunArgument,
    ServerOption,
    SetOption,
    TrustOption,
)
from mosaic.ui.cli.setting_help import setting

if TYPE_CHECKING:
    from mosaic.ui.cli.backend import BackendRun

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


def pause(run: RunArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Pause a run at the end of its iteration."""
    _act(run, server, json, lambda it: it.pause())


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
    checkpoint_every: NewCheckpointEveryOption = None,
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


def checkpoint(run: RunArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Save a checkpoint now."""
    _act(run, server, json, lambda it: it.checkpoint())


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
