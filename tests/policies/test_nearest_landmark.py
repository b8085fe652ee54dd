"""The yardstick of simple_spread."""

from __future__ import annotations

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.core.reference import Options
from mosaic.envs.catalog import make_env
from mosaic.policies.controller import PolicyRequest
from mosaic.policies.nearest_landmark import choose_push, kind, own_landmark
from mosaic.policies.random import kind as random_kind

STAY, LEFT, RIGHT, DOWN, UP = range(5)


def look(landmarks, others, velocity=(0, 0)):
    """What an agent in the middle of the field sees."""
    words = np.zeros(2 * len(others))
    return np.concatenate([velocity, (0, 0), np.ravel(landmarks), np.ravel(others), words]).astype(np.float32)


def mean_return(policy, env, episodes):
    controller = policy.make(Options(), PolicyRequest(policy.usage, env.spec, env.possible_agents))
    total = 0.0
    for seed in range(episodes):
        turn = env.reset(seed=seed)
        controller.begin(env.possible_agents, seed)
        while not turn.over:
            turn = env.step(controller.act(turn))
            total += sum(turn.rewards.values()) / len(env.possible_agents)
    controller.close()
    return total / episodes


def test_the_nearest_landmark_where_nobody_else_wants_it():
    assert own_landmark(look([(0.5, 0), (0.1, 0.2)], [(0.6, 0)])).tolist() == pytest.approx([0.1, 0.2])


def test_another_agent_is_left_the_landmark_that_is_nearer_to_it():
    assert own_landmark(look([(0.3, 0), (-0.5, 0)], [(0.4, 0)])).tolist() == pytest.approx([-0.5, 0])


def test_all_agents_find_the_same_assignment():
    rng = np.random.default_rng(1)
    for count in (1, 2, 3, 8):
        agents, landmarks = rng.uniform(-1, 1, (2, count, 2))
        targets = set()
        for number, agent in enumerate(agents):
            others = np.delete(agents, number, axis=0) - agent
            way = own_landmark(look(landmarks - agent, others))
            targets.add(int(np.abs(landmarks - agent - way).sum(axis=1).argmin()))
        assert len(targets) == count


@pytest.mark.parametrize(
    ("way", "action"), [((-1, 0.5), LEFT), ((1, 0.5), RIGHT), ((0.1, -1), DOWN), ((0.1, 1), UP), ((0, 0), STAY)]
)
def test_pushes_along_the_longer_side(way, action):
    assert choose_push(look([way], [])) == action


def test_brakes_before_it_arrives():
    assert choose_push(look([(0.1, 0)], [], velocity=(1, 0))) == LEFT


def test_does_far_better_than_chance():
    env = make_env("mpe/simple_spread_v3")
    theirs, chance = mean_return(kind, env, 30), mean_return(random_kind, env, 30)
    env.close()
    assert theirs > chance / 2
    assert -10 < theirs < -5


@pytest.mark.parametrize(
    ("env_id", "options", "text"),
    [
        ("mpe/simple_tag_v3", {}, "plays mpe/simple_spread only, not mpe/simple_tag_v3"),
        ("mpe/simple_spread_v3", {"continuous_actions": True}, "leave continuous_actions out"),
        ("mpe/simple_spread_v3", {"num_agent_neighbors": 1}, r"agent_0 sees Box.*leave out num_agent_neighbors"),
    ],
)
def test_what_it_cannot_play(env_id, options, text):
    env = make_env(env_id, **options)
    with pytest.raises(InputError, match=text):
        kind.make(Options(), PolicyRequest("nearest_landmark", env.spec, env.possible_agents))
    env.close()
