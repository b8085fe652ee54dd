"""Search trees of many games at once, in machine code.

Game g has nodes 0 (the root), 1, …; an edge is an action of a node's mover. Values and proofs of a node and of its
edges are the mover's: 1 a win, 0 a draw, -1 a loss. A proof is exact: the game ended there, the kernel's outlook says
so, or it follows from the proofs of the edges below. A proven edge is never tried again; a proven draw is a lower bound
of what its node is worth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.vector import (
    UNKNOWN,
    CompiledKernel,
    CompiledVector,
    Features,
    KernelData,
    copy_state,
    features_at,
    make_kernel_data,
    outlook_at,
    step_at,
)
from mosaic.envs.vector.layout import VectorArrays
from mosaic.models.architecture import Architecture
from mosaic.models.fused import Model, Scratch, build_model, make_scratch, outputs
from mosaic.policies.network import Scaler

ILLEGAL = -2  # instead of an edge's proof

_ZERO, _ONE, _LOWEST = np.float32(0), np.float32(1), np.float32(-1e30)
_UNTRIED = np.float32(0.1)  # an edge that was never tried is valued this much below its node
_UNIFORM = np.float32(
    0.05
)  # share of every prior that is the same for all edges: so that no edge is excluded permanently

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Tree(NamedTuple):
    """Nodes [games, nodes] and edges [games, nodes, actions]."""

    states: KernelData  # node n of game g is row g * nodes + n
    mover: NDArray[np.int8]  # index of the agent
    proof: NDArray[np.int8]  # or UNKNOWN
    value: NDArray[np.float32]  # the network's
    visits: NDArray[np.float32]  # simulations that passed through the node
    total: NDArray[np.float32]  # sum of their values
    child: NDArray[np.int32]  # -1: none yet
    prior: NDArray[np.float32]
    edge_proof: NDArray[np.int8]  # or UNKNOWN or ILLEGAL
    edge_visits: NDArray[np.float32]
    edge_total: NDArray[np.float32]
    logits: NDArray[np.float32]  # [games, actions] of the root
    used: NDArray[np.int64]  # [games] nodes
    spent: NDArray[np.int64]  # [games] simulations


class Leaves(NamedTuple):
    """Games in which a simulation has reached a new position; each game has at most one at a time."""

    data: KernelData
    arrays: VectorArrays
    act: NDArray[np.float32]  # [games, 1]
    outlook: NDArray[np.int8]  # [1, actions]
    inputs: NDArray[np.float32]  # [games, width] of the network: observations or features
    game: NDArray[np.int64]  # [games] of each leaf
    path_node: NDArray[np.int64]  # [games, nodes] the way from the root
    path_edge: NDArray[np.int64]
    depth: NDArray[np.int64]  # [games] its length


class Evaluator(NamedTuple):
    """Network with priors and a value, and the scaling of its observations (no columns: none)."""

    weights: NDArray[np.float32]
    model: Model
    scratch: Scratch
    critic_rows: NDArray[np.float32]  # [games, 0]: the critic reads the policy's row
    shift: NDArray[np.float32]
    scale: NDArray[np.float32]
    limit: NDArray[np.float32]


class Rules(NamedTuple):
    """Machine code of the game, as addresses."""

    step: int
    outlook: int  # 0: none
    features: int  # 0: the network reads observations
    agents: int


def make_rules(kernel: CompiledKernel, features: Features | None = None) -> Rules:
    """Return the machine code for a network that reads these features, or observations."""
    outlook = None if kernel.search is None else kernel.search.outlook
    return Rules(
        kernel.step.address,
        0 if outlook is None else outlook.address,
        0 if features is None else features.write.address,
        len(kernel.agents),
    )


def make_tree(kernel: CompiledKernel, games: int, nodes: int) -> Tree:
    shape, actions = (games, nodes), kernel.heads[0].width
    edges = (*shape, actions)
    return Tree(
        states=make_kernel_data(kernel, games * nodes),
        mover=np.zeros(shape, np.int8),
        proof=np.zeros(shape, np.int8),
        value=np.zeros(shape, np.float32),
        visits=np.zeros(shape, np.float32),
        total=np.zeros(shape, np.float32),
        child=np.zeros(edges, np.int32),
        prior=np.zeros(edges, np.float32),
        edge_proof=np.zeros(edges, np.int8),
        edge_visits=np.zeros(edges, np.float32),
        edge_total=np.zeros(edges, np.float32),
        logits=np.zeros((games, actions), np.float32),
        used=np.zeros(games, np.int64),
        spent=np.zeros(games, np.int64),
    )


def make_leaves(kernel: CompiledKernel, games: int, nodes: int, features: Features | None = None) -> Leaves:
    vector = CompiledVector(kernel, games)
    return Leaves(
        data=vector.data,
        arrays=vector.arrays,
        act=np.zeros((games, 1), np.float32),
        outlook=np.zeros((1, kernel.heads[0].width), np.int8),
        inputs=np.zeros((games, kernel.widths[0] if features is None else features.width), np.float32),
        game=np.zeros(games, np.int64),
        path_node=np.zeros((games, nodes), np.int64),
        path_edge=np.zeros((games, nodes), np.int64),
        depth=np.zeros(games, np.int64),
    )


def make_evaluator(
    architecture: Architecture, weights: NDArray[np.float32], games: int, scaling: Scaler | None = None
) -> Evaluator:
    """Return an evaluator of these weights, which may change later."""
    model, width = build_model(architecture), architecture.observation
    shift, scale, limit = np.zeros(0, np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32)
    if scaling is not None:
        shift, scale = scaling.shift, scaling.scale
        limit = np.broadcast_to(scaling.limit, width).astype(np.float32)
    rows = np.zeros((games, 0), np.float32)
    return Evaluator(weights, model, make_scratch(model, games), rows, shift, scale, limit)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def plant(rules: Rules, tree: Tree, leaves: Leaves, net: Evaluator, roots: KernelData, shown: VectorArrays) -> None:
    """Begin a tree in every game, at the envs of `roots`, whose observations and masks are in `shown`."""
    rows = np.int64(0)  # without a type, numba would compile what it is passed to twice
    for game in range(tree.used.shape[0]):
        tree.used[game] = 0
        tree.spent[game] = 0
        add_node(rules, tree, leaves, game, roots, game, shown, game)
        if tree.proof[game, 0] == UNKNOWN:
            leaves.game[rows] = game
            leaves.depth[game] = 0
            write_inputs(rules, tree.states, game * tree.mover.shape[1], shown.obs, game, leaves.inputs, rows)
            rows += 1
        else:
            tree.logits[game, :] = _ZERO
    evaluate(tree, leaves, net, rows)


@njit(cache=True, nogil=True, error_model="numpy")
def write_inputs(rules: Rules, states: KernelData, env: int, obs: Floats, row: int, inputs: Floats, to: int) -> None:
    """Write the network's input of an env, whose observation is a row of `obs`."""
    if rules.features != 0:
        here = slice(env, env + 1)
        features_at(rules.features)(states.facts, states.state[here], states.ints[here], inputs[to : to + 1])
    else:
        for column in range(obs.shape[1]):
            inputs[to, column] = obs[row, column]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def add_node(
    rules: Rules, tree: Tree, leaves: Leaves, game: int, source: KernelData, env: int, shown: VectorArrays, row: int
) -> int:
    """Add a node for an env that is not over; its prior and value are not known yet."""
    node = tree.used[game]
    tree.used[game] += 1
    place = game * tree.mover.shape[1] + node
    copy_state(source, env, tree.states, place)
    tree.mover[game, node] = shown.who[row]
    tree.value[game, node] = tree.visits[game, node] = tree.total[game, node] = _ZERO
    leaves.outlook[:] = UNKNOWN
    if rules.outlook != 0:
        states = tree.states
        outlook_at(rules.outlook)(
            states.facts, states.state[place : place + 1], states.ints[place : place + 1], leaves.outlook
        )
    for action in range(tree.child.shape[2]):
        tree.child[game, node, action] = -1
        tree.edge_visits[game, node, action] = tree.edge_total[game, node, action] = _ZERO
        tree.prior[game, node, action] = _ZERO
        legal = shown.mask.shape[0] == 0 or shown.mask[row, action] != 0
        tree.edge_proof[game, node, action] = leaves.outlook[0, action] if legal else ILLEGAL
    tree.proof[game, node] = UNKNOWN
    prove(tree, game, node)
    return node  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def prove(tree: Tree, game: int, node: int) -> int:
    """Derive a node's proof from its edges: one win is enough, anything else needs all of them.

    Return the best of the edges' proofs, -2 if there are none.
    """
    best, missing = -2, False
    for action in range(tree.child.shape[2]):
        proof = tree.edge_proof[game, node, action]
        if proof == UNKNOWN:
            missing = True
        elif proof != ILLEGAL:
            best = max(best, proof)
    if best == 1 or (best > -2 and not missing):
        tree.proof[game, node] = best
    return best


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def open_edges(tree: Tree, game: int) -> int:
    """Count the root's edges that are legal and not proven losses."""
    count = 0
    for action in range(tree.child.shape[2]):
        proof = tree.edge_proof[game, 0, action]
        if proof != ILLEGAL and proof != -1:
            count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def evaluate(tree: Tree, leaves: Leaves, net: Evaluator, rows: int) -> None:
    """Write the network's priors and values of the newest node of each leaf's game; proven losses get no prior."""
    if rows == 0:
        return
    obs = leaves.inputs[:rows]
    if net.shift.shape[0] > 0:
        for i in range(rows):
            for j in range(net.shift.shape[0]):
                seen = (obs[i, j] - net.shift[j]) * net.scale[j]
                obs[i, j] = min(max(seen, -net.limit[j]), net.limit[j])
    out, values = outputs(net.weights, net.model, obs, net.critic_rows[:rows], net.scratch)
    column, actions = values.shape[1] - 1, tree.child.shape[2]
    for i in range(rows):
        game = leaves.game[i]
        node = tree.used[game] - 1
        top, total, live = _LOWEST, _ZERO, _ZERO
        for action in range(actions):
            if tree.edge_proof[game, node, action] >= 0:
                top = max(top, out[i, action])
                live += _ONE
        for action in range(actions):
            if tree.edge_proof[game, node, action] >= 0:
                tree.prior[game, node, action] = np.exp(out[i, action] - top)
                total += tree.prior[game, node, action]
        for action in range(actions):
            if tree.edge_proof[game, node, action] >= 0:
                share = tree.prior[game, node, action] / total
                tree.prior[game, node, action] = (_ONE - _UNIFORM) * share + _UNIFORM / live
        if node == 0:
            for action in range(actions):
                tree.logits[game, action] = out[i, action] - top
        tree.value[game, node] = min(max(values[i, column], -_ONE), _ONE)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def select_edge(tree: Tree, game: int, node: int, exploration: np.float32) -> int:
    """Return the edge with the highest PUCT score of those that are not proven."""
    visits = tree.visits[game, node]
    factor = exploration * np.sqrt(visits + _ONE)
    untried = (tree.value[game, node] + tree.total[game, node]) / (_ONE + visits) - _UNTRIED
    best, chosen = _LOWEST, -1
    for action in range(tree.child.shape[2]):
        if tree.edge_proof[game, node, action] != UNKNOWN:
            continue
        tried = tree.edge_visits[game, node, action]
        value = tree.edge_total[game, node, action] / tried if tried > 0 else untried
        score = value + factor * tree.prior[game, node, action] / (_ONE + tried)
        if score > best:
            best, chosen = score, action
    return chosen


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def descend(tree: Tree, leaves: Leaves, game: int, edge: int, exploration: np.float32) -> None:
    """Follow one simulation from the root, through `edge` unless it is -1, to an edge without a node."""
    node, depth = np.int64(0), 0
    while True:
        if edge < 0:
            edge = select_edge(tree, game, node, exploration)
        leaves.path_node[game, depth] = node
        leaves.path_edge[game, depth] = edge
        depth += 1
        child = tree.child[game, node, edge]
        if child < 0:
            leaves.depth[game] = depth
            return
        node, edge = np.int64(child), -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def back_up(tree: Tree, leaves: Leaves, game: int, value: np.float32, viewer: int) -> None:
    """Add a simulation's value, which is the viewer's, to its path; proofs move up, and replace the value."""
    for i in range(leaves.depth[game] - 1, -1, -1):
        node, edge = leaves.path_node[game, i], leaves.path_edge[game, i]
        mover = tree.mover[game, node]
        if mover != viewer:
            value, viewer = -value, mover
        tree.edge_visits[game, node, edge] += _ONE
        tree.edge_total[game, node, edge] += value
        tree.visits[game, node] += _ONE
        tree.total[game, node] += value
        child = tree.child[game, node, edge]
        if child >= 0 and tree.proof[game, child] != UNKNOWN:
            same = tree.mover[game, child] == mover
            tree.edge_proof[game, node, edge] = tree.proof[game, child] if same else -tree.proof[game, child]
        bound = prove(tree, game, node)
        if tree.proof[game, node] != UNKNOWN:
            value = np.float32(tree.proof[game, node])
        elif bound == 0:
            value = max(value, _ZERO)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def expand(rules: Rules, tree: Tree, leaves: Leaves, net: Evaluator, rows: int) -> None:
    """Step into the new positions at the ends of the paths, evaluate them, and back their values up."""
    if rows == 0:
        return
    arrays, data, nodes = leaves.arrays, leaves.data, tree.mover.shape[1]
    for i in range(rows):
        game = leaves.game[i]
        last = leaves.depth[game] - 1
        copy_state(tree.states, game * nodes + leaves.path_node[game, last], data, i)
        leaves.act[i, 0] = leaves.path_edge[game, last]
    mask = arrays.mask[:rows]
    step_at(rules.step)(
        data.facts,
        data.state[:rows],
        data.ints[:rows],
        data.rng[:rows],
        leaves.act[:rows],
        arrays.obs[:rows],
        mask,
        arrays.who[:rows],
        arrays.rew[: rules.agents * rows],
        arrays.term[: rules.agents * rows],
        arrays.trunc[: rules.agents * rows],
        arrays.fin[: rules.agents * rows],
    )
    kept = np.int64(0)
    for i in range(rows):
        game = leaves.game[i]
        last = leaves.depth[game] - 1
        node, edge = leaves.path_node[game, last], leaves.path_edge[game, last]
        mover = tree.mover[game, node]
        row = rules.agents * i + mover
        if arrays.term[row] or arrays.trunc[row]:
            tree.edge_proof[game, node, edge] = np.sign(arrays.rew[row])
            back_up(tree, leaves, game, np.float32(tree.edge_proof[game, node, edge]), mover)
            continue
        child = add_node(rules, tree, leaves, game, data, i, arrays, i)
        tree.child[game, node, edge] = child
        if tree.proof[game, child] != UNKNOWN:
            back_up(tree, leaves, game, np.float32(tree.proof[game, child]), tree.mover[game, child])
            continue
        leaves.game[kept] = game
        write_inputs(rules, data, i, arrays.obs, i, leaves.inputs, kept)
        kept += 1
    evaluate(tree, leaves, net, kept)
    for i in range(kept):
        game = leaves.game[i]
        child = tree.used[game] - 1
        back_up(tree, leaves, game, tree.value[game, child], tree.mover[game, child])
