"""A lander that is looked at flies where it flies unseen, and smokes only then."""

import numpy as np
import pytest

from mosaic.envs.catalog import make_env

LANDER = "gym/LunarLander-v3"


def fly(look, episodes=3, steps=120):
    env, chance, seen, smoke = make_env(LANDER), np.random.default_rng(0), [], 0
    for episode in range(episodes):
        turn = env.reset(episode)
        for step in range(steps):
            if look(step):
                assert env.render().shape == (400, 600, 3)
            turn = env.step({"agent_0": int(chance.integers(4))})
            smoke = max(smoke, len(env.env.unwrapped.particles))
            seen.append(next(iter({**turn.observations, **turn.final_observations}.values())))
            if turn.over:
                break
    env.close()
    return np.array(seen), smoke


@pytest.mark.parametrize("look", [lambda step: True, lambda step: step % 17 == 5], ids=["always", "now and then"])
def test_looking_changes_nothing_but_the_picture(look):
    unseen, no_smoke = fly(lambda step: False)
    seen, smoke = fly(look)
    np.testing.assert_array_equal(seen, unseen)
    assert no_smoke == 0
    assert smoke > 0


def test_a_new_episode_begins_without_smoke():
    env = make_env(LANDER)
    env.reset(0)
    env.render()
    env.reset(1)
    for _ in range(20):
        env.step({"agent_0": 2})
    assert not env.env.unwrapped.particles
    assert env.env.render_mode == "rgb_array"
    env.close()
