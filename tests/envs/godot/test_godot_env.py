"""Env of a Godot game: spaces, agents, episodes and infos, played with a fake game."""

import numpy as np
import pytest
from gymnasium import spaces

from mosaic.core.errors import MosaicError
from mosaic.core.turn import digest
from mosaic.envs.adapters.to_pettingzoo import as_pettingzoo
from mosaic.envs.contract.check import check_env
from mosaic.envs.godot.game import Game
from mosaic.envs.godot.process import ENDING_S, GameProcess
from mosaic.envs.vector.in_process import PythonVector
from mosaic.envs.wrappers.limits import TimeLimit
from tests.envs.env_cases import turns


def random_actions(env, turn):
    return {agent: env.action_spaces[agent].sample() for agent in turn.observations}


def play(env, seed=1):
    return list(turns(env, seed, 100))


def test_the_contract(started):
    report = check_env(started)
    assert report.episodes_ended == 2
    assert report.reproducible
    assert [row.end for row in report.agents] == ["terminated"] * 3


def test_agents_and_policies_have_the_names_that_the_game_declares(started):
    env = started()
    assert env.possible_agents == ("runner_0", "runner_1", "guard_0")
    assert env.spec.facts.policy_names == {"runner_0": "runner", "runner_1": "runner", "guard_0": "guard"}


def test_an_old_plug_in_gives_one_space_and_no_names(started):
    env = started("--old")
    assert env.possible_agents == ("agent_0", "agent_1", "agent_2")
    assert env.spec.facts.policy_names == {}
    assert len({str(space) for space in env.observation_spaces.values()}) == 1
    assert play(env)[-1].over


@pytest.mark.parametrize(
    ("kind", "actions", "space", "action", "sent"),
    [
        ("discrete", "flat", spaces.Discrete(3), 2, {"jump": 2}),
        ("continuous", "flat", spaces.Box(-1, 1, (2,)), np.array([3, -0.5], np.float32), {"move": [1.0, -0.5]}),
        (
            "mixed",
            "flat",
            spaces.Box(-1, 1, (5,)),
            np.array([0.5, -1, -0.25, 1, 0], np.float32),
            {"move": [0.5, -1.0], "jump": 1},
        ),
        (
            "mixed",
            "dict",
            spaces.Dict({"move": spaces.Box(-1, 1, (2,)), "jump": spaces.Discrete(3)}),
            {"move": np.array([0.25, 0], np.float32), "jump": np.int64(2)},
            {"move": [0.25, 0.0], "jump": 2},
        ),
    ],
)
def test_actions_reach_the_game_in_its_own_parts(started, tmp_path, kind, actions, space, action, sent):
    env = started("--names=a", f"--actions={kind}", actions=actions, log=str(tmp_path / "log"))
    assert env.action_spaces["a_0"] == space
    joined = {"a_0": (("continuous", 2), ("discrete", 3))} if (kind, actions) == ("mixed", "flat") else {}
    assert env.spec.facts.action_parts == joined
    env.reset(1)
    env.step({"a_0": action})
    env.close()
    (line,) = [line for line in (tmp_path / "log").read_text().splitlines() if '"type":"action"' in line]
    assert line.endswith('> {"type":"action","action":[' + str(sent).replace("'", '"').replace(" ", "") + "]}")


@pytest.mark.parametrize("actions", ["flat", "dict"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_an_action_that_is_not_finite_is_refused_and_not_sent(started, tmp_path, actions, number):
    env = started("--names=a,b", actions=actions, log=str(tmp_path / "log"))
    env.reset(1)
    move = np.array([0.5, number], np.float32)
    bad = {"move": move, "jump": 0} if actions == "dict" else np.concatenate([move, np.zeros(3, np.float32)])
    good = {"move": np.zeros(2, np.float32), "jump": 0} if actions == "dict" else np.zeros(5, np.float32)
    with pytest.raises(MosaicError, match=r"The action for 'b_0' of godot/.* is not finite: \[0.5, (nan|inf)"):
        env.step({"a_0": good, "b_0": bad})
    env.step({"a_0": good, "b_0": good})  # the game is still there
    assert "null" not in (tmp_path / "log").read_text()


def test_an_image_is_an_array_of_bytes(started):
    env = started("--camera")
    assert env.observation_spaces["guard_0"]["camera_2d"] == spaces.Box(0, 255, (8, 8, 3), np.uint8)
    turn = env.reset(1)
    turn = env.step(random_actions(env, turn))
    assert turn.observations["guard_0"]["camera_2d"].tolist() == np.ones((8, 8, 3)).tolist()


def test_an_agent_that_is_done_leaves_until_all_are(started):
    env = started("--length=2")  # the agents live for 2, 3 and 4 steps
    episode = play(env)
    assert [sorted(turn.observations) for turn in episode[2:]] == [["guard_0", "runner_1"], ["guard_0"], []]
    assert [sorted(turn.final_observations) for turn in episode[2:]] == [["runner_0"], ["runner_1"], ["guard_0"]]
    assert [sorted(turn.rewards) for turn in episode[2:]][-1] == ["guard_0"]  # not what the next lives earn
    assert env.reset(2).observations.keys() == {*env.possible_agents}


def test_the_final_observation_is_not_the_one_of_the_next_life(started):
    env = started("--length=2", "--names=a")
    first, before, last = play(env)
    assert last.terminated == {"a_0": True}
    assert last.final_observations["a_0"]["obs"].tolist() == before.observations["a_0"]["obs"].tolist()
    assert first.observations["a_0"]["obs"][0] == 0 != before.observations["a_0"]["obs"][0]


def test_a_game_may_give_the_final_observation(started):
    last = play(started("--length=2", "--names=a", "--fault=final"))[-1]
    assert last.final_observations["a_0"]["obs"].tolist() == [0.5, 0.25, 0.125]


def test_terminated_and_truncated_are_kept_apart(started):
    episode = play(started("--fault=truncated"))
    ends = {agent: turn.truncated[agent] for turn in episode for agent in turn.final_observations}
    assert ends == {"runner_0": True, "runner_1": False, "guard_0": False}
    assert not any(turn.terminated["runner_0"] for turn in episode if "runner_0" in turn.terminated)


def test_an_episode_may_end_with_its_first_agent(started):
    env = started("--length=2", episode_end="any")
    last = play(env)[-1]
    assert last.over
    assert last.terminated == {"runner_0": True, "runner_1": False, "guard_0": False}
    assert last.truncated == {"runner_0": False, "runner_1": True, "guard_0": True}
    assert last.final_observations["guard_0"]["obs"][0] == np.float32(2 / 4)  # what it sees now: it plays no other life


def test_infos_of_the_game_are_in_the_turn(started):
    assert play(started())[2].infos["guard_0"] == {"age": 2}


def test_a_seed_gives_the_same_episode_in_another_game(started):
    one, other = started(), started()
    assert [digest(turn) for turn in play(one, 7)] == [digest(turn) for turn in play(other, 7)]
    assert digest(one.reset(8)) != digest(other.reset(9))
    one.reset(5), other.reset(5)
    assert digest(one.reset()) == digest(other.reset())  # the stream that a seed began goes on


def test_a_game_that_takes_no_seed_is_not_reproducible(started):
    assert not started("--fault=unseeded").spec.facts.reproducible


def test_a_method_of_the_agents_can_be_called(started):
    assert started().call("get_score") == ["get_score"] * 3


def test_as_pettingzoo(started):
    from pettingzoo.test import parallel_api_test

    parallel_api_test(as_pettingzoo(started()), num_cycles=30)


def test_a_step_can_be_sent_ahead(started):
    env, other = started("--names=a"), started("--names=a")
    turn, same = env.reset(1), other.reset(1)
    actions = random_actions(env, turn)
    env.send(actions)
    assert digest(env.step(actions)) == digest(other.step(actions))
    env.send(actions)
    assert digest(env.reset(1)) == digest(turn)  # the result of the step is left out
    env.send(actions)
    with pytest.raises(RuntimeError, match="other actions"):
        env.step(dict(actions))
    assert same.observations.keys() == {"a_0"}


def test_games_that_do_not_end_are_waited_for_together(started, monkeypatch):
    """Each has its own moment from the same beginning, also below wrappers."""
    asked, waited = [], []
    begin, end = Game.begin_end, GameProcess.end

    def begin_end(game):
        asked.append(game)
        begin(game)

    def end_within(process, within_s):
        waited.append((len(set(map(id, asked))), within_s))
        end(process, 0.0)  # as if the time had passed

    monkeypatch.setattr(Game, "begin_end", begin_end)
    monkeypatch.setattr(GameProcess, "end", end_within)
    games = [started("--fault=stay"), TimeLimit(started("--fault=stay"), 100), started("--fault=stay")]
    PythonVector(games).close()
    assert [number for number, _ in waited] == [3, 3, 3]  # all were asked before the first is waited for
    assert all(0.0 < within_s <= ENDING_S for _, within_s in waited)
    assert waited[-1][1] < waited[0][1]


def test_games_of_a_vector_step_at_the_same_time(started, tmp_path):
    """All actions are sent before the first result is received, also below wrappers."""
    log = tmp_path / "log"
    envs = [started(log=str(log)), TimeLimit(started(log=str(log)), 100), started(log=str(log))]
    vector = PythonVector(envs)
    vector.reset(3)
    for _ in range(20):  # some episodes end meanwhile
        vector.step(np.zeros((9, 5), np.float32))
    words = [line.split(" ", 3) for line in log.read_text().splitlines()]
    steps = [way for _, _, way, message in words if '"action"' in message or '"step"' in message[:20]]
    assert steps == [*">>>", *"<<<"] * 20
    twin = PythonVector([started() for _ in range(3)])
    twin.reset(3)
    for _ in range(20):
        twin._ahead = []  # one after the other
        twin.step(np.zeros((9, 5), np.float32))
    assert np.array_equal(vector.obs, twin.obs)
    assert np.array_equal(vector.rew, twin.rew)
