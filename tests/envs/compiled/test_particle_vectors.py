"""mpe2's particle worlds by the thousand: to the last digit what the reference computes."""

from __future__ import annotations

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import make_compiled_vector
from tests.envs.compiled.abreast import Abreast

SPREAD, TAG, ADVERSARY = "mpe/simple_spread_v3", "mpe/simple_tag_v3", "mpe/simple_adversary_v3"
LISTENER, REFERENCE = "mpe/simple_speaker_listener_v4", "mpe/simple_reference_v3"
WORLDS = [
    (SPREAD, {}),
    (SPREAD, {"N": 1}),
    (SPREAD, {"N": 5, "local_ratio": 0.3, "max_cycles": 7}),
    (SPREAD, {"N": 4, "num_agent_neighbors": 2, "num_landmark_neighbors": 3}),
    (SPREAD, {"num_agent_neighbors": 4, "num_landmark_neighbors": 1}),
    (TAG, {}),
    (TAG, {"num_good": 3, "num_adversaries": 2, "num_obstacles": 0, "max_cycles": 40}),
    (TAG, {"num_good": 2, "num_agent_neighbors": 3, "num_landmark_neighbors": 1}),
    (TAG, {"num_agent_neighbors": 5, "num_landmark_neighbors": 3}),
    (ADVERSARY, {}),
    (ADVERSARY, {"N": 4, "num_agent_neighbors": 2}),
    (ADVERSARY, {"N": 3, "num_landmark_neighbors": 2}),
    (LISTENER, {}),
    (REFERENCE, {}),
    (REFERENCE, {"local_ratio": 0.1, "max_cycles": 9}),
]


def crowd(state):
    """Everything so close that all push each other."""
    state *= 0.2


@pytest.mark.parametrize(("env_id", "options"), WORLDS)
def test_a_walk(env_id, options):
    worlds = Abreast(env_id, 4, options, disturb=crowd)
    seen = worlds.walk(60)
    worlds.close()
    assert seen["truncated"] > 0
    assert seen["terminated"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "steps"),
    [
        pytest.param(SPREAD, 700, marks=pytest.mark.chosen),
        pytest.param(TAG, 525, marks=pytest.mark.chosen),
        (SPREAD, 2_800),
        (TAG, 2_100),
        (ADVERSARY, 2_800),
        (LISTENER, 4_200),
        (REFERENCE, 4_200),
    ],
)
def test_a_long_walk(env_id, steps):
    worlds = Abreast(env_id, 12, seed=3, disturb=crowd)
    seen = worlds.walk(steps)
    worlds.close()
    assert seen["agent steps"] >= (25_000 if steps < 1_000 else 100_000)
    assert seen["truncated"] >= seen["agent steps"] / 25 - 60


def test_a_hundred_agents():
    worlds = Abreast(SPREAD, 1, {"N": 100, "max_cycles": 3})
    assert worlds.vector.obs.shape == (100, 600)
    seen = worlds.walk(3)
    worlds.close()
    assert seen["truncated"] == 100


@pytest.mark.parametrize("env_id", [SPREAD, TAG, ADVERSARY, LISTENER, REFERENCE])
def test_pictures_are_the_reference_envs(env_id):
    worlds = Abreast(env_id, 2)
    for _ in range(3):
        worlds.walk(3)
        for index, env in enumerate(worlds.theirs):
            assert (worlds.vector.render(index) == env.render()).all()
    worlds.close()


@pytest.mark.parametrize("env_id", [SPREAD, TAG, ADVERSARY, LISTENER, REFERENCE])
def test_starts_are_spread_over_the_field(env_id):
    vector = make_compiled_vector(EnvironmentConfig(env_id=env_id), 2_000)
    vector.reset(1)
    agents = len(vector.shape.agents)
    agents_at, velocities = vector.state[:, : 2 * agents], vector.state[:, -1 - 2 * agents : -1]
    landmarks_at = vector.state[:, 2 * agents : -1 - 2 * agents]
    reach = 0.9 if env_id == TAG else 1.0
    for places, edge in ((agents_at, 1.0), (landmarks_at, reach)):
        assert edge * 0.99 < np.abs(places).max() <= edge
        assert abs(places.mean()) < 0.03
        assert abs(places.std() - edge / np.sqrt(3)) < 0.02
    assert not velocities.any()
    assert (vector.state[:, -1] == np.abs(vector.state[:, :-1]).max(axis=1)).all()


def test_goals_are_drawn_evenly():
    for env_id, goals in ((ADVERSARY, [1]), (LISTENER, [1]), (REFERENCE, [1, 2])):
        vector = make_compiled_vector(EnvironmentConfig(env_id=env_id), 3_000)
        vector.reset(1)
        landmarks = 2 if env_id == ADVERSARY else 3
        for column in goals:
            counts = np.bincount(vector.ints[:, column], minlength=landmarks)
            assert len(counts) == landmarks
            assert (np.abs(counts / 3_000 - 1 / landmarks) < 0.04).all()


def test_episodes_of_a_seed_repeat_and_differ():
    vector = make_compiled_vector(EnvironmentConfig(env_id=SPREAD), 3)
    starts = []
    for seed in (1, 1, 2):
        vector.reset(seed)
        for _ in range(25):
            vector.step(np.zeros((9, 1), np.float32))
        assert vector.trunc.all()
        starts.append(vector.obs.copy())
    assert (starts[0] == starts[1]).all()
    places = np.concatenate([starts[0][:, 2], starts[2][:, 2]])
    assert len(np.unique(places)) == 18


@pytest.mark.parametrize(
    "config",
    [
        {"env_id": SPREAD, "options": {"continuous_actions": True}},
        {"env_id": SPREAD, "options": {"terminate_on_success": True}},
        {"env_id": SPREAD, "options": {"curriculum": True}},
        {"env_id": SPREAD, "options": {"local_ratio": 2.0}},
        {"env_id": SPREAD, "options": {"N": 0}},
        {"env_id": SPREAD, "options": {"n": 3}},
        {"env_id": SPREAD, "api_type": "aec"},
        {"env_id": SPREAD, "wrappers": ("time_limit:max_steps=5",)},
        {"env_id": TAG, "options": {"benchmark_data": True}},
        {"env_id": ADVERSARY, "options": {"num_agent_neighbors": 0}},
        {"env_id": LISTENER, "options": {"local_ratio": 0.5}},
    ],
)
def test_other_rules_have_no_kernel(config):
    assert find_kernel(EnvironmentConfig(**config)) is None
