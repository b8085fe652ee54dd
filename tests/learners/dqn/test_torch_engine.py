"""DQN in torch: the compiled engine's mathematics, pictures kept as bytes, and that it learns from what it sees."""

from contextlib import closing

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import MissingExtraError
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.vector.encoding import ActionHead, row_code
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.dqn import build as dqn_assembly
from mosaic.learners.dqn import checks as dqn_check
from mosaic.learners.dqn.algorithm import DqnLearner, make_hyper
from mosaic.learners.dqn.build import assemble_dqn, q_architecture
from mosaic.learners.dqn.checks import ring_bytes
from mosaic.learners.dqn.fused_engine import FusedDqnEngine
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.dqn.replay_buffer import make_ring
from mosaic.learners.dqn.torch_engine import TorchDqnEngine
from mosaic.models.packed_rows import row_packing
from tests.learners.ppo.test_picture_rollouts import LAYOUTS

EYE = DqnOptions(
    learning_rate=1e-3, buffer_size=5000, learning_starts=200, train_freq=2, gradient_steps=1, hidden=(32,),
    target_update_interval=100, exploration_fraction=0.5, gamma=0.5, torch_threads=1,
)  # fmt: skip


def config(env, total, seed=0, **more):
    data = {"seed": seed, "environment": env, "training": {"total_timesteps": total}, **more}
    return RunConfig.model_validate(data)


def spots(layout):
    return {"env_id": "python:tests.learners.ppo.test_picture_rollouts:Spots", "options": {"layout": layout}}


def trained(env, options, total, seed=0, **more):
    made = assemble_dqn(config(env, total, seed, **more), options)
    with closing(made.learner) as learner:
        while learner.env_steps < total:
            learner.iterate()
    return made


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("max_grad_norm", [0.0, 0.05])
def test_one_update_of_both_engines_leads_to_the_same_weights(masked, double, max_grad_norm):
    options = DqnOptions(double_q=double, max_grad_norm=max_grad_norm, gamma=0.9, learning_rate=1e-2, batch_size=64)
    shape = VectorShape(1, ("agent",), False, (11,), (ActionHead("categorical", (5,)),), masked)
    architecture = q_architecture(shape, options.model_copy(update={"hidden": (24, 16)}))
    hyper = make_hyper(options, 1, 1000, learns=True)
    fused = FusedDqnEngine(architecture, shape, hyper, 64, 64, seed=1)
    torched = TorchDqnEngine(architecture, shape, hyper, 64, 64, 2, None)
    target = torched.weights()
    for engine in (fused, torched):
        engine.load(fused.weights(), target)
        random, ring = np.random.default_rng(0), engine.ring
        ring.obs[:], ring.next_obs[:] = random.standard_normal((2, 64, 11))
        ring.act[:] = random.integers(5, size=64)
        ring.reward[:] = random.standard_normal(64) * 2
        ring.follows[:] = random.random(64) < 0.7
        if masked:
            ring.next_mask[:] = random.random((64, 5)) < 0.5
            ring.next_mask[:, 3] = 1
        ring.written[0] = 64
    before = fused.weights()
    # The compiled engine draws its batch itself: it gets one whose every row is the same.
    for engine in (fused, torched):
        for array in engine.ring:
            if len(array) == 64:  # there is no mask where everything is legal, and no recorded decision
                array[:] = array[7]
        engine.steps[:] = 4, 10_000
        engine.learn()
    assert not np.allclose(before, fused.weights())
    np.testing.assert_allclose(fused.weights(), torched.weights(), atol=2e-6)
    np.testing.assert_allclose(fused.stats, torched.stats, rtol=1e-4)
    ours, theirs = fused.training_state(), torched.training_state()
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-3, atol=1e-7)


def test_goals_are_the_compiled_engines():
    options = DqnOptions(double_q=True, gamma=0.9)
    shape = VectorShape(1, ("agent",), False, (11,), (ActionHead("categorical", (5,)),), True)
    architecture = q_architecture(shape, options)
    hyper = make_hyper(options, 1, 1000, learns=True)
    fused = FusedDqnEngine(architecture, shape, hyper, 64, 64, seed=1)
    torched = TorchDqnEngine(architecture, shape, hyper, 64, 64, 2, None)
    target = torched.weights()
    torched.load(fused.weights(), target)
    random, ring = np.random.default_rng(0), torched.ring
    ring.next_obs[:] = random.standard_normal((64, 11))
    ring.reward[:] = random.standard_normal(64)
    ring.follows[:] = random.random(64) < 0.7
    ring.next_mask[:] = random.random((64, 5)) < 0.5
    ring.next_mask[:, 3] = 1
    from mosaic.learners.dqn.kernels import aim
    from mosaic.models.fused import build_model, make_scratch

    model, goals, idx = build_model(architecture), np.zeros(64, np.float32), np.arange(64)
    scratch, chosen = make_scratch(model, 64), np.zeros(64, np.int64)
    aim(fused.weights(), target, model, np.float32(0.9), 1, ring, idx, scratch, chosen, goals)
    np.testing.assert_allclose(torched._goals(idx).numpy(), goals, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_teach_exactly_what_floats_teach(layout, monkeypatch):
    packed = trained({**spots(layout), "num_envs": 2}, EYE, 600)
    real = dqn_assembly.DqnLearner
    monkeypatch.setattr(dqn_assembly, "DqnLearner", lambda *given: real(*given[:-2], None, given[-1]))
    plain = trained({**spots(layout), "num_envs": 2}, EYE, 600)
    assert "torch engine" in packed.said
    ours, theirs = packed.learner.engine.ring, plain.learner.engine.ring
    assert ours.obs.dtype == ours.next_obs.dtype == np.uint8
    assert theirs.obs.dtype == np.float32
    assert theirs.obs.nbytes == 4 * ours.obs.nbytes
    written = int(ours.written[0])
    assert written > 590
    packing = row_packing([row_code(spaces.Box(0, 255, LAYOUTS[layout], np.uint8))])
    assert (packing.unpack(ours.obs[:written]) == theirs.obs[:written]).all()
    follows = ours.follows[:written] > 0
    assert (packing.unpack(ours.next_obs[:written])[follows] == theirs.next_obs[:written][follows]).all()
    assert 0 < (~follows).sum() < written
    assert (packed.learner.weights(0) == plain.learner.weights(0)).all()
    assert packed.learner.progress().losses == plain.learner.progress().losses


def test_the_size_of_a_buffer_of_pictures_is_known_before_it_is_made():
    code = row_code(spaces.Box(0, 255, (84, 84, 4), np.uint8))
    packing = row_packing([code])
    shape = VectorShape(1, ("agent",), False, (code.width,), (ActionHead("categorical", (6,)),), False)
    arrays = make_ring(shape, 1000, packing)._replace(written=np.zeros(0, np.int64))
    assert ring_bytes(code.width, 1000, packing) == sum(array.nbytes for array in arrays)
    assert 2 * 84 * 84 * 4 < ring_bytes(code.width, 1, packing) < 2 * 84 * 84 * 4 + 20


def test_masks_are_honoured_in_random_and_greedy_moves():
    vector = make_compiled_vector(EnvironmentConfig(env_id="mosaic/tictactoe"), 4)
    options = EYE.model_copy(update={"exploration_final_eps": 0.2})
    plan = TrainingPlan(("shared",), (0,) * len(vector.shape.agents), (True,))
    learner = DqnLearner(vector, plan, q_architecture(vector.shape, options), options, 5, 1500)
    learner.engine = TorchDqnEngine(
        q_architecture(vector.shape, options), vector.shape, learner._hyper, 32, 1500, 5, None
    )
    while learner.env_steps < 1500:
        learner.iterate()
    assert learner.progress().lengths.min() >= 5  # an illegal move would have ended the game
    assert learner.progress().losses[0]["loss"] > 0


def test_a_new_attempt_starts_from_the_saved_state():
    old = trained(spots("grey"), EYE, 600).learner
    state, weights = old.training_state(), old.weights(0)
    with closing(assemble_dqn(config(spots("grey"), 1200, seed=9), EYE).learner) as new:
        new.before.env_steps = old.env_steps
        new.load_training_state([weights], state)
        assert (new.weights(0) == weights).all()
        for name, array in new.training_state().items():
            assert (array == state[name]).all(), name
        while new.env_steps < 1200:
            new.iterate()
        assert new.training_state()["shared/optimiser.count"][0] > state["shared/optimiser.count"][0] > 0
        assert not np.allclose(new.weights(0), weights)


def test_one_seed_one_result():
    first, again, other = (trained(spots("grey"), EYE, 400, seed).learner.weights(0) for seed in (1, 1, 2))
    assert (first == again).all()
    assert not np.allclose(first, other)


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(dqn_check, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"DQN needs torch for pictures: pip install 'mosaic-rl\[torch\]'"):
        assemble_dqn(config(spots("grey"), 100), EYE)


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "seed"),
    [("grey", 0), ("channels_first", 1), ("channels_last", 2)],
)
@pytest.mark.usefixtures("one_thread")
def test_a_picture_tells_what_to_do(layout, seed):
    """Random play is right every second time; the last 100 episodes still explore with 5 %."""
    learner = trained(spots(layout), EYE, 4000, seed).learner
    progress = learner.progress()
    assert float((progress.returns[0] / progress.lengths).mean()) > 0.85
