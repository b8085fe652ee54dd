"""`mosaic envs`: the catalog."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from mosaic.ui.cli.options import JsonOption


def envs(
    family: Annotated[str | None, typer.Argument(help="Only this family: gym, classic, sisl, butterfly, mpe.")] = None,
    json: JsonOption = False,
) -> None:
    """List environments: agents, spaces, what is installed."""
    from mosaic.envs.catalog import entries
    from mosaic.envs.inspect import inspect_env
    from mosaic.ui.cli.screen import note, print_json, print_table, progress

    found = entries(family)
    rows: list[dict[str, Any]] = []
    with progress("looking at environments", len(found), shown=not json) as tick:
        for entry in found:
            rows.append(asdict(inspect_env(entry)))
            tick()
    if json:
        print_json(rows)
        return
    title = f"{len(rows)} environments" + (f" of family {family}" if family else "")
    columns = ["id", "agents", "act", "observation", "action", "to install"]
    print_table(title, columns, [_cells(row) for row in rows], numbers=["agents"])
    note("Any registered Gymnasium id works as gym/ID; your own env as python:module:factory. Try: mosaic check ENV")


def _cells(row: dict[str, Any]) -> list[Any]:
    if not row["installed"]:
        return [row["id"], "–", "–", "–", "–", row["install"]]
    act = "in turns" if row["turn_based"] else ("together" if len(row["agents"]) > 1 else "alone")
    return [row["id"], len(row["agents"]), act, row["observation"], row["action"], ""]
