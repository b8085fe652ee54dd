"""The `mosaic policies` command, which lists the policies that can act."""

from __future__ import annotations

from mosaic.ui.cli.options import JsonOption


def policies(json: JsonOption = False) -> None:
    """List the policies that can take an agent's place."""
    from mosaic.core.plugins import load_plugin, plugins
    from mosaic.policies.controller import PolicyKind
    from mosaic.ui.cli.output import note, print_json, print_table

    rows = []
    for name in plugins("mosaic.policies"):
        kind: PolicyKind = load_plugin("mosaic.policies", name)
        options = {key: field.description or "" for key, field in kind.options.model_fields.items()}
        missing = kind.missing()
        rows.append(
            {
                "id": name,
                "usage": kind.usage,
                "help": kind.help,
                "options": options,
                "installed": missing is None,
                "install": missing,
            }
        )
    if json:
        print_json(rows)
        return
    cells = [
        [row["usage"], f"{row['help']} Not installed: {row['install']}" if row["install"] else row["help"]]
        for row in rows
    ]
    print_table(f"{len(rows)} policies", ["policy", "what it does"], cells, whole=0)
    note("Give one to an agent: --agent player_0=random, or to all: --agent '*=random'")
