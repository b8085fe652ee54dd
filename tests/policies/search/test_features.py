"""Features of a game: a network that reads them is one of dense layers that reads observations."""

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.models.architecture import Architecture
from mosaic.models.layout import initial_weights, tensors
from mosaic.policies.minimax import connect_four as solver
from mosaic.policies.network import Scaler, ValuedNetwork
from mosaic.policies.search.controller import Searcher
from mosaic.policies.search.features import (
    fast_network,
    feature_network,
    image_of_features,
    observation_network,
    read_features,
    read_observations,
    reads_features,
)
from mosaic.testing import ContractError, check_search_rules
from tests.policies.search.tree_search_cases import (
    CONNECT_FOUR,
    TICTACTOE,
    connect_four_position,
    kernel_of,
    network_of,
)

KERNEL = kernel_of(CONNECT_FOUR)
FEATURES = KERNEL.search.features


def boards(count=12, seed=0):
    random, found = np.random.default_rng(seed), []
    while len(found) < count:
        board = solver.EMPTY
        for _ in range(random.integers(4, 30)):
            if solver.value(board, depth=0) == 0:
                board = solver.drop(board, int(random.choice(list(solver.landings(board)))))
        if solver.value(board, depth=0) == 0:
            found.append(board)
    return found


def rows_of(found):
    return np.stack([connect_four_position(board)[0] for board in found])


def features_of(rows):
    units = np.maximum(rows @ FEATURES.weight + FEATURES.bias, 0)
    return np.stack([units[:, FEATURES.feature == one].sum(axis=1) for one in range(FEATURES.width)], axis=1)


@pytest.fixture(scope="module")
def inner():
    """A network that reads features."""
    architecture = Architecture(FEATURES.width, KERNEL.heads[0], (12, 7), "relu", shared=True)
    weights = initial_weights(architecture, 3)
    noise = np.random.default_rng(3).standard_normal(weights.size).astype(np.float32)
    return ValuedNetwork(architecture, weights + np.float32(0.2) * noise, None)


@pytest.fixture(scope="module")
def outer(inner):
    architecture = observation_network(inner.architecture, FEATURES)
    return ValuedNetwork(architecture, read_observations(inner.architecture, inner.weights, FEATURES), None)


def outputs(network, rows):
    layers = [tensor.of(network.weights) for tensor in tensors(network.architecture)]
    for number, (weight, bias) in enumerate(zip(layers[::2], layers[1::2], strict=True)):
        rows = rows @ weight + bias
        rows = np.maximum(rows, 0) if 2 * number + 2 < len(layers) else rows
    return rows


def test_features_are_stones_fours_and_who_began():
    board = solver.EMPTY
    for column in (0, 6, 1, 6, 3, 6):  # three of the first in the lowest row around column 2, three of the second above
        board = solver.drop(board, column)
    (row,) = features_of(rows_of([board]))
    mine, theirs = row[84:126].reshape(6, 7), row[126:168].reshape(6, 7)
    assert np.argwhere(mine).tolist() == [[5, 2]]
    assert np.argwhere(theirs).tolist() == [[2, 6]]
    assert (row[:84] == connect_four_position(board)[0]).all()
    assert row[168] == 0
    assert features_of(rows_of([solver.drop(board, 4)]))[0, 168] == 1


def test_both_networks_give_the_same(inner, outer):
    rows = rows_of(boards())
    assert outputs(outer, rows) == pytest.approx(outputs(inner, features_of(rows)), abs=1e-4)


def test_the_weights_come_back_bit_for_bit(inner, outer):
    assert feature_network(outer.architecture, FEATURES) == inner.architecture
    assert (read_features(outer.architecture, outer.weights, FEATURES) == inner.weights).all()
    network, features = fast_network(outer, KERNEL)
    assert features is FEATURES
    assert network.architecture == inner.architecture


@pytest.mark.parametrize("place", [0, -2])
def test_a_network_that_was_trained_further_reads_observations(outer, place):
    """PPO would also change the first layer, and units of one feature apart."""
    first, second = (tensors(outer.architecture)[number] for number in (0, 2))
    changed = outer.weights.copy()
    (first if place == 0 else second).of(changed)[place, -2] += 1
    assert reads_features(outer.architecture, outer.weights, FEATURES)
    assert not reads_features(outer.architecture, changed, FEATURES)
    network = ValuedNetwork(outer.architecture, changed, None)
    assert fast_network(network, KERNEL) == (network, None)


def test_other_networks_read_observations(outer):
    for network, env_id in (
        (network_of(CONNECT_FOUR), CONNECT_FOUR),
        (network_of(TICTACTOE), TICTACTOE),
        (outer._replace(scaling=Scaler(np.zeros(84, np.float32), np.ones(84, np.float32))), CONNECT_FOUR),
    ):
        assert fast_network(network, kernel_of(env_id)) == (network, None)


def test_search_finds_the_same_with_either(outer):
    found = boards(6, seed=1)
    results = []
    for kernel in (KERNEL, KERNEL._replace(search=KERNEL.search._replace(features=None))):
        made = Searcher(kernel, outer, len(found), 42, 1.5)
        for number, board in enumerate(found):
            made.shown.obs[number], made.shown.mask[number], mover = connect_four_position(board)
            made.shown.who[number] = mover
            kernel.search.read(made.shown.obs[number], mover, made.roots.state[number], made.roots.ints[number])
        results.append(made.search(40))
    for fast, dense in zip(*results, strict=True):
        assert fast.value == pytest.approx(dense.value, abs=1e-3)
        assert fast.proven == dense.proven
        assert abs(fast.visits - dense.visits).sum() <= 2  # rounding may decide a tie otherwise
    assert any(each.visits.any() for each in results[0])


def test_images_of_features_are_features_of_images():
    (mirror,) = KERNEL.search.symmetries
    rows = rows_of(boards(seed=2))
    image = image_of_features(FEATURES, mirror.observation)
    assert (features_of(rows)[:, image] == features_of(rows[:, mirror.observation])).all()
    with pytest.raises(ValueError, match="does not map the features"):
        image_of_features(FEATURES, np.roll(mirror.observation, 2))


def test_features_that_differ_from_the_machine_code_are_noticed():
    changed = FEATURES._replace(bias=FEATURES.bias + np.float32(1))
    kernel = KERNEL._replace(search=KERNEL.search._replace(features=changed))
    with pytest.raises(ContractError, match="the machine code of `features` writes other numbers"):
        check_search_rules(kernel)


def test_only_relu_can_compute_them():
    tanh = Architecture(FEATURES.width, KERNEL.heads[0], (12,), "tanh", shared=True)
    with pytest.raises(InputError, match="set activation=relu, or features=false"):
        observation_network(tanh, FEATURES)
