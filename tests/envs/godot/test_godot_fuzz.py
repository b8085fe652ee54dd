"""Whatever a peer sends, Mosaic answers with an error that explains it, within a bound."""

import json
import socket
import struct
from contextlib import closing, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaic.envs.env import EnvFacts
from mosaic.envs.godot.connection import Connection
from mosaic.envs.godot.env import GodotEnv
from mosaic.envs.godot.game import Game, greet
from mosaic.envs.godot.messages import (
    LONGEST_MESSAGE,
    CallReply,
    GameError,
    GameInfo,
    ResetReply,
    StepReply,
    check_info,
    parse,
)
from mosaic.envs.godot.options import GodotOptions
from tests.envs.godot.fake_game import FakeGame, framed

NUMBERS = st.floats() | st.integers() | st.booleans()
JSON = st.recursive(
    st.none() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
quick = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def server():
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield listening


def connected(server, sent):
    """A connection whose peer has sent these bytes and nothing more."""
    peer = socket.create_connection(server.getsockname())
    here, _ = server.accept()
    with closing(peer):
        peer.setblocking(False)
        sent = sent[: peer.send(sent)] if sent else b""
        peer.shutdown(socket.SHUT_WR)
        yield Connection(here, None, 20.0, None)


def play(server, *sent):
    """Play with a peer that has sent these bytes: greeting, reset and a step."""
    for connection in connected(server, b"".join(sent)):
        with closing(connection):
            game = Game(connection, greet(connection))
            env = GodotEnv(game, EnvFacts(), GodotOptions())
            turn = env.reset(1)
            env.step({agent: env.action_spaces[agent].sample() for agent in turn.observations})
            assert len(connection._unread) <= sum(map(len, sent))


@quick
@given(st.binary(max_size=300))
def test_any_bytes(server, data):
    with pytest.raises(GameError):
        play(server, data)


@quick
@given(st.integers(0, 2**32 - 1), st.binary(max_size=50))
def test_any_length(server, size, data):
    with pytest.raises(GameError) as error:
        play(server, struct.pack("<I", size), data)
    if size > LONGEST_MESSAGE:
        assert f"A message of {size:,} bytes was announced" in str(error.value)


@quick
@given(JSON)
def test_any_json(server, message):
    with pytest.raises(GameError):
        play(server, framed(message))


def replies():
    game = FakeGame({})
    greeting = {"type": "env_info", **game.env_info()}
    first = game.reset(1)
    return [greeting, first, game.step([])]


REPLIES = replies()


def paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


PLACES = [(number, path) for number, reply in enumerate(REPLIES) for path in paths(reply) if path]


def changed(value, path, change):
    """The value with something else at this path; without it where `change` is None."""
    if not path:
        return change
    key, rest = path[0], path[1:]
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    kept = {
        k: changed(v, rest, change) if k == key else v for k, v in pairs if k != key or rest or change is not LEFT_OUT
    }
    return kept if isinstance(value, dict) else list(kept.values())


LEFT_OUT = object()


@quick
@given(st.sampled_from(PLACES), JSON | st.just(LEFT_OUT))
def test_any_change_of_a_reply(server, place, change):
    """One value of a correct dialogue is left out or something else: it is played, or refused with a reason."""
    number, path = place
    dialogue = [changed(reply, path, change) if n == number else reply for n, reply in enumerate(REPLIES)]
    with suppress(GameError):
        play(server, *map(framed, dialogue))


def test_the_unchanged_dialogue_is_played(server):
    play(server, *map(framed, REPLIES))


@quick
@given(st.sampled_from([GameInfo, ResetReply, StepReply, CallReply]), JSON | st.binary(max_size=100))
def test_parsing_any_payload(kind, payload):
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    with suppress(GameError):
        assert isinstance(parse(data, kind), kind)


def test_a_number_beyond_floats_is_refused():
    with pytest.raises(GameError, match="Number out of range"):
        parse(b'{"type": "step", "obs": [{}], "reward": [1e999], "done": [false]}', StepReply)


def test_deep_json_is_refused():
    with pytest.raises(GameError):
        parse(b'{"type":"call","returns":' + b"[" * 100_000, CallReply)


def test_many_agents_are_refused_before_spaces_are_made_for_them():
    info = parse(b'{"type":"env_info","n_agents":1000000000,"observation_space":{},"action_space":{}}', GameInfo)
    with pytest.raises(GameError, match="1000000000 agents"):
        check_info(info)
