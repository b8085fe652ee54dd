"""`mosaic.PolicyClient` and the policy `http://…`: the same games as at home, and every failure named."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

import mosaic
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.policies.controller import PolicyError, PolicyTimeoutError
from mosaic.policies.registry import load_policy
from mosaic.policies.serving.messages import CallError
from mosaic.server.auth.token import ensure_token
from mosaic.server.client.address import UnreachableError
from mosaic.server.client.http_policy import CircuitBreaker
from tests.ports import reserved_port
from tests.server.policy.policy_kit import FIRST, TOKEN, serving, zeros

GAME = "classic/tictactoe_v3"


@pytest.mark.parametrize("transport", ["websocket", "http"])
def test_a_message_that_is_refused_as_a_whole_says_why(transport):
    told = pytest.raises(CallError, match="The message has 1025 calls; at most 1024 are allowed")
    with serving() as server, server.client(transport=transport) as client, told:
        client.call_many([("get_action", {"episode_id": "e"})] * 1025)


@pytest.mark.parametrize("transport", ["websocket", "http"])
def test_an_episode_of_rllibs_calls(transport):
    with serving() as server, server.client(transport=transport) as client:
        assert client.describe()["env"] == "gym/CartPole-v1"
        episode = client.start_episode("mine", training_enabled=False)
        assert episode == "mine"
        assert [client.get_action(episode, zeros(4)) for _ in range(3)] == [1, 0, 1]
        client.log_action(episode, zeros(4), 0)
        client.log_returns(episode, 1.0, {"why": "it stood"})
        other = client.start_episode()
        assert client.get_action([episode, other], {episode: zeros(4), other: [0, 0, 0, 0]}) == {episode: 0, other: 1}
        with pytest.raises(CallError, match=r"observation\.agent_0: an array of shape \(3,\)") as caught:
            client.get_action(episode, zeros(3))
        assert (caught.value.agent, caught.value.expected) == ("agent_0", "Box(4) float32")
        assert caught.value.sent == "an array of shape (3,) and float32"
        client.end_episode(episode, zeros(4), truncated=True)
        with pytest.raises(mosaic.EpisodeLostError, match="is over: it has ended") as lost:
            client.end_episode(episode, zeros(4))
        assert lost.value.retry == "episode"
    with pytest.raises(InputError, match=r"To act here, use mosaic\.load_policy"):
        mosaic.PolicyClient("http://127.0.0.1:1", "local")


@pytest.mark.parametrize("transport", ["websocket", "http"])
def test_a_server_that_was_started_again_has_lost_its_episodes_and_clients_are_told(transport):
    with reserved_port() as port:
        with serving(port=port) as server:
            client = server.client(transport=transport, timeout_s=20)
            episode = client.start_episode()
            assert client.get_action(episode, zeros(4)) == 1
        with pytest.raises((UnreachableError, mosaic.EpisodeLostError), match=r"(cannot be reached|was lost)"):
            client.get_action(episode, zeros(4))
        with pytest.raises(UnreachableError, match="cannot be reached"):
            client.get_action(episode, zeros(4))
        with serving(port=port):
            with pytest.raises(mosaic.EpisodeLostError, match="begun before the server was started again") as caught:
                client.get_action(episode, zeros(4))
            assert (caught.value.code, caught.value.retry) == ("episode_lost", "episode")
            fresh = client.start_episode()
            assert client.get_action(fresh, zeros(4)) == 1
            client.close()


def test_a_remote_policy_plays_the_same_games_as_at_home(monkeypatch):
    monkeypatch.setenv("MOSAIC_TOKEN_127_0_0_1", TOKEN)
    with serving(FIRST, GAME) as server:
        far = mosaic.evaluate(GAME, {"player_1": server.url, "player_2": "random"}, episodes=3, seed=5)
    near = mosaic.evaluate(GAME, {"player_1": FIRST, "player_2": "random"}, episodes=3, seed=5)
    assert [each.returns for each in far.episode_results] == [each.returns for each in near.episode_results]
    assert not far.reproducible


def test_all_agents_end_at_once_by_rllibs_key():
    with serving("random", GAME) as server, server.client() as client:
        board = {"player_1": np.zeros((3, 3, 2), np.int8)}
        episode = client.start_episode()
        client.get_action(episode, board)
        client.log_returns(episode, {"player_1": 1, "player_2": -1}, None, {"player_1": False, "__all__": True})
        for agent in ("player_1", "player_2"):
            with pytest.raises(CallError, match=f"The agent '{agent}' has ended"):
                client.log_returns(episode, {agent: 1})
        client.end_episode(episode)
        other = client.start_episode()
        with pytest.raises(CallError, match=r"observation\.player_2: it is missing; what an agent sees"):
            client.log_returns(other, {}, None, {"player_1": True}, truncated={"__all__": True})
        client.log_returns(other, {}, None, {"player_1": True, "__all__": False}, truncated={"__all__": False})
        client.log_returns(
            other, {"player_2": 1}, truncated={"__all__": True}, observation={"player_2": board["player_1"]}
        )
        client.end_episode(other)


def test_a_server_for_another_env_refuses(monkeypatch):
    monkeypatch.setenv("MOSAIC_TOKEN_127_0_0_1", TOKEN)
    with serving() as server, pytest.raises(MosaicError, match=r"spaces\.agent_0\.observation: .*gym/CartPole-v1"):
        mosaic.evaluate("gym/Acrobot-v1", {"*": server.url}, episodes=1)


class Asking(BaseHTTPRequestHandler):
    """A server that asks everyone for a token."""

    protocol_version = "HTTP/1.1"
    given: list[str | None]

    def do_GET(self) -> None:
        type(self).given.append(self.headers.get("Authorization"))
        self.send_response(401)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def test_a_server_that_asks_for_a_token_does_not_get_that_of_another(spec, monkeypatch, tmp_path):
    monkeypatch.setenv("MOSAIC_TOKEN", "of-another-server")
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    own, kind = ensure_token(tmp_path), type("Asked", (Asking,), {"given": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", server.server_address)])
        for host in ("stranger.example", "127.0.0.1"):
            policy = load_policy(f"http://{host}:{server.server_address[1]}", spec, ("player_1",))
            with pytest.raises(MosaicError, match=r"requires a token: set MOSAIC_TOKEN_STRANGER_EXAMPLE|status 401"):
                policy.begin(("player_1",), 0)
            policy.close()
        server.shutdown()
    assert kind.given == [None, None, f"Bearer {own}"]


class Program(BaseHTTPRequestHandler):
    """A program that carries out the calls by itself, without tokens, arrays or streams."""

    protocol_version = "HTTP/1.1"
    answer: Any
    calls: list[dict[str, Any]]
    wait = threading.Event()

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == f"/bots/alice/policy/{call['call']}"
        assert "Authorization" not in self.headers
        type(self).calls.append(call)
        reply = {"episode_id": "e", "remembers": False} if call["call"] == "start_episode" else {}
        if call["call"] == "get_action":
            reply = type(self).answer
            if reply is None:
                self.wait.wait(10)
                return
        body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def program(reply: Any = None) -> Iterator[tuple[str, type[Program]]]:
    kind = type("Answering", (Program,), {"answer": reply, "calls": [], "wait": threading.Event()})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/bots/alice", kind
        finally:
            kind.wait.set()
            server.shutdown()


@pytest.fixture
def spec():
    env = make_env(GAME)
    yield env.spec
    env.close()


def a_turn(taken: int = 0) -> Turn:
    seen, mask = {"player_1": np.zeros((3, 3, 2), np.int8)}, np.arange(9) >= taken
    return Turn(seen, {"player_1": mask}, {"player_1": 0.5}, {}, {}, {}, {"player_1": {"n": 1, "o": object()}})


def test_any_program_that_carries_out_the_calls_is_a_policy(spec):
    with program({"action": {"player_1": 4}}) as (url, kind):
        policy = load_policy(url, spec, ("player_1",))
        policy.begin(("player_1",), 11)
        assert policy.act(a_turn(2)) == {"player_1": 4}
        policy.forget("player_1")
        policy.close()
    start, question, end = kind.calls
    assert (start["env"], start["agents"], start["seed"]) == (GAME, ["player_1"], 11)
    assert start["spaces"]["player_1"]["action"] == {"space": "Discrete", "n": 9, "start": 0}
    assert question["action_mask"] == {"player_1": [False] * 2 + [True] * 7}
    assert (question["reward"], question["info"]) == ({"player_1": 0.5}, {"player_1": {"n": 1}})
    assert end == {"call": "end_episode", "episode_id": "e"}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"the centre", "cannot be read"),
        ([4], "where an object belongs"),
        ({}, "where an action for player_1 belongs"),
        ({"action": 4}, "where an action for player_1 belongs"),
        ({"action": {"player_1": 9}}, r"action\.player_1: 9, outside 0\.\.8"),
        ({"action": {"player_1": 0}}, r"0, which is illegal here \(legal: 2, 3"),
        ({"action": {"player_1": "x"}}, "where an integer belongs"),
        ({"error": "out of ideas"}, "out of ideas"),
    ],
)
def test_a_reply_that_is_not_an_action_names_policy_and_address(spec, answer, text):
    with program(answer) as (url, _):
        policy = load_policy(f"{url},failures=99", spec, ("player_1",))
        policy.begin(("player_1",), 0)
        with pytest.raises(PolicyError, match=text) as caught:
            policy.act(a_turn(2))
        assert str(caught.value).startswith(f"'{url},failures=99' at {url}: ")
        policy.close()


def test_a_program_that_does_not_reply_is_overdue_and_soon_not_asked_any_more(spec):
    with program() as (url, kind):
        policy = load_policy(f"{url},failures=2,pause_s=60", spec, ("player_1",), time_limit_s=0.2)
        for _ in range(2):
            kind.wait.clear()
            policy.begin(("player_1",), 0)
            with pytest.raises(PolicyTimeoutError, match=r"did not reply within 0\.2 s"):
                policy.act(a_turn())
            with pytest.raises(PolicyError, match="no longer has this episode"):
                policy.act(a_turn())
        before = len(kind.calls)
        with pytest.raises(PolicyError, match=r"no attempt is made for another \d+\.\d s after 2 failures in a row"):
            policy.begin(("player_1",), 0)
        other = load_policy(f"{url},failures=2,pause_s=60", spec, ("player_1",))
        with pytest.raises(PolicyError, match="no attempt is made"):
            other.begin(("player_1",), 0)
        assert len(kind.calls) == before
        policy.close()
        other.close()


def test_a_breaker_counts_failures_in_a_row_and_tries_again():
    now = [0.0]
    breaker = CircuitBreaker(2, 10.0, lambda: now[0])
    breaker.fail("a")
    breaker.succeed()
    breaker.fail("b")
    breaker.check()
    breaker.fail("c")
    with pytest.raises(PolicyError, match=r"another 10\.0 s after 2 failures in a row, the last of which was: c"):
        breaker.check()
    now[0] = 10.0
    breaker.check()
    breaker.fail("d")  # the one attempt after the pause
    with pytest.raises(PolicyError, match="3 failures in a row"):
        breaker.check()


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("http://me:secret@h:1", "Put the token into the variable MOSAIC_TOKEN"),
        ("http://h:1/?token=secret", "Put the token into the variable MOSAIC_TOKEN"),
        ("http://h:1,token=secret", "there is no option 'token'"),
        ("http://", "is not the address of a server"),
        ("http:h:1", "is not the address of a server"),
        ("https://h:99999", "is not the address of a server"),
        ("http://h:1,failures=0", "failures: it should be at least 1"),
    ],
)
def test_references_that_are_refused_and_do_not_repeat_a_secret(spec, reference, text):
    with pytest.raises(InputError, match=text) as caught:
        load_policy(reference, spec, ("player_1",))
    if "option" not in text:
        assert "secret" not in str(caught.value)


def test_a_server_that_cannot_be_reached_is_named(spec):
    policy = load_policy("http://127.0.0.1:1,failures=99", spec, ("player_1",))
    with pytest.raises(PolicyError, match=r"at http://127\.0\.0\.1:1: .*cannot be reached"):
        policy.begin(("player_1",), 0)
    policy.close()
