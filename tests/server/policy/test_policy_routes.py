"""Routes of the policy server against the running server, with hostile input: each refusal is typed and harmless."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from mosaic.policies.serving.messages import BINARY_TYPE, CALLS, encode, read_document
from mosaic.policies.serving.sessions import EpisodeLimits
from mosaic.server.routes.policy import LARGEST_CALL
from tests.server.policy.policy_kit import CARTPOLE, COUNTING, TOKEN, Serving, serving, serving_any, zeros

BEARER = {"Authorization": f"Bearer {TOKEN}"}
NAMED = {"policy": COUNTING, "env": CARTPOLE}


@pytest.fixture(scope="module", params=["policy-server", "serve"])
def server(request, tmp_path_factory) -> Iterator[Serving]:
    """Both servers that have these routes; at `mosaic serve` an episode must name policy and env."""
    home = tmp_path_factory.mktemp("server") / "home"
    with serving() if request.param == "policy-server" else serving_any(home, allow_programs=True) as made:
        yield made


@pytest.fixture(scope="module")
def http(server: Serving) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=BEARER, trust_env=False) as client:
        yield client


@pytest.fixture
def stream(server: Serving) -> Iterator[ClientConnection]:
    with connect(f"ws{server.url[4:]}/policy/stream", additional_headers=BEARER, compression=None, max_size=None) as it:
        yield it


def begin(http: httpx.Client, **fields: Any) -> str:
    return str(http.post("/policy/start_episode", json={**NAMED, **fields}).json()["episode_id"])


def test_the_server_describes_itself():
    with serving() as server, httpx.Client(headers=BEARER) as http:
        found = http.get(f"{server.url}/policy").json()
    assert (found["protocol"], found["env"], found["agents"]) == (1, "gym/CartPole-v1", ["agent_0"])
    assert found["spaces"]["agent_0"]["action"] == {"space": "Discrete", "n": 2, "start": 0}
    assert found["encodings"] == ["application/json", "application/msgpack"]


def test_the_document_defines_every_schema_that_it_names(http):
    document = http.get("/openapi.json").json()
    names = {part for part in json.dumps(document).split('"') if part.startswith("#/components/schemas/")}
    assert "#/components/schemas/Complaint" in names
    assert {name.rpartition("/")[2] for name in names} <= set(document["components"]["schemas"])


def test_an_episode_over_http_in_json_and_in_binary(http):
    episode = begin(http)
    question = {"episode_id": episode, "observation": [0.1, 0, 0, 0]}
    assert http.post("/policy/get_action", json=question).json() == {"action": 1}
    binary = encode({"episode_id": episode, "observation": zeros(4), "reward": 1.0}, binary=True)
    reply = http.post("/policy/get_action", content=binary, headers={"Content-Type": BINARY_TYPE})
    assert reply.headers["content-type"] == BINARY_TYPE
    assert read_document(reply.content, binary=True) == {"action": 0}
    assert http.post("/policy/log_returns", json={"episode_id": episode, "reward": 1}).json() == {}
    log = {"episode_id": episode, "observation": [0, 0, 0, 0], "action": 1}
    assert http.post("/policy/log_action", json=log).json() == {}
    assert http.post("/policy/forget", json={"episode_id": episode, "agent": "agent_0"}).json() == {}
    assert http.post("/policy/get_action", json=question).json() == {"action": 1}
    assert http.post("/policy/end_episode", json={"episode_id": episode, "observation": [0, 0, 0, 0]}).json() == {}
    again = http.post("/policy/end_episode", json={"episode_id": episode})
    assert (again.status_code, again.json()["code"], again.json()["retry"]) == (410, "episode_lost", "episode")


def test_many_episodes_in_one_request(http):
    episodes = [begin(http) for _ in range(5)]
    calls = [{"episode_id": each, "observation": [0, 0, 0, 0]} for each in episodes]
    assert http.post("/policy/get_action", json=calls).json() == [{"action": 1}] * 5
    mixed = [{"call": "get_action", **calls[0]}, {"call": "end_episode", "episode_id": episodes[0]}]
    assert http.post("/policy/calls", json=mixed).json() == [{"action": 0}, {}]
    wrong = [*calls[1:3], {"episode_id": "nowhere", "observation": [0, 0, 0, 0]}]
    *fine, unknown = http.post("/policy/get_action", json=wrong).json()
    assert fine == [{"action": 0}] * 2
    assert unknown["code"] == "unknown_episode"


def test_a_stream_replies_in_the_form_of_the_message(stream):
    stream.send(json.dumps({"call": "start_episode", "id": 7, **NAMED}))
    reply = json.loads(stream.recv())
    assert reply["id"] == 7
    question = {"call": "get_action", "episode_id": reply["episode_id"], "observation": zeros(4)}
    stream.send(encode(question, binary=True))
    assert read_document(stream.recv(), binary=True) == {"action": 1}
    stream.send(encode([question, question], binary=True))
    assert read_document(stream.recv(), binary=True) == [{"action": 0}, {"action": 1}]
    stream.send("nonsense")
    assert json.loads(stream.recv())["code"] == "bad_message"
    stream.send(encode(question, binary=True)[:-5])
    assert read_document(stream.recv(), binary=True)["code"] == "bad_message"
    stream.send(encode(question, binary=True))
    assert read_document(stream.recv(), binary=True) == {"action": 0}


def test_messages_that_are_sent_ahead_are_answered_in_their_order(stream):
    stream.send(json.dumps({"call": "start_episode", **NAMED}))
    episode = json.loads(stream.recv())["episode_id"]
    for number in range(100):
        stream.send(json.dumps({"call": "get_action", "episode_id": episode, "id": number, **OBSERVED}))
    replies = [json.loads(stream.recv()) for _ in range(100)]
    assert replies == [{"action": (number + 1) % 2, "id": number} for number in range(100)]


def test_episodes_of_a_connection_end_with_it(server, http):
    with server.client() as client:
        episode = client.start_episode(**NAMED)
        client.get_action(episode, zeros(4))
    reply = http.post("/policy/get_action", json={"episode_id": episode, "observation": [0, 0, 0, 0]})
    assert (reply.status_code, reply.json()["error"]) == (
        410,
        f"The episode '{episode}' is over: its connection was closed. Start another one.",
    )


OBSERVED = {"observation": [0, 0, 0, 0]}
WRONG: dict[str, tuple[int, str, dict[str, Any]]] = {
    "shape": (422, "wrong_value", {"observation": [0, 0, 0]}),
    "text": (422, "wrong_value", {"observation": ["a", "b", "c", "d"]}),
    "ragged": (422, "wrong_value", {"observation": [0, [0, 1], 0, 0]}),
    "NaN": (422, "wrong_value", {"observation": ["NaN", 0, 0, 0]}),
    "null": (422, "wrong_value", {"observation": None}),
    "object": (422, "wrong_value", {"observation": {"agent_0": [0, 0, 0, 0]}}),
    "mask of another size": (422, "wrong_value", {**OBSERVED, "action_mask": [1, 0, 1]}),
    "mask without an action": (422, "wrong_value", {**OBSERVED, "action_mask": [0, 0]}),
    "infinite reward": (422, "wrong_value", {**OBSERVED, "reward": "Infinity"}),
    "unknown field": (400, "bad_message", {**OBSERVED, "observatoin": 1}),
    "episode that is not text": (400, "bad_message", {"episode_id": 3}),
    "unknown episode": (404, "unknown_episode", {**OBSERVED, "episode_id": "nowhere"}),
    "episode of an earlier server": (410, "episode_lost", {**OBSERVED, "episode_id": "00000000-1"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused_with_what_was_sent_and_expected(http, name):
    status, code, fields = WRONG[name]
    episode = begin(http)
    reply = http.post("/policy/get_action", json={"episode_id": episode, **fields})
    assert (reply.status_code, reply.json()["code"]) == (status, code), reply.text
    if "observation" in fields and status == 422 and fields["observation"] and "reward" not in fields:
        assert reply.json()["agent"] == "agent_0"
        assert reply.json()["expected"]
        assert reply.json()["sent"]
    fine = http.post("/policy/get_action", json={"episode_id": episode, **OBSERVED})
    assert fine.json() == {"action": 1}


@pytest.mark.parametrize("array", [zeros(3), zeros(2, 2), np.full(4, np.nan, np.float32), np.zeros(0)])
def test_wrong_arrays_are_refused(http, array):
    body = encode({"episode_id": begin(http), "observation": array}, binary=True)
    reply = http.post("/policy/get_action", content=body, headers={"Content-Type": BINARY_TYPE})
    assert (reply.status_code, read_document(reply.content, binary=True)["agent"]) == (422, "agent_0")


BODIES = {
    "nothing": b"",
    "text": b"hello",
    "NaN in JSON": b'{"episode_id": "a", "observation": NaN}',
    "depth": b'{"episode_id": "a", "observation": ' + b"[" * 50_000,
    "a number": b"3",
    "a pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07builtins\x94.",
    "an unknown extension": msgspec.msgpack.encode({"episode_id": "a", "observation": msgspec.msgpack.Ext(9, b"x")}),
    "too many calls": json.dumps([{"episode_id": "a"}] * 1025).encode(),
}


@pytest.mark.parametrize("route", [*CALLS, "calls"])
@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_are_not_calls_are_refused_by_every_route(http, route, name):
    for kind in ("application/json", BINARY_TYPE):
        reply = http.post(f"/policy/{route}", content=BODIES[name], headers={"Content-Type": kind})
        assert reply.status_code == 400
        assert read_document(reply.content, binary=kind == BINARY_TYPE)["code"] == "bad_message"


HOSTILE = {
    "no token": (401, {"Authorization": ""}),
    "wrong token": (401, {"Authorization": "Bearer wrong"}),
    "foreign Host": (421, {"Host": "evil.example"}),
    "foreign Origin": (403, {"Origin": "http://evil.example"}),
    "Origin null": (403, {"Origin": "null"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_requests_are_refused_by_every_route(server, http, name):
    status, headers = HOSTILE[name]
    for method, path in [("GET", "/policy"), *(("POST", f"/policy/{route}") for route in [*CALLS, "calls", "stream"])]:
        reply = http.request(method, path, headers=headers, json={})
        assert (reply.status_code, list(reply.json())) == (status, ["error"])
    with (
        pytest.raises(InvalidStatus) as caught,
        connect(f"ws{server.url[4:]}/policy/stream", additional_headers={**BEARER, **headers}, compression=None),
    ):
        pass
    two_hosts = 400  # the client library adds its own
    assert caught.value.response.status_code == (two_hosts if "Host" in headers else status)


def test_huge_bodies_are_refused_before_they_are_read(server, http, stream):
    head = f"POST /policy/get_action HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 20) as raw:
        raw.sendall(f"{head}Content-Length: {LARGEST_CALL + 1}\r\n\r\n".encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 413")
    with suppress(ConnectionClosed):  # it may close before all has been sent
        stream.send(bytes(LARGEST_CALL + 1))
    with pytest.raises(ConnectionClosed) as caught:
        stream.recv()
    assert caught.value.rcvd is None or caught.value.rcvd.code == 1009  # it is lost if data was still on its way
    assert http.get("/policy").status_code == 200


def test_starts_that_are_refused(http):
    for fields, text in [
        ({"agents": ["b"]}, "There is no agent 'b'. Known: agent_0."),
        ({"agents": []}, "agents: the policy needs an agent to act for."),
        ({"protocol": 9}, "This server speaks version 1 of the protocol, not 9."),
    ]:
        reply = http.post("/policy/start_episode", json={**NAMED, **fields})
        assert 400 <= reply.status_code < 500
        assert reply.json()["error"].startswith(text)
    own = begin(http, episode_id="mine")
    taken = http.post("/policy/start_episode", json={**NAMED, "episode_id": own})
    assert (taken.status_code, taken.json()["code"]) == (409, "episode_exists")


def test_a_server_of_one_policy_plays_no_other():
    with serving() as server, httpx.Client(base_url=server.url, headers=BEARER) as http:
        other = http.post("/policy/start_episode", json={"policy": "random"})
        assert (other.status_code, other.json()["error"][:28]) == (404, "This server plays 'python:te")
        elsewhere = http.post("/policy/start_episode", json={"env": "gym/Acrobot-v1"}).json()
        assert elsewhere["error"].startswith("env: 'gym/Acrobot-v1', but this policy plays in gym/CartPole-v1")


def test_limits_of_episodes():
    with serving(limits=EpisodeLimits(episodes=3, per_client=2)) as server, httpx.Client(headers=BEARER) as http:
        http.base_url = server.url
        begin(http), begin(http)
        full = http.post("/policy/start_episode", json={})
        assert (full.status_code, full.json()["retry"]) == (429, "request")


def test_several_agents_are_objects_by_agent():
    with serving("random", "classic/tictactoe_v3") as server, server.client() as client:
        episode = client.start_episode(agents=["player_1"], seed=3)
        board = np.zeros((3, 3, 2), np.int8)
        mask = np.arange(9) == 4
        seen = {"player_1": {"observation": board, "action_mask": mask.astype(np.int8)}}
        assert client.get_action(episode, seen) == {"player_1": 4}
        assert client.get_action(episode, {"player_1": board}, action_mask={"player_1": mask}) == {"player_1": 4}
        client.log_action(episode, {"player_2": board}, {"player_2": 3})
        client.log_returns(episode, {"player_1": 1, "player_2": -1}, None, {"player_1": True, "__all__": False})
        with pytest.raises(Exception, match="The policy acts for player_1 in this episode, not for 'player_2'"):
            client.get_action(episode, {"player_2": board})
        with pytest.raises(Exception, match="The agent 'player_1' has ended"):
            client.get_action(episode, {"player_1": board})
        client.end_episode(episode)
