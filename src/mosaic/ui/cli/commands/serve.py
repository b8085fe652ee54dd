"""The `mosaic serve` command: the queue, the HTTP API and the web app."""

from __future__ import annotations

from typing import Annotated

import typer


def serve(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8642,
    allow_public: Annotated[
        bool, typer.Option("--allow-public", help="Listen on an address that other machines can reach.")
    ] = False,
    allow_programs: Annotated[
        bool, typer.Option("--allow-programs", help="Let requests name code and programs to run.")
    ] = False,
    max_runs: Annotated[
        int | None,
        typer.Option("--max-runs", min=1, help="Most runs at the same time.", show_default="what fits this machine"),
    ] = None,
    retries: Annotated[int, typer.Option("--retries", min=0, help="Most new attempts for a run that failed.")] = 0,
    window: Annotated[
        bool, typer.Option("--window", help="Show the web app in its own window; closing it ends the server.")
    ] = False,
    pages: Annotated[bool, typer.Option("--pages/--no-pages", help="Serve the web app, or only the HTTP API.")] = True,
) -> None:
    """Serve the queue, the web app and the HTTP API. Runs continue when the server ends."""
    from mosaic.core.errors import InputError
    from mosaic.server.context import ServerSettings, machine_limits
    from mosaic.server.serve import Frontend, ListenAddress
    from mosaic.server.serve import serve as run
    from mosaic.ui.cli.output import out
    from mosaic.ui.health import examine
    from mosaic.ui.web.app import add_pages
    from mosaic.ui.window import Window, require_window

    if window:
        if not pages:
            raise InputError("--window shows the web app and --no-pages turns it off: leave out one of them.")
        require_window()
    limits = machine_limits(runs=max_runs)
    settings = ServerSettings(allow_programs=allow_programs, limits=limits, retries=retries)
    with Window() as shown:
        frontend = Frontend(
            doctor=examine,
            add_pages=add_pages if pages else None,
            greet=shown.show if window else None,
            say=lambda text: out.print(text, soft_wrap=True),
        )
        run(ListenAddress(host, port, allow_public), settings=settings, frontend=frontend)
