"""Rollouts keep pictures as bytes and learn exactly what they would learn from float32."""

from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.vector.encoding import row_code
from mosaic.learners.ppo import build as assembly
from mosaic.learners.ppo.hardware import rollout_bytes
from mosaic.learners.ppo.options import A2cOptions, PpoOptions
from mosaic.learners.rollout.buffers import make_rollout
from mosaic.models.packed_rows import PackedRows, row_packing

LAYOUTS = {"channels_last": (12, 9, 3), "channels_first": (3, 12, 9), "grey": (12, 9)}


class Spots(gymnasium.Env):
    """The half in which a spot lies is the action that pays."""

    action_space = spaces.Discrete(2)

    def __init__(self, layout="grey"):
        self.observation_space = spaces.Box(0, 255, LAYOUTS[layout], np.uint8)
        self.layout = layout

    def _seen(self):
        self.half = int(self.np_random.integers(2))
        picture = self.np_random.integers(0, 60, (12, 9)).astype(np.uint8)
        picture[6 * self.half + self.np_random.integers(6), self.np_random.integers(9)] = 255
        if self.layout == "grey":
            return picture
        return np.stack([picture] * 3, axis=0 if self.layout == "channels_first" else 2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._seen(), {}

    def step(self, action):
        paid, self.time = float(action == self.half), self.time + 1
        return self._seen(), paid, self.time == 8, self.time == 5 and self.half == 0, {}


class Pair(ParallelEnv):
    """One agent sees a picture and numbers, the other a picture alone."""

    metadata = {"name": "pair"}  # noqa: RUF012
    possible_agents = ["both", "eye"]  # noqa: RUF012

    def __init__(self, alike=False):
        mixed = spaces.Dict(numbers=spaces.Box(-9, 9, (3,), np.float32), seen=spaces.Box(0, 255, (8, 8, 3), np.uint8))
        self.seen = {"both": mixed, "eye": mixed if alike else spaces.Box(0, 255, (3, 8, 9), np.uint8)}

    def observation_space(self, agent):
        return self.seen[agent]

    def action_space(self, agent):
        return spaces.Discrete(2 if agent == "both" else 3)

    def _shown(self):
        return {agent: self.seen[agent].sample() for agent in self.agents}

    def reset(self, seed=None, options=None):
        self.agents, self.time = ["both", "eye"], 0
        for number, space in enumerate(self.seen.values()):
            space.seed((seed or 0) + number)
        return self._shown(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.time += 1
        over = self.time == 6
        agents = self.agents
        paid = {agent: float(actions[agent]) for agent in agents}
        shown = self._shown()
        if over:
            self.agents = []
        return shown, paid, dict.fromkeys(agents, False), dict.fromkeys(agents, over), {agent: {} for agent in agents}


class AlikePair(Pair):
    def __init__(self):
        super().__init__(alike=True)

    def action_space(self, agent):
        return spaces.Discrete(2)


def config(env, **more):
    return RunConfig.model_validate({"seed": 3, "environment": {"num_envs": 3, **env}, **more})


CASES = {
    **{
        layout: ({"env_id": f"python:{__name__}:Spots", "options": {"layout": layout}}, {}, PpoOptions())
        for layout in LAYOUTS
    },
    "a2c": ({"env_id": f"python:{__name__}:Spots"}, {}, A2cOptions()),
    "processes": ({"env_id": f"python:{__name__}:Spots"}, {}, PpoOptions(env_processes=2)),
    "memory": ({"env_id": f"python:{__name__}:Spots"}, {}, PpoOptions(memory="gru")),
    "mixed": ({"env_id": f"python:{__name__}:Pair"}, {"policy_configuration": "independent"}, PpoOptions()),
    "critic": (
        {"env_id": f"python:{__name__}:AlikePair"},
        {"policy_configuration": "shared_value_function"},
        PpoOptions(),
    ),
}


def learned(env, more, options):
    """Weights after three iterations, losses, and what the rollout kept."""
    made = assembly.assemble(config(env, **more), options)
    with closing(made.learner) as learner:
        for _ in range(3):
            learner.iterate()
        weights = [learner.weights(policy) for policy in range(len(learner.plan.names))]
        return weights, learner.progress().losses, learner.workers[0].buffer.rows


@pytest.mark.parametrize("case", CASES)
def test_bytes_teach_exactly_what_floats_teach(case, monkeypatch):
    env, more, options = CASES[case]
    options = options.model_copy(update={"n_steps": 16, "batch_size": 32, "n_epochs": 2, "hidden": (8,)})
    weights, losses, packed = learned(env, more, options)
    monkeypatch.setattr(assembly, "row_packing", lambda codes: None)
    floats, float_losses, plain = learned(env, more, options)
    for ours, theirs in zip(weights, floats, strict=True):
        assert (ours == theirs).all()
    assert losses == float_losses
    assert isinstance(packed.obs, PackedRows)
    assert packed.obs.data.dtype == np.uint8
    assert plain.obs.dtype == np.float32
    assert (packed.obs[:] == plain.obs).all()
    assert packed.obs[:].max() >= 1.0
    if case == "critic":
        assert isinstance(packed.critic_obs, PackedRows)
        assert (packed.critic_obs[:] == plain.critic_obs).all()
        assert packed.critic_obs.nbytes == 2 * packed.obs.nbytes
    if case not in ("mixed", "critic"):
        assert plain.obs.nbytes == 4 * packed.obs.nbytes
        assert packed.obs.nbytes == 16 * 3 * np.prod(LAYOUTS[env.get("options", {}).get("layout", "grey")])


def test_normalised_pictures_are_kept_as_numbers():
    options = PpoOptions(normalize_observations=True, n_steps=16, batch_size=32, n_epochs=1)
    _, _, batch = learned(*CASES["grey"][:2], options)
    assert batch.obs.dtype == np.float32


def shape_of(env_id, envs):
    from mosaic.envs.vector.in_process import vector_shape

    env = make_env(EnvironmentConfig(env_id=env_id))
    with closing(env):
        codes = [row_code(space) for space in env.spec.observation_spaces.values()]
        return vector_shape([env] * envs), row_packing(codes)


def test_a_rollout_of_pistonball_takes_a_quarter_of_what_floats_take():
    """The memory is reserved, not written, so that the test is small; nbytes is what a full rollout takes."""
    pytest.importorskip("pymunk")
    shape, packing = shape_of("butterfly/pistonball_v6", 8)
    kept = make_rollout(shape, 128, 0, packing)
    size = (shape.slots, 20, shape.width)
    assert kept.obs.nbytes == packing.size * 128 * 160 == shape.width * 128 * 160
    assert 3.3e9 < kept.obs.nbytes < 3.4e9  # 13.5 GB as float32
    computed = rollout_bytes(128, *size, packing, central=False, batch_size=256)
    floats = rollout_bytes(128, *size, None, central=False, batch_size=256)
    assert sum(array.nbytes for array in kept) <= computed < 3.9e9
    assert floats > 13.4e9


@pytest.mark.parametrize("central", [False, True])
def test_the_size_of_a_rollout_is_known_before_it_is_made(central):
    shape, packing = shape_of(f"python:{__name__}:AlikePair", 3)
    kept = make_rollout(shape, 50, 2 * shape.width if central else 0, packing)
    computed = rollout_bytes(50, 6, 2, shape.width, packing, central=central, batch_size=1)
    made = sum(array.nbytes for array in kept)
    assert made <= computed < 1.5 * made
