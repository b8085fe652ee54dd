"""Policies in other programs: `process:COMMAND`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import mosaic
from mosaic.config.programs import programs_of_policies, with_absolute_paths
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.core.proc import read_stat
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.policies.controller import PolicyError, PolicyTimeoutError
from mosaic.policies.registry import load_policy

BOT = Path(__file__).parents[2] / "examples" / "scripts" / "process_bot.py"
GAME = "classic/tictactoe_v3"


def command(text: str) -> str:
    return f"process:{shlex.join([sys.executable, '-c', text])}"


ANSWERING = (
    "import sys, json\nfor line in sys.stdin:\n    if json.loads(line)['call'] == 'get_action': print({!r}, flush=True)"
)


def answering(answer: object) -> str:
    return command(ANSWERING.format(answer if isinstance(answer, str) else json.dumps(answer)))


@pytest.fixture
def spec():
    env = make_env(GAME)
    yield env.spec
    env.close()


def a_turn(taken: int = 0) -> Turn:
    mask = np.arange(9) >= taken
    return Turn({"player_1": np.zeros((3, 3, 2), np.int8)}, {"player_1": mask}, {"player_1": 0.0}, {}, {}, {}, {})


def test_a_program_plays_both_agents_of_whole_games():
    bot = f"process:{sys.executable} {BOT}"
    result = mosaic.evaluate(GAME, {"*": bot}, episodes=4, seed=3)
    again = mosaic.evaluate(GAME, {"*": bot}, episodes=4, seed=3)
    assert len(result.episode_results) == 4
    assert result.distinct_games > 1
    assert [each.returns for each in again.episode_results] == [each.returns for each in result.episode_results]


def test_the_program_sees_the_episode_and_what_its_agents_see(spec, tmp_path):
    copy = tmp_path / "seen"
    text = (
        f"import sys, json\nout = open({str(copy)!r}, 'w', buffering=1)\nfor line in sys.stdin:\n    out.write(line)\n"
    )
    text += "    if 'observations' in line: print(json.dumps({'actions': {'player_1': 4}}), flush=True)"
    policy = load_policy(command(text), spec, ("player_1",))
    policy.begin(("player_1",), 11)
    assert policy.act(a_turn(2)) == {"player_1": 4}
    policy.forget("player_1")
    policy.act(a_turn(2))
    policy.close()
    start, question, forget, _ = map(json.loads, copy.read_text().splitlines())
    assert (start["call"], start["env"], start["agents"], start["seed"]) == ("start_episode", GAME, ["player_1"], 11)
    assert start["spaces"]["player_1"]["action"] == {"space": "Discrete", "n": 9, "start": 0}
    assert question["action_masks"] == {"player_1": [False] * 2 + [True] * 7}
    assert np.array(question["observations"]["player_1"]).shape == (3, 3, 2)
    assert forget == {"call": "forget", "agent": "player_1"}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("I play the centre", r"is not JSON"),
        ([4], r"is not a JSON object"),
        ({"action": 4}, r'where \{"actions": \{"player_1": "…"\}\} belongs'),
        ({"actions": {"player_2": 4}}, r'where \{"actions"'),
        ({"actions": {"player_1": "centre"}}, r"actions\.player_1: 'centre', where an integer belongs"),
        ({"actions": {"player_1": True}}, r"actions\.player_1: True, where an integer belongs"),
        ({"actions": {"player_1": 9}}, r"actions\.player_1: 9, outside 0\.\.8"),
        ({"actions": {"player_1": 0}}, r"actions\.player_1: 0, which is illegal here \(legal: 2, 3"),
        ({"error": "out of ideas"}, r"it reports the error 'out of ideas'"),
    ],
)
def test_an_answer_that_is_no_action_is_named_and_ends_the_program(spec, answer, text):
    controller = load_policy(answering(answer), spec, ("player_1",))
    controller.begin(("player_1",), 0)
    pid = controller.pid
    with pytest.raises(PolicyError, match=text):
        controller.act(a_turn(2))
    assert read_stat(pid) is None
    with pytest.raises(PolicyError, match="its program has ended"):
        controller.act(a_turn(2))
    controller.close()


def test_a_program_that_dies_or_is_silent_is_an_error_with_its_last_words(spec):
    dying = load_policy(command("import sys; input(); sys.exit('no model file')"), spec, ("player_1",))
    dying.begin(("player_1",), 0)
    with pytest.raises(PolicyError, match=r"exited \(status 1\).*no model file"):
        dying.act(a_turn())
    silent = load_policy(command("import sys; sys.stdin.read()"), spec, ("player_1",), time_limit_s=0.1)
    silent.begin(("player_1",), 0)
    with pytest.raises(PolicyTimeoutError, match=r"within 0\.1 s"):
        silent.act(a_turn())


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("process:", r"the option 'command' is missing"),
        ("process:no-such-program --fast", r"there is no program 'no-such-program' that can be run"),
        ("process:no-such-program", r"Name a file with its path \(\./no-such-program\)\."),
        (
            "process:./no-such-file",
            r"there is no program '/.*/no-such-file' that can be run\. A file must be executable",
        ),
        ("process:python 'bot.py", r"is not a command: No closing quotation"),
        ("process:python bot.py,folder=/no/such", r"there is no folder '/no/such'"),
        ("process:python bot.py,depth=3", r"there is no option 'depth'"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(spec, reference, text):
    with pytest.raises(InputError, match=text):
        load_policy(reference, spec, ("player_1",))


def test_a_relative_program_is_found_in_its_folder(spec, tmp_path):
    bot = tmp_path / "bot"
    bot.write_text(f"#!{sys.executable}\n{BOT.read_text()}")
    bot.chmod(0o755)
    controller = load_policy(f"process:./bot,folder={tmp_path}", spec, ("player_1",))
    controller.begin(("player_1",), 0)
    assert controller.act(a_turn(8)) == {"player_1": 8}
    controller.close()


def test_runs_keep_the_folder_and_requests_count_it_as_a_program(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    document = {"environment": {"family": "classic", "env_id": "tictactoe_v3"}, "agents": {"player_2": "process:a, b"}}
    config = with_absolute_paths(RunConfig.model_validate(document))
    assert config.agents == {"player_2": f"process:a, b,folder={tmp_path}"}
    assert with_absolute_paths(config) == config
    assert programs_of_policies({"x": "process:a", "y": "random"}) == ["agents.x: process:a"]
    assert os.getcwd() == str(tmp_path)


def test_a_program_of_this_folder_or_another(tmp_path, monkeypatch):
    from mosaic.policies.process import _command

    (tmp_path / "bot").write_text("#!/bin/sh\n")
    (tmp_path / "bot").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    own = [str(tmp_path / "bot"), "--level", "3"]
    assert _command("./bot --level 3", None, "process:./bot") == own
    monkeypatch.chdir("/")
    assert _command("./bot --level 3", tmp_path, "process:./bot") == own
