"""Mosaic and a real game: the contract, evaluation, games in parallel, and games that are killed."""

import json
import os
import signal
import threading
from random import Random

import numpy as np
import pytest

from mosaic.envs.contract.check import check_env
from mosaic.envs.godot.messages import GameError
from mosaic.envs.vector.in_process import PythonVector
from tests.godot.conftest import SETTINGS
from tests.godot.raw_game import ORCHARD, needs_engine
from tests.ui.conftest import mosaic as mosaic  # the fixture

pytestmark = needs_engine


def draw(env, random):
    return {agent: np.array([random.uniform(-1, 1) for _ in range(4)], np.float32) for agent in env.agents}


def play_on(env, random):
    """Play one episode after the other."""
    while True:
        env.reset(random.randrange(100))
        while env.agents:
            env.step(draw(env, random))


def test_the_contract_is_kept_with_and_without_the_camera(orchard):
    for args, parts in (((), {"obs"}), (("--camera",), {"obs", "camera_2d"})):
        report = check_env(lambda args=args: orchard(args=args), steps=70)
        assert report.reproducible
        assert report.episodes_ended == 2
        assert {agent.agent for agent in report.agents} == {"picker_0", "dog_0"}
        assert all(part in report.agents[0].observation for part in parts)


def test_check_shows_every_agent_and_logs_every_message(mosaic, tmp_path):
    log = tmp_path / "messages.log"
    answer = mosaic(
        "check", f"godot/{ORCHARD}", "--seconds", "0.1", *SETTINGS, "--set", f"environment.options.log={log}"
    )
    assert answer.code == 0, answer.err
    assert "keeps the contract" in answer.out
    assert "picker_0" in answer.out
    assert "dog_0" in answer.out
    kinds = [json.loads(line.split(" ", 3)[3])["type"] for line in log.read_text().splitlines()]
    assert kinds[:5] == ["handshake", "env_info", "env_info", "reset", "reset"]
    assert kinds.count("action") == kinds.count("step") > 300


def test_evaluation_is_the_same_in_another_game(mosaic):
    words = ("evaluate", f"godot/{ORCHARD}", "--agent", "*=random", "--episodes", "4", "--json", *SETTINGS)
    one, other = json.loads(mosaic(*words).out), json.loads(mosaic(*words).out)
    assert one["agents"] == other["agents"]
    assert all(agent["return_mean"] < 2 for agent in one["agents"].values())


def test_games_in_parallel_play_what_each_plays_alone(orchard):
    def played(count):
        vector = PythonVector([orchard() for _ in range(count)])
        vector.reset(3)
        seen = []
        for actions in np.random.default_rng(1).uniform(-1, 1, (70, 2, 4)).astype(np.float32):
            vector.step(np.tile(actions, (count, 1)))
            seen.append((vector.obs[:2].copy(), vector.rew[:2].copy()))
        vector.close()
        return seen

    for (obs, rewards), (same_obs, same_rewards) in zip(played(1), played(3), strict=True):
        assert np.array_equal(obs, same_obs)
        assert np.array_equal(rewards, same_rewards)


@pytest.mark.parametrize("number", range(6))
def test_a_game_that_is_killed_at_any_moment_ends_the_env_with_its_exit_code(orchard, number):
    env, random = orchard(), Random(number)
    threading.Timer(random.uniform(0.0, 0.2), os.kill, (env.game.process.pid, signal.SIGKILL)).start()
    with pytest.raises(GameError, match=r"closed the connection.*SIGKILL"):
        play_on(env, random)
    with pytest.raises(GameError, match="SIGKILL"):  # and every later use says the same
        env.reset(1)


def test_a_game_that_hangs_is_given_up_after_the_bound(orchard):
    env = orchard(timeout_s=0.5)
    env.reset(1)
    os.kill(env.game.process.pid, signal.SIGSTOP)
    with pytest.raises(GameError, match=r"did not answer to 'action' within 0.5 s.*It is still running"):
        env.step(draw(env, Random(1)))
