"""SAC and TD3 find a known optimum, continue exactly after a checkpoint, and say what they cannot do."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.learners.actor_critic.build import assemble_actor_critic
from mosaic.learners.actor_critic.engine import first_critic_weights
from mosaic.learners.actor_critic.options import SacOptions, Td3Options
from mosaic.models.fused import build_model, greedy_rows, make_scratch
from mosaic.workers.native.worker import NativeWorker
from mosaic.workers.resolution import resolve

DECAY, PUSH, COST, GAMMA = 0.9, 0.5, 0.8, 0.9
SMALL = {"hidden": (32, 32), "learning_rate": 3e-3, "batch_size": 64, "gamma": GAMMA, "buffer_size": 5000}


class Regulator(gymnasium.Env):
    """Linear system with quadratic cost, whose optimal policy is linear; its actions range from 1 to 5, around 3."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Box(1.0, 5.0, (1,), np.float32)
    sent: ClassVar[list[tuple[float, float]]] = []  # what it was in, and the action

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._x, self._time = self.np_random.uniform(-1, 1), 0
        return np.array([self._x], np.float32), {}

    def step(self, action):
        self.sent.append((self._x, float(action[0])))
        push = (float(action[0]) - 3) / 2
        reward = -(self._x**2 + COST * push**2)
        self._x, self._time = DECAY * self._x + PUSH * push, self._time + 1
        return np.array([self._x], np.float32), reward, False, self._time == 10, {}


def best_gain():
    """Solve the discounted Riccati equation by iteration."""
    value = 1.0
    for _ in range(1000):
        gain = GAMMA * value * DECAY * PUSH / (COST + GAMMA * value * PUSH**2)
        value = 1 + COST * gain**2 + GAMMA * value * (DECAY - PUSH * gain) ** 2
    return gain


@pytest.fixture
def _regulator():
    gymnasium.register("MosaicRegulator-v0", entry_point=lambda **_: Regulator())
    Regulator.sent.clear()
    yield
    del gymnasium.registry["MosaicRegulator-v0"]


def config(env, total=None, seed=0, **more):
    document = {"seed": seed, "environment": {"env_id": env}, "training": {"total_timesteps": total}, **more}
    return RunConfig.model_validate(document)


def train(assembled, total):
    while assembled.learner.env_steps < total:
        assembled.learner.iterate()
    return assembled


@pytest.mark.usefixtures("_regulator")
@pytest.mark.parametrize(
    "options",
    [SacOptions(**SMALL), SacOptions(**SMALL, ent_coef=0.005), Td3Options(**SMALL, exploration_noise=0.3)],
    ids=["sac", "given", "td3"],
)
def test_the_optimum_of_a_linear_system_is_found(options):
    made = train(assemble_actor_critic(config("gym/MosaicRegulator-v0", 2500), options), 2500)
    rows = np.linspace(-1, 1, 9)
    assert np.abs(greedy(made, rows) + best_gain() * rows).mean() < 0.08
    made.learner.close()


def greedy(made, states):
    """Return the policy's actions, from -1 to 1."""
    rows = np.asarray(states, np.float32)[:, None]
    model, act = build_model(made.architectures[0]), np.zeros((len(rows), 1), np.float32)
    greedy_rows(made.learner.weights(0), model, rows, np.zeros((0, 2), np.uint8), make_scratch(model, len(rows)), act)
    return act[:, 0]


@pytest.mark.usefixtures("_regulator")
def test_actions_are_drawn_evenly_until_it_learns_and_scaled_to_the_bounds_of_the_env():
    options = Td3Options(**{**SMALL, "learning_rate": 1e-9}, learning_starts=400, exploration_noise=1e-6)
    made = train(assemble_actor_critic(config("gym/MosaicRegulator-v0", 500), options), 500)
    states, actions = np.array(Regulator.sent).T
    counts, _ = np.histogram(actions[:400], bins=4, range=(1, 5))
    assert counts.min() > 70  # of 100, in each quarter of the range
    assert actions[400:] == pytest.approx(3 + 2 * greedy(made, states[400:]), abs=1e-3)
    made.learner.close()


def test_layers_of_critics_start_as_torchs_do():
    dims = (5, 64, 48, 1)
    flat = first_critic_weights(dims, seed=3)
    for rows, columns in pairwise(dims):
        layer, flat = np.split(flat, [(rows + 1) * columns])
        assert 0.9 < np.abs(layer).max() * rows**0.5 <= 1  # weights and biases: evenly within 1 / sqrt(inputs)
        assert abs(layer.mean()) * rows**0.5 < 0.2
    assert flat.size == 0


@pytest.mark.parametrize("options", [SacOptions, Td3Options])
@pytest.mark.parametrize("buffer_size", [5000, 150])  # the second has gone round
def test_a_resumed_run_is_bit_identical(options, buffer_size):
    options = options(**{**SMALL, "buffer_size": buffer_size}, learning_starts=60)
    run = config("gym/Pendulum-v1", 320)
    whole = train(assemble_actor_critic(run, options), 320).learner
    first = train(assemble_actor_critic(run, options), 192).learner
    second = assemble_actor_critic(run, options).learner
    progress = first.progress()
    second.before.env_steps, second.before.agent_steps = progress.env_steps, progress.agent_steps
    second.load_training_state(
        [first.weights(0)], {name: array.copy() for name, array in first.training_state().items()}
    )
    while second.env_steps < 320:
        second.iterate()
    ours, theirs = second.training_state(), whole.training_state()
    skipped = {f"{second.plan.names[0]}/steps", "lane.tally.decisions"}  # of one attempt
    assert set(ours) == set(theirs)
    for name in set(ours) - skipped:
        assert ours[name].tobytes() == theirs[name].tobytes(), name
    assert second.weights(0).tobytes() == whole.weights(0).tobytes()


def test_without_its_replay_buffer_a_run_collects_one_first():
    options = SacOptions(**SMALL, learning_starts=60, save_replay=False)
    run = config("gym/Pendulum-v1", 320)
    first = train(assemble_actor_critic(run, options), 128).learner
    state = first.training_state()
    assert not [name for name in state if "replay" in name]
    second = assemble_actor_critic(run, options).learner
    second.before.env_steps = 128
    second.load_training_state([first.weights(0)], state)
    while second.env_steps < 170:
        second.iterate()
    assert second.weights(0).tobytes() == first.weights(0).tobytes()
    while second.env_steps < 240:
        second.iterate()
    assert second.weights(0).tobytes() != first.weights(0).tobytes()


@pytest.mark.parametrize(
    ("env", "settings", "words"),
    [
        (
            "gym/CartPole-v1",
            {},
            r"SAC acts in a Box of floats with finite bounds, but agent_0 acts in Discrete\(2\).*ppo",
        ),
        ("gym/CarRacing-v3", {}, r"SAC reads numbers, and agent_0 see pictures.*--worker sb3 --algo sac"),
        ("mpe/simple_spread_v3", {"policy_configuration": "independent"}, r"SAC trains one policy, but 3 learn here"),
        ("gym/Pendulum-v1", {"resources": {"num_gpus": 1}}, r"SAC learns on the CPU"),
        ("gym/Pendulum-v1", {"resources": {"num_env_runners": 2}}, r"SAC steps a compiled env in one thread"),
    ],
)
def test_what_it_cannot_do_names_the_nearest(env, settings, words):
    document = {"environment": {"env_id": env}, "training": {"worker": "native", "algorithm": "sac"}, **settings}
    if "mpe" in env:
        document["environment"]["options"] = {"continuous_actions": True}
    with pytest.raises(InputError, match=words):
        resolve(RunConfig.model_validate(document))


def test_both_are_algorithms_of_the_native_worker():
    assert {"sac", "td3"} <= set(NativeWorker.info.algorithms)
    chosen = resolve(
        RunConfig.model_validate({"environment": {"env_id": "gym/Pendulum-v1"}, "training": {"algorithm": "sac"}})
    )
    assert chosen.config.training.worker == "native"
