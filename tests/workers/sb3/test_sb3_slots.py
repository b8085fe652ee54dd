"""Agents as slots of a VecEnv: agents that end early, action masks, turns, and what buffers keep of them."""

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import DQN, PPO

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import MosaicError
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector.decoding import observation_decoder
from mosaic.envs.vector.encoding import row_code
from mosaic.envs.vector.in_process import PythonVector
from mosaic.testing import Fading
from mosaic.workers.sb3.buffers import leave_out_idle
from mosaic.workers.sb3.env.make import ModelOthers
from mosaic.workers.sb3.env.slots import SlotVecEnv
from mosaic.workers.sb3.env.tally import TallyVecEnv

SPACES = (
    spaces.Box(-5, 5, (3,), np.float32),
    spaces.Box(-5, 5, (2, 3), np.float64),
    spaces.Box(0, 1, (2, 3, 2), np.int8),
    spaces.Box(0, 255, (9, 8, 3), np.uint8),
    spaces.Box(0, 255, (3, 9, 8), np.uint8),
    spaces.Box(0, 255, (8, 8), np.uint8),
    spaces.Discrete(5, start=2),
    spaces.MultiDiscrete([2, 3, 4]),
    spaces.MultiBinary(4),
    spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1, 1, (2,), np.float32), "c": spaces.MultiBinary(2)}),
)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SPACES), st.integers(1, 4), st.integers(0, 2**31))
def test_rows_become_the_observations_that_they_were_made_of(space: Any, count: int, seed: int) -> None:
    code = row_code(space)
    space.seed(seed)
    samples = [space.sample() for _ in range(count)]
    rows = np.zeros((count, code.width), np.float32)
    for sample, row in zip(samples, rows, strict=True):
        code.write(sample, row)
    decoded = observation_decoder(space)(rows)
    for number, sample in enumerate(samples):
        parts = sample if isinstance(sample, dict) else {"": sample}
        for key, part in parts.items():
            made = decoded[key] if isinstance(decoded, dict) else decoded
            np.testing.assert_allclose(made[number], part, rtol=1e-6)
            assert made.dtype == np.asarray(part).dtype or not isinstance(part, np.ndarray)


def fading(envs: int = 2) -> SlotVecEnv:
    made = [Fading() for _ in range(envs)]
    agent = made[0].possible_agents[0]
    return SlotVecEnv(PythonVector(made), made[0].observation_spaces[agent], made[0].action_spaces[agent])


def test_an_agent_is_idle_before_it_appears_and_after_it_ended() -> None:
    """Of a, b and c, c appears in step 1, a ends in step 2, and step 4 truncates b and ends c."""
    told = []
    with closing(fading(1)) as env:
        env.seed(0)
        env.reset()
        for _ in range(8):
            _, rewards, dones, infos = env.step(np.zeros(3, np.int64))
            ends = ["terminal_observation" in info for info in infos]
            told.append((env.acted.tolist(), rewards.tolist(), dones.tolist(), ends, int(env.finished.sum())))
    nobody = [False, False, False]
    episode = [
        ([True, True, False], [1, 1, 0], [False, False, True], nobody, 0),
        ([True, True, True], [2, 2, 2], [True, False, False], nobody, 0),
        ([False, True, True], [0, 3, 3], [True, False, False], nobody, 0),
        ([False, True, True], [0, 4, 4], [True, True, True], [False, True, False], 1),
    ]
    assert told == episode * 2


def learn(kind: Any, policy: str = "MlpPolicy", **options: Any) -> tuple[Any, TallyVecEnv]:
    tally = TallyVecEnv(fading(), 100)
    model = kind(policy, tally, seed=0, device="cpu", **options)
    leave_out_idle(model, lambda: tally.source.acted)
    model.learn(160)
    return model, tally


def marked(samples: Any) -> np.ndarray[Any, Any]:
    return samples.old_values.numpy() if hasattr(samples, "old_values") else samples.rewards.numpy()


@pytest.mark.parametrize("kind", [PPO, RecurrentPPO])
def test_rollouts_never_show_the_rows_of_idle_slots(kind: Any) -> None:
    policy = "MlpLstmPolicy" if kind is RecurrentPPO else "MlpPolicy"
    model, tally = learn(kind, policy, n_steps=40, batch_size=16, n_epochs=1)
    buffer = model.rollout_buffer
    living = buffer.living.copy()
    assert 0 < (~living).sum() < living.size / 2
    marks = np.where(living, 1.0, 9.0).astype(np.float32)
    buffer.values = buffer.swap_and_flatten(marks[:, :, None]).reshape(-1, 1)
    seen = 0
    for samples in buffer.get(16):
        masked = samples.mask.numpy() > 0 if kind is RecurrentPPO else np.ones(len(samples.old_values), bool)
        assert (marked(samples).ravel()[masked] == 1).all()
        seen += int(masked.sum())
    assert abs(seen - living.sum()) <= 1  # a last minibatch of one row is left out
    assert tally.agent_steps < tally.env_steps * (tally.num_envs // tally.envs)
    tally.close()


def test_replay_buffers_hold_what_was_acted_alone() -> None:
    model, tally = learn(DQN, buffer_size=500, learning_starts=20)
    buffer = model.replay_buffer
    stored = buffer.size() * buffer.n_envs
    assert tally.agent_steps - buffer.n_envs < stored <= tally.agent_steps
    assert len(buffer.waiting) == tally.agent_steps - stored
    assert buffer.rewards[: buffer.size()].sum() > 0
    tally.close()


def test_masks_reach_maskable_ppo_and_both_seats_learn() -> None:
    config = EnvironmentConfig(env_id="classic/tictactoe_v3")
    envs = [make_env(config) for _ in range(2)]
    spec = envs[0].spec
    others = ModelOthers(spec, None, rotating=spec.possible_agents)
    first = spec.possible_agents[0]
    env = SlotVecEnv(PythonVector(envs, others), spec.observation_spaces[first], spec.action_spaces[first])
    model = MaskablePPO("MlpPolicy", env, n_steps=32, batch_size=16, n_epochs=1, seed=0, device="cpu")
    others.models = dict.fromkeys(spec.possible_agents, model)
    with closing(env):
        model.learn(128)
        assert [env.acting(index) for index in (0, 1)] == [(agent,) for agent in spec.possible_agents]
        assert not np.stack(env.env_method("action_masks")).all()
    masks = model.rollout_buffer.action_masks.reshape(-1, 9)
    taken = model.rollout_buffer.actions.reshape(-1).astype(int)
    assert masks[np.arange(len(taken)), taken].all()


def test_an_agent_that_waits_is_an_error() -> None:
    with closing(fading(1)) as env:
        env.seed(0)
        env.reset()
        vector: Any = env.vector
        step = vector.step

        def pretend(act: Any) -> None:
            step(act)
            vector.active[0] = vector.term[0] = vector.trunc[0] = 0

        vector.step = pretend
        with pytest.raises(MosaicError, match="neither acted nor ended in a step in which others acted"):
            env.step(np.zeros(env.num_envs, np.int64))


def test_a_compiled_env_gives_the_observations_of_its_kernel() -> None:
    config = EnvironmentConfig(env_id="gym/CartPole-v1")
    kernel = find_kernel(config)
    assert kernel is not None
    with closing(make_env(config)) as made:
        (agent,) = made.possible_agents
        env = SlotVecEnv(CompiledVector(kernel, 3), made.observation_spaces[agent], made.action_spaces[agent])
    env.seed(4)
    observations = env.reset()
    assert observations.shape == (3, 4)
    assert np.abs(observations).max() <= 0.05
    total = np.zeros(3)
    for _ in range(30):
        observations, rewards, dones, infos = env.step(np.ones(3, np.int64))
        total += rewards
        assert [info.get("TimeLimit.truncated") for info in infos] == [False if done else None for done in dones]
    assert (total == 30).all()
