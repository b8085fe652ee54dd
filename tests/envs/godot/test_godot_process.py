"""Games that fail, and games that cannot be started: a reason within a bound, and nothing left running."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mosaic.core.errors import InputError
from mosaic.core.proc import started_at, wait_gone
from mosaic.core.system import open_process
from mosaic.envs.catalog import make_env
from mosaic.envs.godot.messages import GameError
from mosaic.envs.godot.options import GodotOptions
from mosaic.envs.godot.process import ENGINES, command_line, installed_engines


def play(env, steps=10):
    turn = env.reset(1)
    for _ in range(steps):
        if turn.over:
            turn = env.reset()
        turn = env.step({agent: env.action_spaces[agent].sample() for agent in turn.observations})


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "die",
            r"closed the connection instead of answering 'action'\. Its exit code is 7\. .*\| something went wrong",
        ),
        ("leave", r"closed the connection instead of answering 'action'\. Its exit code is 0\."),
        ("hang", r"did not answer to 'action' within 0\.3 s\. .*options\.timeout_s=300 It is still running\."),
        ("half", r"closed the connection instead of answering 'action'"),
        ("garbage", r"sent a message that is not JSON .*: 'hello'"),
        ("giant", r"A message of 542,393,671 bytes was announced"),
        ("nan", r"sent a number that is NaN or infinite: .*nan"),
        ("size", r"Agent 'runner_0' of godot/.*: its observation 'obs' has 2 numbers, and the game declared 3"),
        ("fewer", r"sent observations of 2 agents, and it said that it has 3"),
        ("reward", r"expected: step\): Expected `float`, got `str` - at `\$\.reward\[0\]`"),
    ],
)
def test_a_game_that_fails_while_it_is_played(started, fault, said):
    env = started(f"--fault={fault}")
    if fault == "hang":
        env.game.connection.configure(0.3, None)  # the start may take longer than that
    with pytest.raises(GameError, match=said):
        play(env)
    with pytest.raises(GameError, match=said):  # the same reason again, whatever is asked
        env.reset(1)
    pid = env.game.process.pid
    env.close()
    env.close()
    assert started_at(pid) is None


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("version", r"speaks version 1 of the protocol, and Mosaic speaks 0\.7"),
        ("no_spaces", r"does not fit version 0\.7 .*missing required field `observation_space`"),
        ("name", r"calls a policy '\.\./etc': a name begins with"),
        ("no_agents", r"has 0 agents; Mosaic plays 1 to 10,000"),
        ("no_start", r"ended before it connected\. Its exit code is 1\. .* the game cannot find its data"),
        ("no_connection", r"No game connected to port \d+ within 0\.2 s\. Does its scene have a Sync node"),
    ],
)
def test_a_game_that_does_not_begin(started, tmp_path, fault, said):
    pid_file = tmp_path / "pid"
    with pytest.raises(GameError, match=said):
        started(f"--fault={fault}", f"--say_pid={pid_file}", timeout_s=0.2 if fault == "no_connection" else 60)
    for pid in pid_file.read_text().split() if pid_file.exists() else ():
        assert started_at(int(pid)) is None


def test_a_game_that_prints_a_lot_is_not_blocked(started):
    play(started("--fault=shout", "--after=0"))


def test_a_game_gets_its_arguments(started, exported):
    env = started("--level=3", seed=5, action_repeat=4, speedup=2.5)
    port = env.game.connection._port
    assert env.game.process.command == [
        str(exported),
        f"--port={port}",
        "--env_seed=5",
        "--action_repeat=4",
        "--speedup=2.5",
        "--disable-render-loop",
        "--headless",
        "--level=3",
    ]


def seed_of(env):
    return [arg for arg in env.game.process.command if "env_seed" in arg]


def test_games_have_different_seeds(started):
    assert len({seed_of(started())[0] for _ in range(3)}) == 3


def test_games_in_parallel_count_on_from_a_given_seed(started, monkeypatch):
    monkeypatch.setenv("MOSAIC_RUN", "run-of-this-test")
    games = [started(seed=5) for _ in range(3)]
    assert [seed_of(game) for game in games] == [["--env_seed=5"], ["--env_seed=6"], ["--env_seed=7"]]
    games[1].close()
    assert seed_of(started(seed=5)) == ["--env_seed=6"]  # the lowest that is free again
    here = "from mosaic.envs.godot.game import SeedClaim; print(SeedClaim(5).value)"
    for run, value in (("run-of-this-test", 8), ("another", 5)):  # of another process
        said = subprocess.run([sys.executable, "-c", here], env={**os.environ, "MOSAIC_RUN": run}, capture_output=True)
        assert int(said.stdout) == value


def test_every_game_gets_the_seed_among_its_arguments(started):
    assert [seed_of(started("--env_seed=9")) for _ in range(2)] == [["--env_seed=9"]] * 2
    with pytest.raises(InputError, match=r"has seed=5 and --env_seed= in args. Leave one of them out"):
        started("--env_seed=9", seed=5)


def test_a_started_game_without_a_speed_comes_with_advice(started):
    assert "--set environment.options.speedup=20" in started().spec.facts.advice
    assert started(speedup=2).spec.facts.advice == ""
    assert started("--speedup=2").spec.facts.advice == ""


def test_games_in_parallel_take_the_next_free_port(started):
    first = started()
    port = first.game.connection._port
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        asked = taken.getsockname()[1]
        assert started(port=asked).game.connection._port > asked
    assert port != asked


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_game_ends_with_the_process_that_started_it(exported, number):
    code = (
        "from mosaic.envs.catalog import make_env\n"
        f"env = make_env('godot/{exported}')\n"
        "print(env.game.process.pid, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        game = open_process(int(process.stdout.readline()))
        process.send_signal(number)
        assert wait_gone(game, 20)
        os.close(game)
        process.communicate()


def write(path, text="#!/bin/sh\n", mode=0o755):
    path.write_text(text)
    path.chmod(mode)
    return path


def test_games_that_cannot_be_started(tmp_path):
    def said(path, **options):
        with pytest.raises(InputError) as error:
            make_env(f"godot/{path}", **options)
        return str(error.value)

    game = write(tmp_path / "race.x86_64", mode=0o644)
    assert said(game) == f"{game} is not executable. Type: chmod +x '{game}'"
    assert said(tmp_path / "rice.x86_64") == (
        f"There is no game {tmp_path}/rice.x86_64. Did you mean godot/{game}? "
        "For a game in the editor, type godot/debug."
    )
    if sys.platform == "linux":
        assert "is not a program of this system: export the game for Linux" in said(write(tmp_path / "a.exe", "MZ"))
    assert "is a folder without project.godot" in said(tmp_path)
    assert "There is no engine 'godot9' that can be run" in said(write(tmp_path / "a.pck"), engine="godot9")
    assert "is a program, which needs no engine" in said(write(tmp_path / "ok.x86_64"), engine="godot4")
    assert "There is no option 'speed_up'. Did you mean 'speedup'?" in said(game, speed_up=3).replace("there", "There")
    assert "port: it should be at most 65535" in said(game, port=99_999)
    assert "cannot be written to /no/such/folder" in said(write(tmp_path / "fine.sh", SLEEP), log="/no/such/folder/log")
    assert "has the api_type 'parallel', not 'aec'" in refused_api(game)


SLEEP = (
    f"#!{sys.executable}\nimport socket, sys\nsocket.create_connection(('127.0.0.1', int(sys.argv[1][7:]))).recv(9)\n"
)


def refused_api(game):
    from mosaic.config.sections import EnvironmentConfig

    with pytest.raises(InputError) as error:
        make_env(EnvironmentConfig(env_id=f"godot/{game}", api_type="aec"))
    return str(error.value)


def test_a_game_exported_for_macos_is_a_folder(tmp_path):
    bundle = tmp_path / "my race.app"
    (bundle / "Contents").mkdir(parents=True)
    with pytest.raises(InputError, match=r"has 0 programs in Contents/MacOS, .* Type the path of the program: godot/"):
        command_line(bundle, GodotOptions(), 11008, 1)
    (bundle / "Contents" / "MacOS").mkdir()
    only = write(bundle / "Contents" / "MacOS" / "race")
    assert command_line(bundle, GodotOptions(), 11008, 1)[:2] == [str(only), "--port=11008"]
    named = write(bundle / "Contents" / "MacOS" / "my race")
    assert command_line(bundle, GodotOptions(), 11008, 1)[0] == str(named)


def test_a_relative_path_is_one_from_here_or_from_the_project(tmp_path, monkeypatch, exported):
    (tmp_path / "mosaic.toml").touch()
    (tmp_path / "my games").mkdir()
    (tmp_path / "my games" / "fake.x86_64").symlink_to(exported)
    below = tmp_path / "scenes" / "level"
    below.mkdir(parents=True)
    for folder, path in (
        (tmp_path, "my games/fake.x86_64"),
        (below, "my games/fake.x86_64"),
        (below, "../../my games/fake.x86_64"),
    ):
        monkeypatch.chdir(folder)
        with closing(make_env(f"godot/{path}", timeout_s=20)) as env:
            assert env.spec.facts.config.env_id == str(tmp_path / "my games" / "fake.x86_64")


@pytest.mark.parametrize(("config_version", "engine"), [(4, "godot3-server"), (5, "godot4")])
def test_a_project_runs_in_the_engine_of_its_version(tmp_path, monkeypatch, config_version, engine):
    monkeypatch.setattr("mosaic.envs.godot.process.ENGINES", {key: names[:3] for key, names in ENGINES.items()})
    for name in {*ENGINES[4], *ENGINES[5]}:
        write(tmp_path / Path(name).name)
    monkeypatch.setenv("PATH", str(tmp_path))
    project = tmp_path / "my game"
    project.mkdir()
    write(project / "project.godot", f"; Engine\nconfig_version={config_version}\n")
    command = command_line(project, GodotOptions(args="--level=3 '--name=a b'"), 11008, 1)
    assert command[:3] == [str(tmp_path / engine), "--path", str(project)]
    assert command[-2:] == ["--level=3", "--name=a b"]
    assert ("--headless" in command) == (config_version == 5)
    pack = write(tmp_path / "game.pck")
    assert command_line(pack, GodotOptions(engine="godot3-server"), 1, 1)[:3] == [
        str(tmp_path / "godot3-server"),
        "--main-pack",
        str(pack),
    ]
    assert Path(installed_engines()[0]).parent == tmp_path
    monkeypatch.setenv("PATH", str(project))
    with pytest.raises(InputError, match=f"needs the Godot engine, and none of {engine}, .* is installed"):
        command_line(project, GodotOptions(), 1, 1)
