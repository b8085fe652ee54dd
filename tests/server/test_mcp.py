"""MCP: a scripted client plays, trains and evaluates; programs and foreign pages are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.turn import Turn
from mosaic.policies.random import RandomPolicyController
from mosaic.runs.trainer import Trainer
from mosaic.server.auth.hosts import allowed_hosts
from mosaic.server.auth.token import read_token
from mosaic.server.context import ServerSettings
from mosaic.server.play.match import Match
from mosaic.server.play.messages import MatchRequest
from mosaic.server.play.requests import MoveRequest, make_move, see_position
from tests.server.server_kit import LIMITS, ServerProcess, toy

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from mosaic.server.mcp_server import PATH, create_mcp_server, guarded_app, local_api

CONNECT_FOUR = "classic/connect_four_v3"
TOKEN = "a-token-for-the-tests-of-the-mcp-server"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}


class Assistant:
    """Calls tools; an error result is raised."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        answer = await self.client.call_tool(tool, arguments)
        if answer.is_error:
            raise AssertionError(answer.content[0].text)  # type: ignore[union-attr]
        content = answer.structured_content
        return content["result"] if content is not None and set(content) == {"result"} else content

    async def refused(self, tool: str, **arguments: Any) -> str:
        answer = await self.client.call_tool(tool, arguments)
        assert answer.is_error
        text: str = answer.content[0].text  # type: ignore[union-attr]
        return text


def with_assistant(home: Path, do: Callable[[Assistant], Awaitable[None]], **settings: Any) -> None:
    """Let a client in this process use the tools of a store; queued runs are not started by themselves."""

    async def main() -> None:
        values: dict[str, Any] = {"limits": LIMITS, "start_queued": False, **settings}
        async with local_api(home, ServerSettings(**values)) as api, Client(create_mcp_server(api)) as client:
            await do(Assistant(client))

    anyio.run(main)


def test_a_client_plays_twenty_games_of_connect_four(tmp_path):
    async def play(assistant: Assistant) -> None:
        position = await assistant("open_match", env=CONNECT_FOUR, agents={"player_0": "human", "player_1": "random"})
        match_id = position["match_id"]
        for game in range(20):
            assert (position["episode"], position["phase"], position["step"]) == (game, "playing", 0)
            while position["phase"] == "playing":
                step = position["step"]
                assert position["agent"] == "player_0"
                board = position["text"].split("top row first:")[1]
                assert (board.count("X"), board.count("O")) == (step // 2, step // 2)
                move = position["legal_actions"][(step + game) % len(position["legal_actions"])]
                position = await assistant("act", match_id=match_id, move=move)
                assert f"player_0: {move}" in position["moves"]
                assert position["step"] == step + 2 or position["phase"] == "over"
            assert "wins." in position["result"] or position["result"] == "A draw."
            assert sum(position["returns"].values()) == 0
            position = await assistant("restart_match", match_id=match_id)
        assert [row["match_id"] for row in await assistant("list_matches")] == [match_id]
        await assistant("end_match", match_id=match_id)

    with_assistant(tmp_path / "home", play)


def test_two_clients_play_against_each_other_in_one_match(tmp_path):
    async def play(assistant: Assistant) -> None:
        first = await assistant("open_match", env="classic/tictactoe_v3", agents={"*": "human"})
        match_id = first["match_id"]
        waiting = await assistant("join_match", match_id=match_id, agent="player_2", wait_s=0)
        assert (waiting["agent"], waiting["legal_actions"]) == (None, [])
        assert "not the turn" in await assistant.refused("act", match_id=match_id, agent="player_2", move="a1")
        after = await assistant("act", match_id=match_id, agent="player_1", move=first["legal_actions"][0], wait_s=0)
        assert after["agent"] is None
        second = await assistant("join_match", match_id=match_id, agent="player_2")
        assert second["agent"] == "player_2"
        assert first["legal_actions"][0] not in second["legal_actions"]

    with_assistant(tmp_path / "home", play)


def test_an_illegal_move_and_an_unknown_agent_are_named_and_change_nothing(tmp_path):
    async def play(assistant: Assistant) -> None:
        position = await assistant("open_match", env=CONNECT_FOUR, agents={"*": "human"})
        match_id = position["match_id"]
        assert "nonsense" in await assistant.refused("act", match_id=match_id, move="nonsense")
        assert "may not play" in await assistant.refused("act", match_id=match_id, move="9")
        assert "player_0, player_1" in await assistant.refused("act", match_id=match_id, agent="nobody", move="0")
        assert "no match" in (await assistant.refused("act", match_id="missing", move="0")).lower()
        assert await assistant("join_match", match_id=match_id) == position

    with_assistant(tmp_path / "home", play)


def test_a_move_is_not_asked_for_again_while_others_still_choose(monkeypatch):
    """Of agents that act at the same time, one has moved by a request; the others' policy is slow."""
    go_on, act = threading.Event(), RandomPolicyController.act

    def slow(self: RandomPolicyController, turn: Turn) -> object:
        go_on.wait()
        return act(self, turn)

    monkeypatch.setattr(RandomPolicyController, "act", slow)
    environment = EnvironmentConfig(env_id="mpe/simple_spread_v3")
    agents = {"agent_0": "human", "*": "random"}
    match = Match("slow", MatchRequest(environment=environment, agents=agents, pace="turns"))
    match.open()
    try:
        assert make_move(match, MoveRequest(move="0", wait_s=0.2)).agent is None
        assert see_position(match, "agent_0", 0).agent is None
        go_on.set()
        position = see_position(match, "agent_0", 50)
        assert (position.agent, position.step) == ("agent_0", 1)
        assert "Landmark 3: " in position.text
    finally:
        go_on.set()
        match.end("the test is over.")
        assert match.join_thread(60)


def test_a_client_starts_a_run_and_watches_it(tmp_path, runs_here):
    home = tmp_path / "home"

    async def begin(assistant: Assistant) -> None:
        part = toy(iterations=3)
        config = {"training": {"params": part["training"]["params"]}, "resources": part["resources"]}
        begun = await assistant("start_run", env="gym/CartPole-v1", steps=30, worker="toy", config=config)
        assert begun["state"] == "queued"
        other = await assistant("start_run", env="gym/CartPole-v1", config={"name": "other"})
        await assistant("stop_run", run="other")
        assert (await assistant("watch_run", run=other["run_id"]))["state"] == "stopped"
        twice = await assistant.refused("start_run", env="gym/CartPole-v1", seed=1, config={"seed": 2})
        assert "'seed' is given twice" in twice
        assert "total_timestep" in await assistant.refused(
            "start_run", env="gym/CartPole-v1", config={"training": {"total_timestep": 3}}
        )

    with_assistant(home, begin)
    (run_id,) = (run.id for run in Trainer(home).runs() if run.state == "queued")
    Trainer(home).run(run_id).start()

    async def watch(assistant: Assistant) -> None:
        seen = await assistant("watch_run", run=run_id)
        assert (seen["state"], seen["env_steps"]) == ("finished", 30)
        assert seen["last_metric"]["env_steps"] == 30
        assert isinstance(seen["log"], str)
        assert [row["run_id"] for row in await assistant("list_runs")][-1:] == [run_id]

    with_assistant(home, watch)


def test_the_catalog_is_listed_and_searched(tmp_path):
    async def look(assistant: Assistant) -> None:
        assert [row["id"] for row in await assistant("list_envs", search="connect_four")] == [CONNECT_FOUR]
        assert {"random", "human", "minimax", "run"} <= {row["id"] for row in await assistant("list_policies")}
        assert "training" in (await assistant("run_schema"))["properties"]

    with_assistant(tmp_path / "home", look)


@pytest.mark.parametrize("policy", ["process:touch /tmp/x", "python:os:getcwd", "uci:/bin/true", "http://127.0.0.1:1"])
def test_programs_need_the_owners_permission(tmp_path, policy):
    async def ask(assistant: Assistant) -> None:
        agents = {"player_0": "human", "player_1": policy}
        for text in [
            await assistant.refused("open_match", env=CONNECT_FOUR, agents=agents),
            await assistant.refused("evaluate", env=CONNECT_FOUR, agents={"*": policy}),
            await assistant.refused("start_run", env=CONNECT_FOUR, agents={"player_1": policy}),
        ]:
            assert "--allow-programs" in text

    with_assistant(tmp_path / "home", ask)


REFUSED = {
    "no token": (401, {"Authorization": ""}),
    "a wrong token": (401, {"Authorization": "Bearer wrong"}),
    "a foreign Host, as after DNS rebinding": (421, {"Host": "evil.example"}),
    "a foreign Host with our port": (421, {"Host": "evil.example:8644"}),
    "a foreign Origin": (403, {"Origin": "http://evil.example"}),
    "a foreign Origin with our port": (403, {"Origin": "http://evil.example:8644"}),
    "no page's Origin": (403, {"Origin": "null"}),
}


@pytest.mark.parametrize("case", [None, *REFUSED])
def test_foreign_hosts_origins_and_tokens_are_refused_over_http(tmp_path, case):
    """Regression test for DNS rebinding (CVE-2025-66416)."""
    status, changed = (200, {}) if case is None else REFUSED[case]

    async def ask() -> None:
        async with local_api(tmp_path / "home", ServerSettings(limits=LIMITS, start_queued=False)) as api:
            server = create_mcp_server(api)
            app = guarded_app(server, TOKEN, allowed_hosts(), "0.0.0.0")  # the package itself checks loopback only
            transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
            async with (
                server.session_manager.run(),
                httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8644") as http,
            ):
                answer = await http.post(PATH, json=HELLO, headers={**HEADERS, **changed})
        assert answer.status_code == status, answer.text

    anyio.run(ask)


@pytest.mark.slow
def test_http_with_a_token_reaches_the_matches_of_a_running_server(tmp_path):
    home = tmp_path / "home"
    running = ServerProcess(home)
    order = [sys.executable, "-m", "mosaic", "mcp", "--http", "--port", "0", "--server", running.url]
    env = {**os.environ, "MOSAIC_HOME": str(home)}

    async def main(url: str) -> None:
        headers = {"Authorization": f"Bearer {read_token(home)}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(url, http_client=http)) as c,
        ):
            agents = {"player_1": "human", "*": "random"}
            position = await Assistant(c)("open_match", env="classic/tictactoe_v3", agents=agents)
        with running.client() as client:
            (row,) = client.send("GET", "/matches").json()
        assert row["match_id"] == position["match_id"]

    with subprocess.Popen(order, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            anyio.run(main, process.stdout.readline().split()[-1])
        finally:
            process.send_signal(signal.SIGINT)
            running.kill()
    assert process.returncode == 0


@pytest.mark.slow
def test_the_command_serves_stdio_and_starts_a_run_that_finishes(tmp_path):
    """Over a real pipe: what libraries print on import does not disturb the protocol."""
    env = {"MOSAIC_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    command = StdioServerParameters(command=sys.executable, args=["-m", "mosaic", "mcp"], env=env)

    async def main() -> None:
        async with Client(command) as client:
            assistant = Assistant(client)
            position = await assistant(
                "open_match", env="classic/tictactoe_v3", agents={"player_1": "human", "*": "random"}
            )
            assert len((await assistant("act", match_id=position["match_id"], move="0"))["moves"]) == 2
            result = await assistant("evaluate", env="classic/tictactoe_v3", agents={"*": "random"}, episodes=3)
            assert (result["state"], result["result"]["episodes"]) == ("finished", 3)
            part = toy(iterations=3)
            config = {"training": {"params": part["training"]["params"]}, "resources": part["resources"]}
            run = await assistant("start_run", env="gym/CartPole-v1", steps=30, worker="toy", config=config)
            await anyio.to_thread.run_sync(lambda: Trainer(tmp_path / "home").run(run["run_id"]).wait(60))
            assert (await assistant("watch_run", run=run["run_id"]))["state"] == "finished"

    anyio.run(main)
