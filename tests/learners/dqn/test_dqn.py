"""DQN remembers what belongs to each decision, learns, goes on after a checkpoint, and says what it cannot do."""

from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.turn import Turn
from mosaic.envs.adapters.gymnasium import AGENT
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.envs.vector.in_process import PythonVector
from mosaic.envs.vector.layout import VectorArrays
from mosaic.learners.agent_roles import TrainingPlan, read_agent_roles
from mosaic.learners.dqn.algorithm import DqnLearner
from mosaic.learners.dqn.build import assemble_dqn, q_architecture
from mosaic.learners.dqn.checks import check_dqn, ring_bytes
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.dqn.replay_buffer import hold, make_held, make_ring, settle
from mosaic.learners.normalization import RunningMoments
from mosaic.models.fused import build_model, greedy_rows, make_scratch, policy_outputs
from mosaic.policies.network import NetworkPolicyController
from mosaic.testing.toys import Alternating, Fading
from mosaic.workers.native.worker import NativeWorker

CARTPOLE, LAKE = "gym/CartPole-v1", {"env_id": "gym/FrozenLake-v1", "options": {"is_slippery": False}}
SMALL = DqnOptions(
    learning_rate=1e-3, buffer_size=2000, learning_starts=100, train_freq=4, gradient_steps=2, hidden=(16, 16),
    target_update_interval=40, exploration_fraction=0.5,
)  # fmt: skip
ZOO = DqnOptions(
    learning_rate=2.3e-3, batch_size=64, buffer_size=100_000, learning_starts=1000, gamma=0.99, train_freq=256,
    target_update_interval=10, gradient_steps=128, exploration_fraction=0.16, exploration_final_eps=0.04,
    hidden=(256, 256),
)  # fmt: skip


def one_policy(agents):
    return TrainingPlan(("shared",), (0,) * agents, (True,))


def config(env, total=None, seed=0, **more):
    environment = {"env_id": env} if isinstance(env, str) else env
    data = {"seed": seed, "environment": environment, "training": {"total_timesteps": total}, **more}
    return RunConfig.model_validate(data)


def trained(env, options, total, seed=0, **more):
    assembled = assemble_dqn(config(env, total, seed, **more), options)
    while assembled.learner.env_steps < total:
        assembled.learner.iterate()
    assembled.learner.close()
    return assembled


def played(env, steps, size=100):
    """What is remembered of a toy: (agent's sight, action, reward, next sight or None, follows)."""
    vector = PythonVector([env])
    vector.reset(0)
    arrays = VectorArrays(
        vector.obs, vector.mask, vector.who, vector.active, vector.rew, vector.term, vector.trunc, vector.fin
    )
    ring, held = make_ring(vector.shape, size), make_held(vector.shape)
    for step in range(steps):
        act = np.full((vector.shape.slots, 1), step % 3, np.float32)
        hold(held, arrays, 1, act)
        vector.step(act)
        settle(ring, held, arrays, 1, vector.rew)
    vector.close()
    return ring, [
        (
            int(ring.obs[k].argmax()) % 10,
            int(ring.act[k]),
            float(ring.reward[k]),
            int(ring.next_obs[k].argmax()) if ring.follows[k] else None,
        )
        for k in range(min(size, ring.written[0]))
    ]


def test_in_turns_a_decision_is_paid_until_the_agent_decides_again():
    _, memory = played(Alternating(), 4)
    assert [(*kept[:3], kept[3] if kept[3] is None else kept[3] % 10) for kept in memory] == [
        (0, 0, 2.0, 2),  # x; o's move pays it 2
        (1, 1, 3.0, 3),  # o; the 1 before its first move is nobody's
        (2, 2, -5.0, None),
        (3, 0, 1.0, None),
    ]


def test_truncation_continues_from_the_final_observation_and_termination_does_not():
    _, memory = played(Fading(), 4)
    last = [kept for kept in memory if kept[0] == 3]
    assert last == [(3, 0, 4.0, 94), (3, 0, 4.0, None)]  # b was cut off, c was terminated
    assert [kept for kept in memory if kept[3] is None and kept[0] == 1] == [(1, 1, 2.0, None)]  # a
    assert len(memory) == 2 + 4 + 3


def test_an_episode_after_another_begins_without_debts():
    _, memory = played(Alternating(), 12)
    assert [kept[2] for kept in memory] == [2.0, 3.0, -5.0, 1.0] * 3


def test_the_ring_writes_over_the_oldest():
    ring, memory = played(Alternating(), 6, size=4)
    assert ring.written[0] == 5
    assert [kept[2] for kept in memory] == [2.0, 3.0, -5.0, 1.0]
    assert ring.obs[0].argmax() != played(Alternating(), 4)[0].obs[0].argmax()  # of the second episode


class Plain:
    """Hides that a vector is compiled."""

    def __init__(self, vector):
        self.hidden = vector

    def __getattr__(self, name):
        return getattr(self.hidden, name)


@pytest.mark.parametrize("env", [CARTPOLE, "mosaic/tictactoe"])
def test_python_and_machine_code_learn_the_same(env):
    weights = []
    for hide in (Plain, lambda vector: vector):
        vector = hide(make_compiled_vector(EnvironmentConfig(env_id=env), 3))
        architecture = q_architecture(vector.shape, SMALL)
        learner = DqnLearner(vector, one_policy(len(vector.shape.agents)), architecture, SMALL, 5, 1000)
        while learner.env_steps < 1000:
            learner.iterate()
        progress = learner.progress()
        weights.append((learner.weights(0), progress.returns[0], progress.losses[0]))
        assert min(learner.split()) > 0
        assert learner.split() == (0, 0, 0)
    np.testing.assert_allclose(weights[0][0], weights[1][0], atol=1e-6)
    assert (weights[0][1] == weights[1][1]).all()
    assert weights[0][2] == pytest.approx(weights[1][2], rel=1e-4)


def test_values_are_those_of_the_shortest_way():
    options = SMALL.model_copy(update={"batch_size": 64, "learning_rate": 2e-3, "gamma": 0.9, "train_freq": 1})
    learner = trained(LAKE, options, 6000).learner
    vector = make_compiled_vector(config(LAKE).environment, 1)
    model = build_model(q_architecture(vector.shape, options))
    scratch, act = make_scratch(model, 1), np.zeros((1, 1), np.float32)
    vector.reset(0)
    start = policy_outputs(learner.weights(0), model, vector.obs, scratch)[0, :4].max()
    assert start == pytest.approx(0.9**5, abs=0.05)
    for _ in range(6):
        greedy_rows(learner.weights(0), model, vector.obs, vector.mask, scratch, act)
        vector.step(act)
    assert vector.term[0]
    assert vector.rew[0] == 1


def test_masks_are_honoured_and_double_learning_learns():
    options = SMALL.model_copy(update={"double_q": True, "exploration_final_eps": 0.2})
    assembled = trained({"env_id": "mosaic/tictactoe", "num_envs": 4}, options, 3000)
    progress = assembled.learner.progress()
    assert progress.lengths.min() >= 5  # an illegal move would have ended the game
    assert progress.losses[0]["loss"] > 0
    assert progress.agent_steps == progress.env_steps == 3000
    assert assembled.learner.plan.names == ("shared",)
    assert "compiled twin" in assembled.said


class Corridor(gymnasium.Env):
    """Right is always better; cut off after 8 steps. Nobody has compiled it."""

    observation_space, action_space = spaces.Box(-20, 20, (1,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.place, self.time = 0, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.place += 2 * int(action) - 1
        self.time += 1
        return np.full(1, self.place, np.float32), float(action), False, self.time == 8, {}


def test_python_envs_learn_too():
    env = {"env_id": f"python:{__name__}:Corridor"}
    assembled = trained(env, SMALL, 2000)
    assert "Python envs" in assembled.said
    assert assembled.learner.progress().return_mean > 6.5
    assert assembled.learner.progress().lengths.tolist() == [8] * 100


def test_a_run_ends_where_it_should():
    assert trained({"env_id": CARTPOLE, "num_envs": 4}, SMALL, 1502).learner.env_steps == 1504


def test_one_seed_one_result():
    first, again, other = (trained(CARTPOLE, SMALL, 600, seed).learner.weights(0) for seed in (1, 1, 2))
    assert (first == again).all()
    assert not np.allclose(first, other)


def nobody(policy):
    return False


def test_a_run_that_trains_nothing_is_refused():
    with pytest.raises(InputError, match="leaves nothing to learn"):
        assemble_dqn(config(CARTPOLE, 500, policies_to_train=f"python:{__name__}:nobody"), SMALL)


def test_a_new_attempt_continues_but_fills_its_buffer_first():
    old = trained(CARTPOLE, SMALL, 1000).learner
    state, weights = old.training_state(), old.weights(0)
    new = assemble_dqn(config(CARTPOLE, 2000, seed=9), SMALL).learner
    new.before.env_steps, new.before.episodes = old.env_steps, old.progress().episodes
    new.load_training_state([weights], state)
    assert (new.weights(0) == weights).all()
    assert state.keys() == new.training_state().keys()
    for name, array in new.training_state().items():
        assert (array == state[name]).all(), name
    assert not np.allclose(state["shared/target"], weights)
    new.total_env_steps = 1100
    new.iterate()
    assert (new.weights(0) == weights).all()  # learning_starts is 100
    new.total_env_steps = 2000
    while new.env_steps < 2000:
        new.iterate()
    assert new.env_steps == 2000
    assert new.progress().episodes > old.progress().episodes
    assert not np.allclose(new.weights(0), weights)
    assert new.training_state()["shared/optimiser.count"][0] > state["shared/optimiser.count"][0]
    new.load(0, weights)
    assert (new.training_state()["shared/target"] == weights).all()
    assert new.scaler(0) is None
    with pytest.raises(InputError, match="normalised observations, but DQN does not normalise them"):
        new.load(0, weights, RunningMoments.of_width(4))


def test_a_controller_plays_the_best_value():
    assembled = trained(CARTPOLE, SMALL, 600)
    architecture, spec = assembled.architectures[0], assembled.spec
    rows = {AGENT: row_code(spec.observation_spaces[AGENT])}
    actions = {AGENT: action_code(spec.action_spaces[AGENT])}
    weights = assembled.learner.weights(0)
    controller = NetworkPolicyController(architecture, weights, rows, actions)
    model, seen = build_model(architecture), np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    values = policy_outputs(weights, model, seen, make_scratch(model, 50))
    for row, value in zip(seen, values, strict=True):
        assert controller.act(Turn({AGENT: row}, {}, {}, {}, {}, {}, {})) == {AGENT: int(value[:2].argmax())}


@pytest.mark.parametrize(
    ("env", "more", "text"),
    [
        ("gym/Pendulum-v1", {}, r"DQN chooses one of several actions, but agent_0 acts in Box\(.*--algo ppo"),
        (
            "mosaic/tictactoe",
            {"policy_configuration": "self_play"},
            "DQN does not support self_play. Use --policies parameter_sharing, or PPO: --algo ppo.",
        ),
        (
            "mosaic/tictactoe",
            {"policy_configuration": "independent"},
            r"DQN trains one policy, but 2 learn here: player_1, player_2\. .*--agent NAME=random",
        ),
    ],
)
def test_what_only_ppo_can_do_is_said(env, more, text):
    with pytest.raises(InputError, match=text):
        assemble_dqn(config(env, **more), SMALL)


def test_a_buffer_larger_than_the_machine_is_refused():
    huge = SMALL.model_copy(update={"buffer_size": 10**12})
    with closing(make_env(EnvironmentConfig(**LAKE))) as env:
        roles = read_agent_roles(config(LAKE), env.spec)
        with pytest.raises(InputError, match=r"takes 148,000.0 GB, .* Set buffer_size to \d+ or less"):
            NativeWorker().check(config(LAKE), huge, env.spec)
        check_dqn(config(LAKE), roles, env.spec, SMALL)
        check_dqn(config(LAKE, total=10_000), roles, env.spec, huge)  # it never holds more than the run makes


@pytest.mark.parametrize("env", [CARTPOLE, "mosaic/tictactoe"])
def test_the_size_of_a_buffer_is_known_before_it_is_made(env):
    shape = make_compiled_vector(EnvironmentConfig(env_id=env), 1).shape
    ring = make_ring(shape, 7)
    masks = shape.mask_width if shape.masked else 0
    assert ring_bytes(shape.width, 7, mask_width=masks) == sum(array.nbytes for array in ring) - ring.written.nbytes


def test_a_layer_without_width_is_refused():
    with pytest.raises(ValueError, match="at least 1 wide"):
        DqnOptions(hidden=(8, 0))


def greedy_return(learner, architecture, episodes=100):
    """Of the first episode of each env, without chance."""
    vector = make_compiled_vector(EnvironmentConfig(env_id=CARTPOLE), episodes)
    vector.reset(12345)
    model, weights = build_model(architecture), learner.weights(0)
    scratch, act = make_scratch(model, episodes), np.zeros((episodes, 1), np.float32)
    total, alive = np.zeros(episodes), np.ones(episodes, bool)
    for _ in range(500):
        greedy_rows(weights, model, vector.obs, vector.mask, scratch, act)
        vector.step(act)
        total += alive * vector.rew
        alive &= (vector.term | vector.trunc) == 0
    return total.mean()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.chosen), 1, 2])
def test_cartpole_is_solved_with_the_zoos_numbers(seed):
    """At some time within the run, as the zoo keeps its best policy: DQN forgets and finds again until the end."""
    assembled = assemble_dqn(config(CARTPOLE, 50_000, seed), ZOO)
    learner, best = assembled.learner, 0.0
    for goal in range(2500, 50_001, 2500):
        while learner.env_steps < goal and best < 475:
            learner.iterate()
        best = max(best, greedy_return(learner, assembled.architectures[0]))
    learner.close()
    assert best >= 475
