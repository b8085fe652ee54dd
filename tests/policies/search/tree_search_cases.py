"""Networks and positions for tests of search."""

import numpy as np

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.registry import find_kernel
from mosaic.models.architecture import Architecture
from mosaic.models.layout import initial_weights
from mosaic.policies.network import ValuedNetwork
from mosaic.policies.search.controller import Searcher

TICTACTOE, CONNECT_FOUR = "classic/tictactoe_v3", "classic/connect_four_v3"


def kernel_of(env_id):
    return find_kernel(EnvironmentConfig(env_id=env_id))


def network_of(env_id, seed=0, hidden=(16,), noise=0.5, **options):
    """A network that knows nothing, and says so with conviction."""
    kernel = kernel_of(env_id)
    architecture = Architecture(kernel.widths[0], kernel.heads[0], hidden, "relu", shared=True, **options)
    weights = initial_weights(architecture, seed)
    weights += (noise * np.random.default_rng(seed).standard_normal(weights.size)).astype(np.float32)
    return ValuedNetwork(architecture, weights, None)


def searcher_at(env_id, positions, network, nodes, c=1.5):
    """Return a searcher at these positions: rows of observations, masks and movers."""
    kernel = kernel_of(env_id)
    made = Searcher(kernel, network, len(positions), nodes, c)
    for number, (row, mask, mover) in enumerate(positions):
        made.shown.obs[number], made.shown.mask[number], made.shown.who[number] = row, mask, mover
        kernel.search.read(made.shown.obs[number], mover, made.roots.state[number], made.roots.ints[number])
    return made


def tictactoe_position(board):
    row = np.zeros(18, np.float32)
    row[::2] = [board.mine >> cell & 1 for cell in range(9)]
    row[1::2] = [board.theirs >> cell & 1 for cell in range(9)]
    taken = board.mine | board.theirs
    return row, [1 - (taken >> cell & 1) for cell in range(9)], taken.bit_count() % 2


def connect_four_position(board):
    row, taken = np.zeros((6, 7, 2), np.float32), board.mine | board.theirs
    for column in range(7):
        for height in range(6):
            for plane, stones in enumerate(board):
                row[5 - height, column, plane] = stones >> (7 * column + height) & 1
    return row.ravel(), [1 - (taken >> (7 * column + 5) & 1) for column in range(7)], taken.bit_count() % 2
