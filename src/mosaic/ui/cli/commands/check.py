"""The `mosaic check` command, which checks an environment against the env contract."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from mosaic.ui.cli.options import EnvArgument, JsonOption, SetOption


def check(
    env: EnvArgument,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Random env steps per seed.")] = 120,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    json: JsonOption = False,
) -> None:
    """Check an environment against the env contract.

    Plays random steps. Works with your own env too: python:module:factory.
    """
    from mosaic.envs.catalog import make_env
    from mosaic.envs.contract import check_env
    from mosaic.ui.cli.options import environment
    from mosaic.ui.cli.output import out, print_json, print_table

    config = environment(env, settings)
    report = check_env(lambda: make_env(config), steps=steps)
    if json:
        print_json(asdict(report))
        return
    columns = ["agent", "steps", "return", "end", "observation", "action"]
    rows = [
        [a.agent, a.env_steps, f"{a.episode_return:.3f}", a.end or "still there", a.observation, a.action]
        for a in report.agents
    ]
    print_table(f"{report.env_id}: {report.env_steps} random env steps", columns, rows, numbers=["steps", "return"])
    out.print(f"{report.env_id} keeps the contract.", style="green")
