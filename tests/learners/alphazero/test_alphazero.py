"""AlphaZero: targets against a readable tree, gradients, images of positions, exact resume, and what is refused."""

import numpy as np
import pytest

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.learners.alphazero.build import assemble_alphazero
from mosaic.learners.alphazero.options import AlphaZeroOptions
from mosaic.learners.alphazero.self_play import (
    NOT_LEGAL,
    PlaySettings,
    improve_policy,
    make_games,
    make_positions,
    write_positions,
)
from mosaic.learners.alphazero.update import STATS, draw_batch, gradient, make_batch
from mosaic.models.fused import build_model, make_scratch
from mosaic.models.layout import count_weights, initial_weights, tensors
from mosaic.models.random import random_streams
from mosaic.policies.search.simulations import halving_schedule, score_edges, simulate
from mosaic.policies.search.tree import make_evaluator, make_leaves, make_rules, make_tree, plant
from tests.policies.search import reference_tree
from tests.policies.search.test_tree import boards_of, python_network
from tests.policies.search.tree_search_cases import (
    CONNECT_FOUR,
    TICTACTOE,
    kernel_of,
    network_of,
    searcher_at,
    tictactoe_position,
)

SMALL = {"hidden": (16,), "simulations": 8, "learning_starts": 64, "batch_size": 32, "buffer_size": 400}


def assembled(seed=0, games=8, env_id=TICTACTOE, total=10_000, options=None, **settings):
    training = {"worker": "native", "algorithm": "alphazero", "total_timesteps": total}
    config = {"environment": {"env_id": env_id, "num_envs": games}, "training": training, "seed": seed}
    asked = RunConfig.model_validate({"policy_configuration": "self_play", **config, **settings})
    return assemble_alphazero(asked, AlphaZeroOptions.model_validate({**SMALL, **(options or {})}))


def test_policy_targets_are_those_of_the_readable_tree():
    network, kernel, simulations = network_of(TICTACTOE, 2), kernel_of(TICTACTOE), 12
    boards = boards_of(5, 6, 7)
    made = searcher_at(TICTACTOE, [tictactoe_position(board) for board in boards], network, simulations + 1)
    tree, leaves = (make(kernel, len(boards), simulations + 1) for make in (make_tree, make_leaves))
    net, rules = make_evaluator(network.architecture, network.weights, len(boards)), make_rules(kernel)
    noise, schedule = np.zeros((len(boards), 9), np.float32), halving_schedule(simulations, 9)
    plant(rules, tree, leaves, net, made.roots, made.shown)
    simulate(rules, tree, leaves, net, simulations, np.float32(1.5), schedule, noise)
    proven = 0
    for game, board in enumerate(boards):
        score, value, policy = (np.zeros(9, np.float32) for _ in range(3))
        score_edges(tree, game, noise[game], score, value)
        improve_policy(tree, game, noise[game], score, policy)
        theirs = reference_tree.gumbel_search(board, python_network(network), simulations, 1.5, noise[game], schedule)
        _, scores = reference_tree.scores(theirs, noise[game])
        if theirs.proof is not None:
            proven += 1
            best = [move for move in theirs.moves if theirs.proofs.get(move) == theirs.proof]
            scores = {move: max(theirs.logits[move], -4.0) if move in best else -1e30 for move in theirs.moves}
        wanted = reference_tree.softmax([scores[move] for move in theirs.moves])
        assert policy[theirs.moves] == pytest.approx(wanted, abs=1e-3)
        assert all(policy[cell] == NOT_LEGAL for cell in range(9) if cell not in theirs.moves)
    assert 0 < proven < len(boards)


def test_value_targets_mix_result_and_search():
    games, done = make_games(1, 2, 3, np.int8, random_streams(0, 1)), make_positions(8, 2, 3, np.int8)
    one = np.float32(1)
    settings = PlaySettings(8, one, one, 1, one, one, np.float32(0.5), 0)
    games.kept[0] = 4
    games.mover[0, :4] = [0, 1, 0, 1]
    games.value[0, :4] = [0.2, -0.4, 0.0, 0.6]
    games.kind[0, :4] = [0, 2, 0, 0]  # the second move was random
    write_positions(games, 0, np.float32(1), 1, done, settings)  # won by agent 1
    assert done.at[0] == 4
    assert games.kept[0] == 0
    assert done.value[:4] == pytest.approx([0.8, -0.5, -0.4, 0.3], abs=1e-6)


def python_values(network, rows):
    first, bias, last, last_bias = (tensor.of(network.weights) for tensor in tensors(network.architecture))
    return (np.maximum(rows @ first + bias, 0) @ last + last_bias)[:, -1]


def test_the_gradient_is_that_of_the_loss():
    network = network_of(TICTACTOE, 1, hidden=(7,))
    model, random = build_model(network.architecture), np.random.default_rng(0)
    batch = make_batch(5, 18, 9)
    batch.obs[:] = random.integers(0, 2, batch.obs.shape)
    batch.policy[:] = random.dirichlet(np.ones(9), 5)
    batch.policy[:, 3] = NOT_LEGAL
    batch.policy[:, :3] += (batch.policy[:, 3:4] + 1) / 3
    legal = batch.policy >= 0
    batch.policy[:] = np.where(legal, batch.policy / np.where(legal, batch.policy, 0).sum(axis=1, keepdims=True), -1)
    batch.value[:] = random.uniform(-1, 1, 5)
    weights, scratch = network.weights * np.float32(0.4), make_scratch(model, 5)
    assert abs(python_values(network._replace(weights=weights), batch.obs)).max() < 1  # beyond, search reads 1

    def loss(flat):
        stats, slope = np.zeros(STATS), np.zeros_like(weights)
        gradient(flat, slope, model, batch, 0.7, scratch, stats)
        return (stats[0] + 0.7 * 0.5 * stats[1]) / 5, slope

    _, slope = loss(weights)
    for place in random.choice(weights.size, 25, replace=False):
        step = np.zeros_like(weights)
        step[place] = 5e-3
        numeric = (loss(weights + step)[0] - loss(weights - step)[0]) / 1e-2
        assert slope[place] == pytest.approx(numeric, abs=2e-3)


@pytest.mark.parametrize(("target", "slope"), [(1, 0.0), (0, 1.0), (-1, 2.0)])
def test_a_won_position_may_be_valued_above_1(target, slope):
    network = network_of(TICTACTOE, 1, hidden=(7,), noise=0.0)
    model, batch, weights = build_model(network.architecture), make_batch(1, 18, 9), network.weights.copy()
    batch.policy[:], batch.value[:] = 1 / 9, target
    weights[-1] = 1.5  # the bias of the value
    found, scratch = np.zeros_like(weights), make_scratch(model, 1)
    gradient(weights, found, model, batch, 1.0, scratch, np.zeros(STATS))
    assert found[-1] == pytest.approx(slope)


def test_batches_hold_every_image_of_a_position():
    made = assembled()
    images = made.learner._fit.images
    made.learner.close()
    assert images.actions.shape == (8, 9)
    buffer, batch = make_positions(1, 18, 9, np.int8), make_batch(200, 18, 9)
    buffer.obs[0] = np.arange(18) % 2 * 0
    buffer.obs[0, [0, 3]] = 1  # mine in cell 0, theirs in cell 1
    buffer.policy[0] = np.where(np.arange(9) < 2, NOT_LEGAL, np.arange(9) / 35)
    buffer.value[0], buffer.at[:] = 0.5, (0, 1)
    draw_batch(buffer, images, random_streams(3, 1), batch)
    seen = {tuple(row) for row in batch.obs.astype(int).tolist()}
    assert len(seen) == 8
    for row, policy in zip(batch.obs, batch.policy, strict=True):
        taken = row[::2] + row[1::2] > 0
        assert ((policy == NOT_LEGAL) == taken).all()
        assert sorted(policy[~taken]) == pytest.approx(sorted(buffer.policy[0, 2:]))
    assert (batch.value == 0.5).all()


def resume(learner, earlier):
    """Put a learner where another one is."""
    done, before = earlier.progress(), learner.before
    before.env_steps, before.agent_steps, before.episodes = done.env_steps, done.agent_steps, done.episodes
    learner.load_training_state([earlier.weights(0)], earlier.training_state())


@pytest.mark.parametrize(("threads", "env_id"), [(1, TICTACTOE), (2, TICTACTOE), (1, CONNECT_FOUR)])
def test_a_resumed_run_is_bit_identical(threads, env_id):
    """Connect four has features; its network is saved as one that reads observations."""
    options = {"options": {"threads": threads}, "env_id": env_id}
    whole, first = assembled(**options).learner, assembled(**options).learner
    for _ in range(20):
        whole.iterate()
    for _ in range(9):
        first.iterate()
    second = assembled(**options).learner
    resume(second, first)
    for _ in range(11):
        second.iterate()
    assert (second.weights(0) == whole.weights(0)).all()
    assert second.env_steps == whole.env_steps
    mine, theirs = second.training_state(), whole.training_state()
    assert mine.keys() == theirs.keys()
    for key in mine:
        assert (mine[key] == theirs[key]).all(), key
    for learner in (whole, first, second):
        learner.close()


@pytest.mark.parametrize(("saved", "resumed"), [(1, 3), (3, 1), (2, 3)])
def test_a_run_resumes_with_another_number_of_threads(saved, resumed):
    first, second = (assembled(options={"threads": threads}).learner for threads in (saved, resumed))
    for _ in range(9):
        first.iterate()
    resume(second, first)
    for name in ("kept", "length", "obs", "rng"):
        mine, theirs = (
            np.concatenate([getattr(table.games, name) for table in learner._tables]) for learner in (second, first)
        )
        assert (mine == theirs).all()
    before = second.env_steps
    second.iterate()
    assert second.env_steps > before
    for learner in (first, second):
        learner.close()


def test_several_threads_play_with_the_weights_that_the_last_iteration_left():
    learner = assembled(options={"threads": 2}).learner
    assert len(learner._tables) == 4
    for _ in range(20):
        left = learner.weights(0)
        learner.iterate()
        for table in learner._tables:
            assert (table.net.weights == left).all()
    assert (learner.weights(0) != left).any(), "no update was made"
    learner.close()


def test_features_can_be_left_out_and_are_not_mixed_up():
    with_them, without = (assembled(env_id=CONNECT_FOUR, options={"features": on}) for on in (True, False))
    (deep,), (plain,) = with_them.architectures, without.architectures
    assert (deep.observation, deep.hidden) == (84, (637, 16))
    assert (plain.observation, plain.hidden) == (84, (16,))
    assert count_weights(deep) == len(with_them.learner.weights(0))
    ppo = initial_weights(deep, 0)
    with pytest.raises(InputError, match="does not read the game's features"):
        with_them.learner.load(0, ppo)
    for each in (with_them, without):
        each.learner.close()


def test_the_learning_rate_follows_a_cosine():
    learner = assembled(total=1000, options={"learning_rate": 3e-3, "learning_rate_final": 1e-3}).learner
    found = []
    for learner.before.env_steps in (0, 250, 500, 1000, 2000):
        found.append(learner.learning_rate)
    learner.close()
    assert found == pytest.approx([3e-3, 2e-3 + 1e-3 * 0.5**0.5, 2e-3, 1e-3, 1e-3])
    without_end = assembled(total=None, options={"learning_rate": 3e-3}).learner
    without_end.before.env_steps = 10**9
    assert without_end.learning_rate == 3e-3
    without_end.close()


def test_it_learns_tictactoe():
    learner = assembled(games=32, total=40_000, options={"buffer_size": 20_000, "opening_plies": 4}).learner
    losses = []
    while learner.env_steps < 12_000:
        learner.iterate()
        losses.append(learner.progress().losses[0])
    learned = [each for each in losses if "value_loss" in each]
    assert learned[-1]["value_loss"] < 0.6 * learned[0]["value_loss"]
    assert learner.progress().episodes > 500
    assert learner.progress().lengths.mean() < 9
    learner.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"env_id": "classic/rps_v2"}, "cannot be searched: its agents move simultaneously"),
        ({"agents": {"player_1": "random"}}, "at least two agents learn, but here only player_2 does"),
        ({"games": 1, "options": {"threads": 2}}, "threads=2 is more than the 1 games"),
        ({"env_id": CONNECT_FOUR, "options": {"activation": "tanh"}}, "set activation=relu, or features=false"),
    ],
)
def test_what_is_refused(settings, said):
    with pytest.raises(InputError, match=said):
        assembled(**settings)


def test_a_run_trains_resumes_plays_and_is_searched(tmp_path, monkeypatch):
    import mosaic
    from tests.in_process import trained_here

    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    training = {
        "worker": "native",
        "algorithm": "alphazero",
        "total_timesteps": 300,
        "params": {**SMALL, "hidden": [16]},
    }
    environment = {"env_id": TICTACTOE, "num_envs": 8}
    trained_here(tmp_path, {"environment": environment, "training": training, "run_id": "zero"})
    mapping = {"player_1": "search:run:zero,simulations=30", "player_2": "run:zero"}
    result = mosaic.evaluate(TICTACTOE, mapping, episodes=2)
    assert len(result.episode_results) == 2


@pytest.mark.slow
def test_a_run_with_features_resumes_plays_is_searched_and_exports(tmp_path, monkeypatch):
    import mosaic
    from tests.in_process import trained_here

    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    training = {"worker": "native", "algorithm": "alphazero", "total_timesteps": 2000, "params": SMALL}
    environment = {"env_id": CONNECT_FOUR, "num_envs": 8}
    trained_here(tmp_path, {"environment": environment, "training": training, "run_id": "zero"})
    (file,) = mosaic.export("zero", "zero.onnx")
    mapping = {"player_0": "run:zero", "player_1": "minimax:depth=1"}
    raw = mosaic.evaluate(CONNECT_FOUR, mapping, episodes=3)
    exported = mosaic.evaluate(CONNECT_FOUR, {**mapping, "player_0": f"onnx:{file.path}"}, episodes=3)
    assert [each.length for each in raw.episode_results] == [each.length for each in exported.episode_results]
    searched = mosaic.evaluate(CONNECT_FOUR, {**mapping, "player_0": "search:run:zero,simulations=60"}, episodes=3)
    assert len(searched.episode_results) == 3
    with mosaic.load_policy("search:run:zero,simulations=60", CONNECT_FOUR) as policy:
        assert policy.controller._searcher._rules.features, "the features' machine code is used"
