"""The `mosaic doctor` command: installed and missing parts, and how to install them."""

from __future__ import annotations

from mosaic.ui.cli.options import JsonOption


def doctor(json: JsonOption = False) -> None:
    """Show what is installed, what is missing, and how to install it."""
    from mosaic.ui.cli.output import print_json, print_table
    from mosaic.ui.health import examine

    findings = examine()
    if json:
        print_json([finding._asdict() for finding in findings])
        return
    rows = [[f.id, "ok" if f.ok else "missing", f.detail, f.install or ""] for f in findings]
    print_table("Doctor", ["what", "state", "detail", "to install"], rows)
