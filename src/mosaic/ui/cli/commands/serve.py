"""The commands `serve` (queue, HTTP API, web app), `policy-server` (one policy) and `mcp` (tools for assistants)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from mosaic.ui.cli.options import ServerOption, SetOption, TimeLimitOption, TrustOption

HostOption: TypeAlias = Annotated[str, typer.Option("--host", help="Address to listen on.")]
PublicOption: TypeAlias = Annotated[
    bool, typer.Option("--allow-public", help="Listen on an address that other machines can reach.")
]


def serve(
    host: HostOption = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8642,
    allow_public: PublicOption = False,
    allow_programs: Annotated[
        bool, typer.Option("--allow-programs", help="Let requests name code and programs to run.")
    ] = False,
    max_runs: Annotated[
        int | None,
        typer.Option(
            "--max-runs", min=1, help="Maximum number of concurrent runs.", show_default="what fits this machine"
        ),
    ] = None,
    retries: Annotated[int, typer.Option("--retries", min=0, help="Maximum number of restarts of a failed run.")] = 0,
    window: Annotated[
        bool, typer.Option("--window", help="Show the web app in its own window; closing it ends the server.")
    ] = False,
    pages: Annotated[bool, typer.Option("--pages/--no-pages", help="Serve the web app, or only the HTTP API.")] = True,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", help="Start a server in the background unless one is running, and return once it listens."
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="With --detach: print address, process id and token as JSON.")
    ] = False,
) -> None:
    """Serve the queue, the web app and the HTTP API. Runs continue when the server ends."""
    from mosaic.core.errors import InputError

    if detach:
        if window:
            raise InputError("--window shows the web app as long as it runs: leave out --detach.")
        options = [
            *(["--allow-public"] if allow_public else []),
            *(["--allow-programs"] if allow_programs else []),
            *([] if max_runs is None else ["--max-runs", str(max_runs)]),
            *(["--retries", str(retries)] if retries else []),
            *([] if pages else ["--no-pages"]),
        ]
        _serve_in_background(host, port, options, allow_public=allow_public, json=json)
        return
    if json:
        raise InputError("--json describes a background server: add --detach.")
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


def _serve_in_background(host: str, port: int, options: list[str], *, allow_public: bool, json: bool) -> None:
    from mosaic.server.background import ensure_server
    from mosaic.server.serve import ListenAddress
    from mosaic.ui.cli.output import out, print_json

    server = ensure_server(ListenAddress(host, port, allow_public), options)
    if json:
        print_json(server._asdict())
    elif server.pid is None:
        out.print(f"Mosaic already listens on {server.address}", soft_wrap=True)
    else:
        out.print(f"Mosaic listens on {server.address}. To end it, type: kill {server.pid}", soft_wrap=True)


def policy_server(
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="Policy that acts, such as run:latest.")],
    env: Annotated[
        str | None, typer.Option("--env", help="Env that clients play.", show_default="the policy's own")
    ] = None,
    host: HostOption = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8643,
    allow_public: PublicOption = False,
    max_episodes: Annotated[
        int, typer.Option("--max-episodes", min=1, help="Maximum number of concurrent episodes.")
    ] = 4096,
    idle: Annotated[
        float, typer.Option("--idle", min=1, metavar="SECONDS", help="Drop an episode after this long without a call.")
    ] = 600.0,
    time_limit: TimeLimitOption = None,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    trust: TrustOption = False,
) -> None:
    """Let programs that own their environment ask a policy for actions.

    mosaic.PolicyClient is the client in Python; docs/external.md has the protocol for any other language.
    """
    from mosaic.core.errors import InputError
    from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S
    from mosaic.policies.serving.sessions import EpisodeLimits
    from mosaic.server.policy_server import serve_policy
    from mosaic.server.serve import ListenAddress
    from mosaic.ui.cli.options import environment, give_trust
    from mosaic.ui.cli.output import out

    if settings and env is None:
        raise InputError("--set environment.… changes the env of --env, which is missing.")
    give_trust(trust)
    serve_policy(
        policy,
        None if env is None else environment(env, settings),
        ListenAddress(host, port, allow_public, "policy-server"),
        limits=EpisodeLimits(episodes=max_episodes, per_client=max_episodes, idle_s=idle),
        time_limit_s=time_limit or DEFAULT_TIME_LIMIT_S,
        say=lambda text: out.print(text, soft_wrap=True),
    )


def mcp(
    server: ServerOption = None,
    http: Annotated[
        bool, typer.Option("--http", help="Listen for streamable HTTP with the store's token, instead of stdin.")
    ] = False,
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on, with --http.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="Port to listen on, with --http; 0 picks a free one.", show_default="8644"
        ),
    ] = None,
    allow_public: PublicOption = False,
    allow_programs: Annotated[
        bool, typer.Option("--allow-programs", help="Let tool calls name code and programs to run.")
    ] = False,
) -> None:
    """Let assistants list, train, evaluate and play through the Model Context Protocol.

    An assistant starts it as a program and talks to it over stdin and stdout: docs/mcp.md.
    """
    from mosaic.core.errors import InputError
    from mosaic.server.mcp_server import DEFAULT_PORT, serve_mcp
    from mosaic.server.serve import ListenAddress
    from mosaic.ui.cli.output import out

    if not http and (host is not None or port is not None or allow_public):
        raise InputError("--host, --port and --allow-public are for HTTP: add --http.")
    if server is not None and allow_programs:
        raise InputError("The owner of the server decides about programs: mosaic serve --allow-programs.")
    address = ListenAddress(host or "127.0.0.1", DEFAULT_PORT if port is None else port, allow_public, "mcp --http")
    serve_mcp(
        address if http else None,
        server=server,
        allow_programs=allow_programs,
        say=lambda text: out.print(text, soft_wrap=True),
    )
