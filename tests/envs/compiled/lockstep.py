"""Many compiled envs and as many of Gymnasium's, step by step from equal states."""

from __future__ import annotations

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.adapters.gymnasium import AGENT
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.vector.encoding import action_code


class Tally:
    """What was seen, so that a test can say that it saw enough."""

    def __init__(self) -> None:
        self.steps = self.terminated = self.truncated = 0


def walk(env_id: str, envs: int, steps: int, policy, load, *, options=None, wrappers=(), seed=1) -> Tally:
    """`policy(rng, obs) -> act`; `load(raw env, state row)` puts a fresh episode's state into Gymnasium's env.

    Of every row that does not begin an episode, observation, reward and ends must equal the reference's bit by bit.
    """
    config = EnvironmentConfig(env_id=env_id, options=options or {}, wrappers=wrappers)
    vector = make_compiled_vector(config, envs)
    assert vector is not None
    theirs = [make_env(config) for _ in range(envs)]
    code = action_code(theirs[0].action_spaces[AGENT])
    assert vector.shape.heads == (code.head,)
    assert vector.shape.widths == (theirs[0].observation_spaces[AGENT].shape[0],)
    rng, tally = np.random.default_rng(seed), Tally()
    vector.reset(seed)
    for index, env in enumerate(theirs):
        env.reset(seed=0)
        load(unwrapped(env), vector.state[index])
    for _ in range(steps):
        act = policy(rng, vector.obs)
        vector.step(act)
        for index, env in enumerate(theirs):
            turn = env.step({AGENT: code.action(act[index])})
            ended = (turn.terminated[AGENT], turn.truncated[AGENT])
            assert (vector.term[index], vector.trunc[index]) == ended
            assert vector.rew[index] == np.float32(turn.rewards[AGENT])
            tally.steps += 1
            if any(ended):
                tally.terminated, tally.truncated = tally.terminated + ended[0], tally.truncated + ended[1]
                assert vector.fin[index].tobytes() == row(turn.final_observations[AGENT])
                env.reset()
                load(unwrapped(env), vector.state[index])
            else:
                assert vector.obs[index].tobytes() == row(turn.observations[AGENT])
    for env in theirs:
        env.close()
    return tally


def unwrapped(env):
    while hasattr(env, "env"):
        env = env.env
    return env


def row(observation):
    """Return the bytes of an observation as a row holds it: envs that show float64 are rounded."""
    return observation.astype(np.float32).tobytes()
