"""The game of the editor: waiting for Play, sharing it within a process and handing it over to another one."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import closing

import pytest

from mosaic.core.errors import InputError, notices_to
from mosaic.envs.catalog import make_env
from mosaic.envs.contract.check import check_env
from mosaic.envs.godot.messages import GameError
from tests.envs.env_cases import turns

OTHER_PROCESS = """
import sys
from mosaic.envs.catalog import make_env
env = make_env("godot/debug", port=int(sys.argv[1]), wait_s=0.1)
print(len(env.reset(1).observations), flush=True)
sys.stdin.read()
env.close()
"""


def start_other(port, run=""):
    environ = {**os.environ, "MOSAIC_RUN": run}
    command = [sys.executable, "-c", OTHER_PROCESS, str(port)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=environ, **pipes)


def test_it_says_that_it_waits_for_the_play_button(person):
    with closing(make_env("godot/debug", port=person.port)) as env:
        assert list(turns(env, 1, 100))[-1].over
    assert person.notices == [
        f"Waiting for the game on 127.0.0.1:{person.port}: press Play in the Godot editor (Ctrl-C ends)."
    ]


def test_the_contract_with_one_press_of_the_button(person):
    report = check_env(lambda: make_env("godot/debug", port=person.port))
    assert report.episodes_ended == 2
    assert len(person.games) == 1


def test_the_wait_can_have_a_bound(person):
    said = []
    with notices_to(said.append), pytest.raises(GameError, match=r"No game connected to port \d+ within 0.05 s"):
        make_env("godot/debug", port=person.port, wait_s=0.05)
    assert [notice[:28] for notice in said] == ["Waiting for at most 0.05 s f"]


def test_an_episode_that_another_env_interrupts_is_truncated(person):
    one, other = (make_env("godot/debug", port=person.port) for _ in range(2))
    with closing(one), closing(other):
        before = one.reset(1)
        other.reset(2)
        actions = {agent: one.action_spaces[agent].sample() for agent in before.observations}
        turn = one.step(actions)
        assert turn.over
        assert set(turn.truncated.values()) == {True}
        assert set(turn.terminated.values()) == {False}
        assert turn.final_observations.keys() == before.observations.keys()
        assert one.reset(1).observations.keys() == before.observations.keys()
        assert other.step(actions).over


def test_a_game_that_was_stopped_is_awaited_again(person):
    person.arguments = {"fault": "leave", "after": "1"}
    with closing(make_env("godot/debug", port=person.port)) as env:
        turn = env.reset(1)
        with pytest.raises(GameError, match=r"closed the connection .* Was it stopped in the editor"):
            env.step({agent: env.action_spaces[agent].sample() for agent in turn.observations})
    person.arguments = {}
    with closing(make_env("godot/debug", port=person.port)) as env:
        assert list(turns(env, 1, 100))[-1].over
    assert len(person.games) == 2


def test_another_process_takes_over_a_game_that_is_not_used(person):
    make_env("godot/debug", port=person.port).close()
    with start_other(person.port) as process:
        assert process.stdout.readline() == "3\n"
        with pytest.raises(InputError, match=rf"being played by another process of Mosaic \(pid {process.pid}\)"):
            make_env("godot/debug", port=person.port).reset(1)
        process.communicate("")
    assert process.returncode == 0
    assert len(person.games) == 1


def test_a_game_in_use_is_for_its_own_run_only(person, monkeypatch):
    monkeypatch.setenv("MOSAIC_RUN", "mine")
    with closing(make_env("godot/debug", port=person.port)) as env:
        turn = env.reset(1)
        stranger = start_other(person.port, "another")
        said = stranger.communicate("")[1]
        assert stranger.returncode == 1
        assert "is being played by another process of Mosaic" in said
        actions = {agent: env.action_spaces[agent].sample() for agent in turn.observations}
        turn = env.step(actions)
        assert not turn.over
        with start_other(person.port, "mine") as relative:
            assert relative.stdout.readline() == "3\n"
            assert env.step(actions).over  # interrupted
            assert env.reset(1).observations  # and taken back, between two steps of the other process
            relative.communicate("")
        assert relative.returncode == 0
        assert list(turns(env, 1, 100))[-1].over
    assert len(person.games) == 1


@pytest.mark.parametrize("option", ["seed", "action_repeat", "speedup", "show_window", "args", "engine"])
def test_what_only_a_started_game_takes_is_refused(option):
    value = {"args": ["--x"], "engine": "godot4", "show_window": True}.get(option, 3)
    with pytest.raises(InputError, match=f"the editor starts the game, so Mosaic cannot set '{option}'"):
        make_env("godot/debug", **{option: value})


def test_a_port_in_use_is_named_with_the_next(person):
    with closing(socket.create_server(("127.0.0.1", person.port))), pytest.raises(InputError) as error:
        make_env("godot/debug", port=person.port)
    assert str(error.value) == (
        f"Mosaic cannot wait for a game on 127.0.0.1:{person.port}: Address already in use. Another program, perhaps "
        "another run of Mosaic, is probably listening there. End it, or choose another port: "
        f"--set environment.options.port={person.port + 1} (and start the game with --port={person.port + 1})."
    )


def test_every_message_is_logged(person, tmp_path):
    with closing(make_env("godot/debug", port=person.port, log=str(tmp_path / "log"))) as env:
        env.reset(4)
    lines = [line.split(" ", 3) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(way, json.loads(message)["type"]) for _, _, way, message in lines] == [
        (">", "handshake"),
        (">", "env_info"),
        ("<", "env_info"),
        (">", "reset"),
        ("<", "reset"),
    ]
    assert all(abs(float(at) - time.time()) < 3600 and int(port) == person.port for at, port, _, _ in lines)
