"""Recorded decisions in the replay buffer: their losses, their share of a batch, CQL, and DQN from examples."""

import numpy as np
import pytest
from gymnasium import spaces

from mosaic.core.errors import InputError
from mosaic.envs.vector.encoding import ActionHead
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.dqn.algorithm import make_hyper
from mosaic.learners.dqn.build import assemble_cql, assemble_dqn
from mosaic.learners.dqn.conservative import conservative_hyper
from mosaic.learners.dqn.fused_engine import FusedDqnEngine, first_q_weights
from mosaic.learners.dqn.kernels import CONSERVATIVE, MARGIN, STATS, gradient
from mosaic.learners.dqn.options import CqlOptions, DqnOptions
from mosaic.learners.dqn.replay_buffer import ReplayBuffer, make_ring
from mosaic.learners.dqn.torch_engine import TorchDqnEngine
from mosaic.learners.recorded import RecordedSteps
from mosaic.models.architecture import Architecture
from mosaic.models.fused import build_model, make_scratch
from mosaic.models.layout import count_weights
from tests.learners.bc.bc_cases import run_config, train, trajectory
from tests.learners.dqn.test_dqn_gradients import torch_q

torch = pytest.importorskip("torch")

KEPT, WIDTH, ACTIONS = 40, 11, 5
HEAD = ActionHead("categorical", (ACTIONS,))
ARCHITECTURE = Architecture(WIDTH, HEAD, (24, 17), "tanh", shared=True)
CORRIDOR = {"env_id": "mosaic/gridworld", "options": {"map": "S" + "." * 8 + "G", "max_steps": 30}}


def shape(masked):
    return VectorShape(1, ("agent",), False, (WIDTH,), (HEAD,), masked)


def recorded(masked, rows=KEPT):
    random = np.random.default_rng(0)
    mask = np.zeros((0, ACTIONS), np.uint8)
    act = random.integers(ACTIONS, size=rows)
    if masked:
        mask = (random.random((rows + 1, ACTIONS)) < 0.5).astype(np.uint8)
        mask[np.arange(rows), act] = 1
        mask[:, 3] = 1
    return RecordedSteps(
        seen=random.standard_normal((rows + 1, WIDTH)).astype(np.float32),
        seen_mask=mask,
        place=np.arange(rows),
        act=act[:, None].astype(np.float32),
        reward=random.standard_normal(rows).astype(np.float32),
        terminated=(random.random(rows) < 0.2).astype(np.uint8),
        weight=random.choice([0.0, 0.5, 1.0], rows).astype(np.float32),
        trajectory=np.zeros(rows, np.int64),
        episode=np.zeros(rows, np.int64),
    )


def hyper_of(**numbers):
    hyper = make_hyper(DqnOptions(), envs=1, total_env_steps=None, learns=True)
    return hyper._replace(**{name: type(getattr(hyper, name))(value) for name, value in numbers.items()})


@pytest.mark.parametrize("masked", [False, True])
def test_the_losses_of_recorded_decisions_have_autograds_gradient(masked):
    model, weights = build_model(ARCHITECTURE), first_q_weights(ARCHITECTURE, 1) * 3
    steps, ring = recorded(masked), make_ring(shape(masked), 60, recorded=recorded(masked))
    random = np.random.default_rng(4)
    ring.obs[KEPT:] = random.standard_normal((60, WIDTH))
    idx = random.integers(KEPT + 60, size=64)
    goals = random.standard_normal(64).astype(np.float32)
    hyper = hyper_of(alpha=0.6, demo_coef=1.3, demo_margin=0.4)
    ours, stats = np.full_like(weights, 7.0), np.zeros(STATS)
    gradient(weights, ours, model, hyper, ring, idx, goals, make_scratch(model, 64), stats)

    flat = torch.tensor(weights).double().requires_grad_()
    values = torch_q(flat, ARCHITECTURE, ring.obs[idx])
    act = torch.tensor(ring.act[idx])[:, None]
    taken = values.gather(1, act)[:, 0]
    kept = idx < KEPT
    legal = values[kept]
    if masked:
        legal = legal.masked_fill(torch.tensor(steps.mask[idx[kept]]) == 0, -torch.inf)
    conservative = legal.logsumexp(1) - taken[kept]
    apart = torch.full_like(legal, 0.4).scatter(1, act[kept], 0.0)
    margin = torch.tensor(steps.weight[idx[kept]]).double() * ((legal + apart).max(1).values - taken[kept])
    huber = torch.nn.functional.smooth_l1_loss(taken, torch.tensor(goals).double())
    (huber + (0.6 * conservative.sum() + 1.3 * margin.sum()) / 64).backward()
    theirs = flat.grad.numpy()
    assert np.linalg.norm(ours - theirs) / np.linalg.norm(theirs) < 1e-5
    assert stats[CONSERVATIVE] == pytest.approx(float(conservative.detach().sum()), rel=1e-4)
    assert stats[MARGIN] == pytest.approx(float(margin.detach().sum()), rel=1e-4)
    assert 0 < kept.sum() < 64


@pytest.mark.parametrize("masked", [False, True])
def test_both_engines_learn_the_same_from_one_decision(masked):
    """The engines draw other batches; of one recorded decision every batch is the same."""
    one, hyper = recorded(masked, rows=1), hyper_of(alpha=0.6, demo_coef=1.3, learning_rate=1e-2, target_every=2)
    one = RecordedSteps(**{**{name: getattr(one, name) for name in one.__slots__}, "weight": np.ones(1, np.float32)})
    fused = FusedDqnEngine(ARCHITECTURE, shape(masked), hyper, 8, 1, 0, one)
    other = TorchDqnEngine(ARCHITECTURE, shape(masked), hyper, 8, 1, 0, None, one)
    start = fused.weights()
    other.load(start, start)
    for engine in (fused, other):
        engine.train_recorded(0, 5, 3)
    assert np.linalg.norm(fused.weights() - start) > 0.1
    np.testing.assert_allclose(fused.weights(), other.weights(), atol=2e-4)
    np.testing.assert_allclose(fused.stats, other.stats, rtol=1e-2, atol=1e-3)
    assert len(start) == count_weights(ARCHITECTURE)


def test_the_target_net_of_cql_is_copied_after_a_number_of_updates():
    options = CqlOptions(dataset="demo:walks", target_update_interval=3)
    hyper = conservative_hyper(options, learns=True)
    engine = FusedDqnEngine(ARCHITECTURE, shape(False), hyper, options.batch_size, 1, 0, recorded(False))
    start = engine.training_state()["target"]
    engine.train_recorded(0, 2, 3)
    assert (engine.training_state()["target"] == start).all()
    engine.train_recorded(2, 1, 4)
    assert (engine.training_state()["target"] == engine.weights()).all()
    assert not (engine.weights() == start).all()


def test_batches_have_their_share_of_recorded_decisions():
    buffer = ReplayBuffer(shape(False), 100, recorded=recorded(False))
    random = np.random.default_rng(0)
    assert (buffer.draw(random, 1000, 0.25) < KEPT).all()  # nothing else is there yet
    buffer.ring.written[0] = 30
    drawn = buffer.draw(random, 4000, 0.25)
    assert 0.2 < (drawn < KEPT).mean() < 0.3
    assert drawn.max() == KEPT + 29
    buffer.ring.written[0] = 1000
    assert buffer.draw(random, 4000, 0.0).min() >= KEPT


def walks(episodes=6, right=(2,), controllers=("human",)):
    """Walks along a corridor of ten cells, by the given actions in turn, to the goal at its end."""
    found = []
    for number in range(episodes):
        cell, cells, actions = 0, [0], []
        while cell < 9:
            actions.append(right[len(actions) % len(right)])
            cell = min(9, max(0, cell + {0: -1, 2: 1}.get(actions[-1], 0)))
            cells.append(cell)
        rewards = np.zeros(len(actions))
        rewards[-1] = 1
        who = tuple(controllers[step % len(controllers)] for step in range(len(actions)))
        found.append(
            (
                number,
                trajectory(
                    np.array(cells),
                    np.array(actions),
                    spaces.Discrete(10),
                    spaces.Discrete(4),
                    rewards=rewards,
                    controllers=who,
                ),
            )
        )
    return found


def corridor(algorithm, total):
    return run_config("-", total, algorithm=algorithm, environment=CORRIDOR)


def values_of(assembled):
    rows = np.eye(10, dtype=np.float32)
    flat, architecture = torch.tensor(assembled.learner.weights(0)).double(), assembled.architectures[0]
    with torch.no_grad():
        return torch_q(flat, architecture, rows)[:, :4].numpy()


def test_cql_finds_the_way_and_values_what_was_not_recorded_low():
    options = CqlOptions(
        dataset="demo:walks", target_update_interval=50, hidden=(32,), learning_rate=3e-3, alpha=0.1, gamma=0.9
    )
    assembled = assemble_cql(corridor("cql", 60_000), options, walks(right=(2, 2, 0, 1)))
    losses = train(assembled.learner, 60_000)
    found = values_of(assembled)
    assert (found[:9].argmax(1) == 2).all()
    assert found[8, 2] == pytest.approx(1.0, abs=0.25)
    assert found[:9, 3].max() < found[:9, 2].min()  # up was never recorded
    assert losses["conservative_loss"] > 0
    assembled.learner.close()


def test_a_resumed_cql_run_learns_the_same():
    def made():
        return assemble_cql(corridor("cql", 10**6), CqlOptions(dataset="demo:walks", hidden=(8,)), walks())

    whole, first, second = made(), made(), made()
    train(whole.learner, 12_288)
    train(first.learner, 4_096)
    second.learner.before.env_steps = first.learner.env_steps
    second.learner.load_training_state([first.learner.weights(0)], first.learner.training_state())
    train(second.learner, 12_288)
    assert (whole.learner.weights(0) == second.learner.weights(0)).all()


def test_a_dataset_that_has_grown_is_not_continued_with():
    options = CqlOptions(dataset="demo:walks", hidden=(8,))
    first, second = (assemble_cql(corridor("cql", 10**6), options, walks(episodes)).learner for episodes in (6, 7))
    with pytest.raises(InputError, match="The dataset has 63 steps for 'shared' now, and had 54 when the checkpoint"):
        second.load_training_state([first.weights(0)], first.training_state())


def test_examples_are_played_after_pretraining():
    options = DqnOptions(
        dataset="demo:walks",
        hidden=(32,),
        learning_rate=3e-3,
        demo_pretrain=300,
        learning_starts=0,
        exploration_initial_eps=0,
        exploration_final_eps=0,
    )
    assembled = assemble_dqn(corridor("dqn", 200), options, 0, walks())
    losses = train(assembled.learner, 90)
    progress = assembled.learner.progress()
    assert progress.episodes == progress.env_steps // 9  # the shortest way from the first episode on
    assert losses["margin_loss"] < 0.8
    assembled.learner.close()


def test_pretraining_is_part_of_the_loop_and_continues_after_a_stop():
    options = DqnOptions(dataset="demo:walks", hidden=(8,), demo_pretrain=300, learning_starts=0)
    whole, first, second = (assemble_dqn(corridor("dqn", 200), options, 0, walks()).learner for _ in range(3))
    for _ in range(3):
        whole.iterate()
    first.iterate()  # 128 updates; a stop comes between two iterations
    losses = first.progress().losses[0]
    assert (first.env_steps, losses["updates"], losses["pretraining_updates"]) == (0, 128, 128)
    second.load_training_state([first.weights(0)], first.training_state())
    second.iterate()
    second.iterate()
    assert second.progress().losses[0]["pretraining_updates"] == 300
    assert (whole.weights(0) == second.weights(0)).all()
    second.iterate()
    assert second.env_steps > 0
    for learner in (whole, first, second):
        learner.close()


def test_whose_decisions_are_examples_must_be_said():
    mixed, config = walks(controllers=("human", "run:1")), corridor("dqn", 200)
    with pytest.raises(InputError, match=r"holds decisions of human, run:1\. Say whose are examples: --set training"):
        assemble_dqn(config, DqnOptions(dataset="demo:walks"), 0, mixed)
    options = DqnOptions(dataset="demo:walks", controller_weights={"human": 1, "*": 0})
    assembled = assemble_dqn(config, options, 0, mixed)
    assert set(assembled.learner.engine.ring.expert) == {0.0, 1.0}
    assembled.learner.close()


def test_options_of_examples_need_a_dataset():
    with pytest.raises(ValueError, match="'demo_coef' needs recorded decisions: set 'dataset', or leave it out"):
        DqnOptions(demo_coef=2.0)
