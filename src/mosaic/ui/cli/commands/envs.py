"""The `mosaic envs` command, which lists the catalog."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from mosaic.ui.cli.options import JsonOption


def envs(
    family: Annotated[
        str | None, typer.Argument(help="List only this family: gym, classic, sisl, butterfly, mpe, …")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List environments: agents, spaces, what is compiled, tuned and installed."""
    from mosaic.envs.catalog import entries
    from mosaic.envs.inspect import inspect_env
    from mosaic.ui.cli.output import note, print_json, print_table, progress
    from mosaic.workers.presets import presets_of

    found = entries(family)
    rows: list[dict[str, Any]] = []
    with progress("looking at environments", len(found), shown=not json) as tick:
        for entry in found:
            presets = [f"{preset.worker} {preset.algorithm}" for preset in presets_of(entry.id)]
            rows.append({**asdict(inspect_env(entry)), "presets": presets})
            tick()
    if json:
        print_json(rows)
        return
    for name in dict.fromkeys(row["id"].split("/")[0] for row in rows):
        mine = [row for row in rows if row["id"].startswith(f"{name}/")]
        here = [row for row in mine if row["installed"]]
        print_table(f"{name}: {len(here)} environments", ["id", "agents", "sees", "acts"], [_cells(r) for r in here])
        for what, key in (("Compiled twin", "compiled_twin"), ("Tuned preset", "presets")):
            if names := [row["id"].split("/", 1)[1] for row in here if row[key]]:
                note(f"  {what}: {', '.join(names)}\n")
        for line in dict.fromkeys(row["install"] for row in mine if not row["installed"]):
            note(f"  {', '.join(row['id'] for row in mine if row['install'] == line)}: {line}\n")
    note("Any registered Gymnasium id works as gym/ID; your own env as python:module:factory. Try: mosaic check ENV")


def _cells(row: dict[str, Any]) -> list[Any]:
    count = len(row["agents"])
    how = "" if count == 1 else " in turns" if row["turn_based"] else " together"
    return [row["id"], f"{count}{how}", row["observation"], row["action"]]
