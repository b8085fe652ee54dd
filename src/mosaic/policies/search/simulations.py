"""Simulations in search trees, and the decisions that follow from them.

At the root there are two ways to choose edges. PUCT needs no budget and suits play. Gumbel root selection (Danihelka et
al., Policy improvement by planning with Gumbel, 2022) improves on the network's policy with a handful of simulations:
it draws candidates without replacement, and halves them as the simulations are spent.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.vector import UNKNOWN
from mosaic.policies.search.tree import ILLEGAL, Evaluator, Leaves, Rules, Tree, descend, expand, open_edges

MAX_CANDIDATES = 16  # of Gumbel root selection
VISIT_OFFSET, VALUE_SCALE = 50.0, 0.1  # of the transformation of values into logits, as in the paper's experiments

_ZERO, _ONE, _LOWEST = np.float32(0), np.float32(1), np.float32(-1e30)
_OFFSET, _SCALE = np.float32(VISIT_OFFSET), np.float32(VALUE_SCALE)
_LOST = np.float32(1e4)  # subtracted from the scores of proven losses
_FLOOR = np.float32(-12)  # of the root's logits


def halving_schedule(simulations: int, actions: int) -> NDArray[np.int64]:
    """Return [candidates, simulation]: the number of earlier visits of the edge that is visited next.

    Sequential halving: equal shares of the budget go to all candidates, then to the better half of them, and so on.
    """
    most = min(actions, MAX_CANDIDATES)
    schedule = np.zeros((most + 1, max(1, simulations)), np.int64)
    schedule[1] = np.arange(schedule.shape[1])
    for candidates in range(2, most + 1):
        visits, left, rounds = [0] * candidates, candidates, math.ceil(math.log2(candidates))
        order: list[int] = []
        while len(order) < simulations:
            for _ in range(max(1, simulations // (rounds * left))):
                order += visits[:left]
                visits[:left] = [count + 1 for count in visits[:left]]
            left = max(2, left // 2)
        schedule[candidates] = order[: schedule.shape[1]]
    return schedule


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def simulate(
    rules: Rules,
    tree: Tree,
    leaves: Leaves,
    net: Evaluator,
    simulations: int,
    exploration: np.float32,
    schedule: NDArray[np.int64],
    noise: NDArray[np.float32],
) -> None:
    """Let every game's tree have this many simulations, unless its root is proven before.

    `schedule` is of Gumbel root selection, and `noise` [games, actions] its random numbers; without rows, PUCT chooses
    at the root, too.
    """
    games, actions = tree.logits.shape
    score, value = np.zeros(actions, np.float32), np.zeros(actions, np.float32)
    while True:
        rows, running = np.int64(0), False
        for game in range(games):
            full = tree.used[game] >= tree.mover.shape[1]
            if tree.spent[game] >= simulations or tree.proof[game, 0] != UNKNOWN or full:
                continue
            running = True
            edge = -1
            if schedule.shape[0] > 0:
                score_edges(tree, game, noise[game], score, value)
                edge = _scheduled_edge(tree, game, schedule, score)
            tree.spent[game] += 1
            descend(tree, leaves, game, edge, exploration)
            leaves.game[rows] = game
            rows += 1
        if not running:
            return
        expand(rules, tree, leaves, net, rows)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _scheduled_edge(tree: Tree, game: int, schedule: NDArray[np.int64], score: NDArray[np.float32]) -> int:
    """Return the best edge with the scheduled number of visits; where proofs removed all of them, the best edge."""
    candidates = min(open_edges(tree, game), schedule.shape[0] - 1)
    wanted = schedule[candidates, min(tree.spent[game], schedule.shape[1] - 1)]
    chosen, fallback = -1, -1
    for action in range(score.shape[0]):
        if tree.edge_proof[game, 0, action] == UNKNOWN:
            if fallback < 0 or score[action] > score[fallback]:
                fallback = action
            visited = tree.edge_visits[game, 0, action] == wanted
            if visited and (chosen < 0 or score[action] > score[chosen]):
                chosen = action
    return chosen if chosen >= 0 else fallback


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def score_edges(
    tree: Tree, game: int, noise: NDArray[np.float32], score: NDArray[np.float32], value: NDArray[np.float32]
) -> None:
    """Write every root edge's value, and its score: logit, noise and scaled value.

    An edge that was not tried has the mixed value: the network's, and the values of the tried edges by their priors.
    """
    shares, weighted, most = _ZERO, _ZERO, _ZERO
    for action in range(score.shape[0]):
        tried = tree.edge_visits[game, 0, action]
        if tried > 0 and tree.edge_proof[game, 0, action] != -1:
            shares += tree.prior[game, 0, action]
            weighted += tree.prior[game, 0, action] * tree.edge_total[game, 0, action] / tried
        most = max(most, tried)
    visits, mixed = tree.visits[game, 0], tree.value[game, 0]
    if shares > 0:
        mixed = (mixed + visits * weighted / max(shares, np.float32(1e-6))) / (_ONE + visits)
    for action in range(score.shape[0]):
        proof, tried = tree.edge_proof[game, 0, action], tree.edge_visits[game, 0, action]
        if proof == ILLEGAL:
            score[action], value[action] = _LOWEST, -_ONE
            continue
        value[action] = mixed
        if proof != UNKNOWN:
            value[action] = np.float32(proof)
        elif tried > 0:
            value[action] = tree.edge_total[game, 0, action] / tried
        score[action] = max(tree.logits[game, action], _FLOOR) + noise[action]
        score[action] += (_OFFSET + most) * _SCALE * value[action]
        if proof == -1:
            score[action] -= _LOST


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def choose_edge(tree: Tree, game: int) -> int:
    """Return the action to play: a proven win, else the most visited edge that is not proven.

    A proven draw is played if that edge's value is below 0, and where everything loses, the edge that took most
    simulations to refute. Ties go to the prior, then to the lowest action.
    """
    best = np.full(3, -1, np.int64)  # of the proven results, by result + 1
    tried = -1
    for action in range(tree.child.shape[2]):
        proof = tree.edge_proof[game, 0, action]
        if proof == UNKNOWN:
            tried = _preferred(tree, game, tried, action)
        elif proof != ILLEGAL:
            best[proof + 1] = _preferred(tree, game, best[proof + 1], action)
    if best[2] >= 0:
        return best[2]  # type: ignore[no-any-return]
    if best[1] >= 0 and (tried < 0 or tree.edge_total[game, 0, tried] < 0):
        return best[1]  # type: ignore[no-any-return]
    return tried if tried >= 0 else best[0]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _preferred(tree: Tree, game: int, first: int, second: int) -> int:
    """Return the root edge with more visits, or with the higher prior if they are equal."""
    if first < 0:
        return second
    visits, prior = tree.edge_visits[game, 0], tree.prior[game, 0]
    more = visits[second] > visits[first]
    return second if more or (visits[second] == visits[first] and prior[second] > prior[first]) else first


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def root_value(tree: Tree, game: int) -> np.float32:
    """Return the mover's value of a root: its proof, or else the mean of network and simulations."""
    if tree.proof[game, 0] != UNKNOWN:
        return np.float32(tree.proof[game, 0])
    return (tree.value[game, 0] + tree.total[game, 0]) / (_ONE + tree.visits[game, 0])  # type: ignore[no-any-return]
