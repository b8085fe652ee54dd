"""MCP server (`mosaic mcp`): the HTTP API's verbs as tools for assistants that speak the Model Context Protocol.

Each tool sends requests to the HTTP API, of a running server or of one inside this process without a socket. So checks,
messages and the rule for programs are the API's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, Protocol, cast
from urllib.parse import quote

import anyio
import httpx
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field
from starlette.types import ASGIApp

from mosaic.core.errors import MosaicError
from mosaic.core.version import VERSION
from mosaic.server.app import create_app
from mosaic.server.auth.guard import Guard
from mosaic.server.auth.hosts import AllowedHosts, allowed_hosts
from mosaic.server.auth.token import ensure_token, token_file
from mosaic.server.client.client import TIMEOUT_S, Client, RequestParts, check_response
from mosaic.server.context import ServerSettings
from mosaic.server.serve import ListenAddress, address_of, confine, listen, server_config
from mosaic.store.store import Store

DEFAULT_PORT = 8644
PATH = "/mcp"
_LOOK_S = 0.1  # between two looks at an evaluation
_LONGEST_WAIT_S = 300.0

Document = dict[str, object]
Agents = Annotated[
    dict[str, str],
    Field(description="Agent or pattern (player_0, *) → policy, such as random, minimax, run:latest; list_policies."),
]
Env = Annotated[str, Field(description="Id of an env, such as classic/connect_four_v3; list_envs.")]
RunRef = Annotated[str, Field(description="Run: its id, a unique prefix, its name, or latest.")]
MatchID = Annotated[str, Field(description="Id of a match.")]
Playing = Annotated[str | None, Field(description="Your agent; null: every `human` agent that is not claimed.")]
Wait = Annotated[float, Field(ge=0, le=50, description="Maximum wait for the other agents, in seconds.")]

INSTRUCTIONS = (
    "Mosaic trains, evaluates and plays reinforcement-learning policies. To play: open_match with `human` for your "
    "agent, then act with one of legal_actions until phase is over. To train: start_run, then watch_run until its "
    "state is finished; the policy is then run:RUN_ID."
)


class Api(Protocol):
    """The HTTP API of a server. Raises MosaicError with the server's own message where a request is refused."""

    async def send(self, method: str, path: str, parts: RequestParts | None = None) -> httpx.Response: ...


@dataclass(frozen=True, slots=True)
class RemoteApi:
    client: Client

    async def send(self, method: str, path: str, parts: RequestParts | None = None) -> httpx.Response:
        return await anyio.to_thread.run_sync(partial(self.client.send, method, path, **(parts or {})))


@dataclass(frozen=True, slots=True)
class LocalApi:
    http: httpx.AsyncClient

    async def send(self, method: str, path: str, parts: RequestParts | None = None) -> httpx.Response:
        return check_response(await self.http.request(method, path, **(parts or {})))


@asynccontextmanager
async def local_api(home: Path, settings: ServerSettings) -> AsyncIterator[Api]:
    """Run the API of a store in this process. Runs continue after the block; matches and evaluations end with it."""
    app = create_app(home, settings)
    http = httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False),
        base_url="http://localhost",
        headers={"Authorization": f"Bearer {ensure_token(home)}"},
        timeout=TIMEOUT_S,
    )
    async with app.router.lifespan_context(app), http:
        yield LocalApi(http)


class Tools:
    """Tools of the MCP server; signatures and docstrings are what a client reads."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def all(self) -> tuple[Callable[..., object], ...]:
        return (
            *(self.list_envs, self.list_policies, self.list_runs, self.list_matches, self.run_schema),
            *(self.start_run, self.watch_run, self.stop_run, self.evaluate, self.watch_evaluation),
            *(self.open_match, self.join_match, self.act, self.restart_match, self.end_match),
        )

    async def list_envs(
        self,
        search: Annotated[str, Field(description="Part of the id, such as connect or gym/.")] = "",
        limit: Annotated[int, Field(ge=1, le=1000)] = 50,
    ) -> list[Document]:
        """List environments that can be played and trained in, with what to install where something is missing."""
        rows = await self._rows("/envs")
        return [row for row in rows if search.lower() in str(row["id"]).lower()][:limit]

    async def list_policies(self) -> list[Document]:
        """List the kinds of policies, how to write them, and their options."""
        return await self._rows("/policies")

    async def list_runs(self, limit: Annotated[int, Field(ge=1, le=1000)] = 20) -> list[Document]:
        """List training runs, newest first."""
        return await self._rows("/runs", {"params": {"limit": limit}})

    async def list_matches(self) -> list[Document]:
        """List matches that are being played now."""
        return await self._rows("/matches")

    async def run_schema(self) -> Document:
        """Return the JSON schema of a run's configuration, for `config` of start_run."""
        return await self._ask("GET", "/schemas/run")

    async def start_run(
        self,
        env: Env,
        steps: Annotated[int | None, Field(ge=1, description="Env steps to train; null: the preset's.")] = None,
        algorithm: Annotated[str | None, Field(description="Such as ppo, dqn, q_learning; null: chosen.")] = None,
        worker: Annotated[str | None, Field(description="Such as native, tabular, rllib, sb3; null: chosen.")] = None,
        agents: Annotated[dict[str, str] | None, Field(description="Agents with a fixed policy.")] = None,
        seed: int | None = None,
        config: Annotated[dict[str, object] | None, Field(description="Any other settings: run_schema.")] = None,
    ) -> Document:
        """Start a training run, which continues by itself; follow it with watch_run."""
        training = {"total_timesteps": steps, "algorithm": algorithm, "worker": worker}
        asked = {
            "environment": {"env_id": env},
            "training": _given(training),
            **_given({"agents": agents, "seed": seed}),
        }
        return await self._ask("POST", "/runs", {"json": _merged(config or {}, asked)})

    async def watch_run(
        self, run: RunRef = "latest", log_bytes: Annotated[int, Field(ge=1, le=65_536)] = 2000
    ) -> Document:
        """Return a run's state, last metrics, checkpoints and configuration, and the end of its log."""
        details = await self._ask("GET", _path("runs", run))
        log = await self._ask("GET", _path("runs", str(details["run_id"]), "log"), {"params": {"size": log_bytes}})
        return {**details, "log": log["text"]}

    async def stop_run(self, run: RunRef) -> Document:
        """Ask a run to save and stop; it has stopped once watch_run says so."""
        return await self._ask("POST", _path("runs", run, "stop"))

    async def evaluate(
        self,
        env: Env,
        agents: Agents,
        episodes: Annotated[int, Field(ge=1, le=10_000)] = 20,
        seed: Annotated[int, Field(ge=0)] = 0,
        wait_s: Annotated[float, Field(ge=0, le=_LONGEST_WAIT_S, description="Maximum wait for the result.")] = 60.0,
    ) -> Document:
        """Play episodes and return mean returns, wins and 95 % intervals; if it takes longer, see watch_evaluation."""
        asked = {"environment": {"env_id": env}, "agents": agents, "episodes": episodes, "seed": seed}
        begun = await self._ask("POST", "/evaluate", {"json": asked})
        return await self.watch_evaluation(str(begun["examination_id"]), wait_s)

    async def watch_evaluation(
        self,
        examination_id: Annotated[str, Field(description="From evaluate.")],
        wait_s: Annotated[float, Field(ge=0, le=_LONGEST_WAIT_S, description="Maximum wait for the result.")] = 60.0,
    ) -> Document:
        """Return an evaluation's progress and, once it has finished, its result."""
        deadline_s = monotonic() + wait_s
        row = await self._ask("GET", _path("evaluate", examination_id))
        while row["state"] == "running" and monotonic() < deadline_s:
            await anyio.sleep(_LOOK_S)
            row = await self._ask("GET", _path("evaluate", examination_id))
        return row

    async def open_match(self, env: Env, agents: Agents, seed: Annotated[int, Field(ge=0)] | None = None) -> Document:
        """Open a match, with `human` for each agent that you play, and return the position at your first turn."""
        asked = {"environment": {"env_id": env}, "agents": agents, "seed": seed, "pace": "turns"}
        match = await self._ask("POST", "/matches", {"json": asked})
        return await self.join_match(str(match["match_id"]))

    async def join_match(self, match_id: MatchID, agent: Playing = None, wait_s: Wait = 30.0) -> Document:
        """Return the position at your next turn: what your agent observes, as text, and its legal actions by name.

        Also for a match that a person has opened in the web app. A match that is not used for 5 minutes ends.
        """
        params: dict[str, str | float] = {"wait_s": wait_s} | ({} if agent is None else {"agent": agent})
        return await self._ask("GET", _path("matches", match_id, "position"), {"params": params})

    async def act(
        self,
        match_id: MatchID,
        move: Annotated[str, Field(description="One of legal_actions, or an action's number or numbers.")],
        agent: Playing = None,
        wait_s: Wait = 30.0,
    ) -> Document:
        """Make a move and return the position at your next turn, or the result when the episode is over."""
        asked = {"move": move, "agent": agent, "wait_s": wait_s}
        return await self._ask("POST", _path("matches", match_id, "moves"), {"json": asked})

    async def restart_match(self, match_id: MatchID, agent: Playing = None, seed: int | None = None) -> Document:
        """Begin the next episode of a match and return the position at your first turn."""
        asked = {"agent": agent, "seed": seed}
        return await self._ask("POST", _path("matches", match_id, "restart"), {"json": asked})

    async def end_match(self, match_id: MatchID) -> str:
        """End a match for everyone in it."""
        await self._send("DELETE", _path("matches", match_id))
        return f"Match {match_id} ends."

    async def _ask(self, method: str, path: str, parts: RequestParts | None = None) -> Document:
        return cast(Document, (await self._send(method, path, parts)).json())

    async def _rows(self, path: str, parts: RequestParts | None = None) -> list[Document]:
        return cast(list[Document], (await self._send("GET", path, parts)).json())

    async def _send(self, method: str, path: str, parts: RequestParts | None = None) -> httpx.Response:
        try:
            return await self._api.send(method, path, parts)
        except MosaicError as error:
            raise ToolError(str(error)) from error


def create_mcp_server(api: Api) -> MCPServer[None]:
    server: MCPServer[None] = MCPServer("mosaic", version=VERSION, instructions=INSTRUCTIONS, log_level="WARNING")
    for tool in Tools(api).all():
        server.add_tool(tool)
    return server


def guarded_app(server: MCPServer[None], token: str, hosts: AllowedHosts, host: str = "127.0.0.1") -> ASGIApp:
    """Return the streamable HTTP transport behind the checks of the HTTP API: Host, Origin, token, size."""
    return Guard(server.streamable_http_app(streamable_http_path=PATH, host=host), token=token, hosts=hosts)


def serve_mcp(
    address: ListenAddress | None,
    *,
    server: str | None = None,
    allow_programs: bool = False,
    home: Path | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Serve on stdin and stdout, or on an address over HTTP, until the client leaves or Ctrl-C.

    `server` is the URL of a running Mosaic server; without one the tools work on this machine's store.
    """
    if address is not None:
        address.check()
    with suppress(KeyboardInterrupt):  # the normal way to end a server
        anyio.run(_serve, address, server, allow_programs, Store(home).home, say)


async def _serve(
    address: ListenAddress | None, server: str | None, allow_programs: bool, home: Path, say: Callable[[str], None]
) -> None:
    if server is not None:
        with Client(server, home=home) as client:
            await _serve_api(RemoteApi(client), address, home, say)
        return
    confine(home, allow_programs=allow_programs)
    async with local_api(home, ServerSettings(allow_programs=allow_programs)) as api:
        await _serve_api(api, address, home, say)


async def _serve_api(api: Api, address: ListenAddress | None, home: Path, say: Callable[[str], None]) -> None:
    mcp = create_mcp_server(api)
    if address is None:
        await mcp.run_stdio_async()
        return
    with listen(address) as listener:
        app = guarded_app(mcp, ensure_token(home), allowed_hosts(address.host), address.host)
        say(f"MCP on {address_of(listener)}{PATH}")
        say(f"Its token is in {token_file(home)}; clients send it as `Authorization: Bearer TOKEN`.")
        await uvicorn.Server(server_config(app)).serve([listener])


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _given(settings: Mapping[str, object]) -> Document:
    return {name: value for name, value in settings.items() if value is not None}


def _merged(config: Mapping[str, object], asked: Mapping[str, object], where: str = "") -> Document:
    """Add what was asked to a configuration; a setting that is in both is refused."""
    merged = dict(config)
    for name, value in asked.items():
        earlier = merged.get(name)
        if isinstance(earlier, Mapping) and isinstance(value, Mapping):
            merged[name] = _merged(earlier, value, f"{where}{name}.")
        elif earlier is not None and earlier != value:
            raise ToolError(f"'{where}{name}' is given twice, the second time in `config`: leave out one of them.")
        else:
            merged[name] = value
    return merged
