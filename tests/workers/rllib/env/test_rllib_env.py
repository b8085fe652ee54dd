"""Our envs as RLlib sees them."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvFacts
from mosaic.testing.toys import Toy
from mosaic.workers.rllib.env.encoding import agent_code
from mosaic.workers.rllib.env.env import LearnerEnv, LearnersEnv, make_rllib_env

FADING, ALTERNATING = "python:mosaic.testing.toys:Fading", "python:mosaic.testing.toys:Alternating"
RELAY = f"python:{__name__}:Relay"


def rllib_env(env_id: str, learners: list[str], **also: Any) -> Any:
    return make_rllib_env({"environment": {"env_id": env_id}, "learners": learners, "seed": 1, **also})


def episode_of(env: LearnersEnv, act: Any) -> MultiAgentEpisode:
    """One episode as RLlib books it."""
    episode = MultiAgentEpisode(
        observation_space=env.observation_spaces,
        action_space=env.action_spaces,
        agent_to_module_mapping_fn=lambda agent, episode, **also: "m",
    )
    seen, infos = env.reset(seed=5)
    episode.add_env_reset(observations=seen, infos=infos)
    while not episode.is_done:
        actions = {agent: act(agent, seen[agent]) for agent in episode.get_agents_to_act()}
        seen, rewards, terminated, truncated, infos = env.step(actions)
        episode.add_env_step(seen, actions, rewards, infos, terminateds=terminated, truncateds=truncated)
        assert episode.is_done == (terminated["__all__"] or truncated["__all__"])
    return episode


def first_legal(agent: str, seen: Any) -> int:
    return int(np.flatnonzero(seen["action_mask"])[0]) if isinstance(seen, dict) else 0


def test_who_is_truncated_with_others_who_terminate_stays_truncated():
    episode = episode_of(rllib_env(FADING, ["a", "b", "c"]), first_legal)
    parts = episode.agent_episodes
    assert {agent: (part.is_terminated, bool(part.get_return())) for agent, part in parts.items() if agent != "b"} == {
        "a": (True, True),
        "c": (True, True),
    }
    assert parts["b"].is_truncated
    assert not parts["b"].is_terminated
    assert {agent: part.get_return() for agent, part in parts.items()} == {"a": 3.0, "b": 10.0, "c": 9.0}
    assert {agent: len(part) for agent, part in parts.items()} == {"a": 2, "b": 4, "c": 3}


class Relay(Toy):
    """Env of a, b and c, of which each has ended before the next begins: a after step 1, b after step 3, c after 4.

    Step `t` pays `t` to who acted; a's end is a truncation.
    """

    def __init__(self) -> None:
        super().__init__("abc", EnvFacts(EnvironmentConfig(family="python", env_id=RELAY), turn_based=True))

    def _first(self) -> Turn:
        return self._turn("a", dict.fromkeys("abc", 0.0))

    def _next(self) -> Turn:
        match self.t:
            case 1:
                return self._turn("b", {"a": 1.0, "b": 0.0, "c": 0.0}, truncated="a")
            case 2:
                return self._turn("b", {"b": 2.0, "c": 0.0})
            case 3:
                return self._turn("c", {"b": 3.0, "c": 0.0}, terminated="b")
        return self._turn("", {"c": 4.0}, terminated="c")


def test_an_episode_goes_on_for_those_who_begin_after_all_others_have_ended():
    episode = episode_of(rllib_env(RELAY, ["a", "b", "c"]), first_legal)
    parts = episode.agent_episodes
    assert {agent: (len(part), part.get_return()) for agent, part in parts.items()} == {
        "a": (1, 1.0),
        "b": (2, 5.0),
        "c": (1, 4.0),
    }
    assert [parts[agent].is_truncated for agent in "abc"] == [True, False, False]
    assert [parts[agent].is_terminated for agent in "abc"] == [False, True, True]
    assert [int(np.argmax(part.get_observations(-1))) for part in parts.values()] == [91, 93, 94]


def test_an_episode_that_is_only_truncated_is_not_terminated():
    """RLlib would call all agents terminated, if each were said to be truncated, and bootstrap nothing."""
    episode = episode_of(rllib_env("mpe/simple_spread_v3", ["agent_0", "agent_1", "agent_2"]), first_legal)
    assert len(episode) == 25
    for part in episode.agent_episodes.values():
        assert part.is_truncated
        assert not part.is_terminated


def test_who_waits_is_paid_and_ended_in_turn_based_games():
    episode = episode_of(rllib_env(ALTERNATING, ["x", "o"]), first_legal)
    assert {agent: len(part) for agent, part in episode.agent_episodes.items()} == {"x": 2, "o": 2}
    assert episode.agent_episodes["x"].get_return() == -3.0
    assert all(part.is_terminated for part in episode.agent_episodes.values())


def test_an_episode_ends_with_the_last_learner_although_others_go_on():
    env = rllib_env(FADING, ["a"], played={"b": "random", "c": "random"})
    assert isinstance(env, LearnerEnv)
    env.reset(seed=0)
    assert env.step(0)[1:4] == (1.0, False, False)
    assert env.step(0)[1:4] == (2.0, True, False)
    assert env.view.episode.played_returns == {"b": 3.0, "c": 2.0}


def test_one_learner_sees_its_own_turns_and_all_that_it_is_paid_between_them():
    env = rllib_env(ALTERNATING, ["o"], played={"x": "random"})
    env.reset(seed=0)
    _, reward, terminated, truncated, _ = env.step(0)
    assert (reward, terminated, truncated) == (3.0, False, False)
    assert (env.view.episode.env_steps, env.view.episode.others_steps) == (3, 2)  # x moved before and after
    assert env.step(0)[1:4] == (1.0, True, False)
    assert (env.view.episode.env_steps, env.view.episode.others_steps) == (4, 0)
    assert env.view.episode.played_returns == {"x": -3.0}


def test_a_gymnasium_env_is_handed_out_as_it_is():
    env = rllib_env("gym/CartPole-v1", ["agent_0"])
    assert not isinstance(env, LearnerEnv)
    assert env.spec.id == "CartPole-v1"
    assert isinstance(rllib_env("gym/FrozenLake-v1", ["agent_0"]), LearnerEnv)


@pytest.mark.parametrize(
    ("env_id", "learners"),
    [
        ("classic/connect_four_v3", ["player_0", "player_1"]),
        ("mpe/simple_tag_v3", ["adversary_0", "adversary_1", "adversary_2", "agent_0"]),
        ("butterfly/knights_archers_zombies_v10", ["archer_0", "archer_1", "knight_0", "knight_1"]),
    ],
)
def test_observations_are_members_of_their_spaces_in_a_fixed_order(env_id: str, learners: list[str]):
    env = rllib_env(env_id, learners)
    try:
        assert env.possible_agents == learners
        seen, _ = env.reset(seed=2)
        for _ in range(30):
            for agent, part in seen.items():
                assert env.get_observation_space(agent).contains(part)
            assert list(seen) == [agent for agent in learners if agent in seen]
            actions = {agent: first_legal(agent, part) for agent, part in seen.items()}
            seen, _, terminated, truncated, _ = env.step(actions)
            if terminated["__all__"] or truncated["__all__"]:
                seen, _ = env.reset()
        assert env.render().dtype == np.uint8
    finally:
        env.close()


def test_pictures_are_scaled_and_normalised():
    env = rllib_env("butterfly/cooperative_pong", ["paddle_0", "paddle_1"], picture_size=42)
    try:
        seen, _ = env.reset(seed=0)
        assert env.observation_spaces["paddle_0"] == spaces.Box(0, 1, (42, 42, 3), np.float32)
        assert seen["paddle_0"].shape == (42, 42, 3)
        assert 0 < seen["paddle_0"].max() <= 1
    finally:
        env.close()


def test_an_illegal_action_is_refused_by_name():
    env = rllib_env("classic/tictactoe_v3", ["player_1", "player_2"])
    env.reset(seed=0)
    env.step({"player_1": 4})
    with pytest.raises(
        MosaicError, match=r"RLlib chose for player_2 in classic/tictactoe_v3: 4, which is illegal here "
    ):
        env.step({"player_2": 4})


def test_a_central_state_holds_what_all_see_and_who_looks():
    learners = ["agent_0", "agent_1", "agent_2"]
    env = rllib_env("mpe/simple_spread_v3", learners, state=True)
    seen, _ = env.reset(seed=0)
    together = np.concatenate([seen[agent]["observation"] for agent in learners])
    for number, agent in enumerate(learners):
        assert np.array_equal(seen[agent]["state"], np.concatenate((together, np.eye(3)[number])).astype(np.float32))


def test_dead_agents_are_zeros_in_the_central_state():
    env = rllib_env(FADING, ["a", "b", "c"], state=True)
    env.reset(seed=0)
    env.step({"a": 0, "b": 0})
    assert env.step({"a": 0, "b": 0, "c": 0})[0]["b"]["state"][:100].sum() == 1  # a's last look
    assert env.step({"b": 0, "c": 0})[0]["b"]["state"][:100].sum() == 0


def test_the_same_seed_gives_the_same_episodes_and_neighbouring_runners_others():
    class Context(dict[str, Any]):
        worker_index = 0

    def looks(runner: int, seed: int) -> list[Any]:
        config = Context(environment={"env_id": "mpe/simple_spread_v3"}, learners=["agent_0", "agent_1", "agent_2"])
        config.worker_index = runner
        env = make_rllib_env(config)
        return [env.reset(seed=seed)[0]["agent_0"].tolist(), env.reset()[0]["agent_0"].tolist()]

    assert looks(1, 7) == looks(1, 7)
    assert looks(1, 7)[0] != looks(1, 7)[1]
    assert looks(1, 8) != looks(2, 7)


def test_an_env_is_made_from_plain_data():
    config = {
        "environment": {"env_id": "classic/tictactoe_v3"},
        "learners": ["player_1"],
        "played": {"player_2": "random"},
    }
    env = make_rllib_env(pickle.loads(pickle.dumps(config)))
    assert isinstance(env, gymnasium.Env)


def test_actions_of_any_space_are_flat_for_rllib():
    number = spaces.Box(-2, 2, (1,), np.float32)
    code = agent_code(number, spaces.Discrete(3, start=5))
    assert (code.action_space, code.act(np.int64(2)), code.choices) == (spaces.Discrete(3), 7, 3)
    code = agent_code(number, spaces.MultiBinary((2, 2)))
    assert code.action_space == spaces.MultiDiscrete([2, 2, 2, 2])
    assert code.act(np.array([0, 1, 1, 0])).tolist() == [[0, 1], [1, 0]]
    code = agent_code(number, spaces.Box(-1, 3, (2, 1), np.float64))
    assert code.action_space == spaces.Box(-1, 3, (2,), np.float32)
    assert code.act(np.array([0.5, 9], np.float32)).tolist() == [[0.5], [3.0]]


def test_pictures_with_numbers_are_refused():
    both = spaces.Dict({"eye": spaces.Box(0, 255, (20, 20, 3), np.uint8), "speed": spaces.Box(-1, 1, (1,))})
    with pytest.raises(InputError, match="read either a picture or numbers, but here is Dict"):
        agent_code(both, spaces.Discrete(2))


def test_pictures_have_no_central_state():
    with pytest.raises(InputError, match=r"pictures are too wide for that\. Use --policies parameter_sharing or"):
        rllib_env("butterfly/cooperative_pong", ["paddle_0", "paddle_1"], state=True)


def test_every_turn_passes_through_unchanged():
    """Against our own env, stepped by hand."""
    learners = ["adversary_0", "adversary_1", "adversary_2", "agent_0"]
    shown, own = rllib_env("mpe/simple_tag_v3", learners), make_env("mpe/simple_tag_v3")
    seeds: list[int] = []
    reset = shown.view.env.reset
    shown.view.env.reset = lambda seed: seeds.append(seed) or reset(seed)
    seen, _ = shown.reset(seed=3)
    turn = own.reset(seeds[-1])
    for step in range(25):
        for agent in learners:
            assert np.array_equal(seen[agent], turn.observations[agent])
        actions = {agent: (step + number) % 5 for number, agent in enumerate(learners)}
        seen, rewards, *_ = shown.step(actions)
        turn = own.step(actions)
        assert rewards == turn.rewards
        if turn.over:
            break
    assert step == 24
