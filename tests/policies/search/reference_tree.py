"""A search tree as a book would write it: one position at a time, in Python, over the boards of minimax."""

import math

import numpy as np

from mosaic.policies.minimax import tictactoe as game
from mosaic.policies.search.simulations import VALUE_SCALE, VISIT_OFFSET


class Node:
    def __init__(self, board):
        self.board = board
        self.moves = game.moves(board)
        self.children, self.proofs = {}, {}
        self.visits, self.totals = dict.fromkeys(self.moves, 0), dict.fromkeys(self.moves, 0.0)
        self.prior, self.logits, self.value, self.proof = {}, {}, 0.0, None

    def prove(self):
        known = [self.proofs.get(move) for move in self.moves]
        if 1 in known:
            self.proof = 1
        elif None not in known:
            self.proof = max(known)

    def live(self):
        """Moves that are not proven losses."""
        return [move for move in self.moves if self.proofs.get(move) != -1]

    def mean(self, move):
        return self.totals[move] / self.visits[move]


def evaluate(node, network):
    """Give a node its priors and value; `network` maps a board to logits by cell, and a value."""
    logits, value = network(node.board)
    node.value = min(max(value, -1.0), 1.0)
    top = max(logits[move] for move in node.live())
    node.logits = {move: logits[move] - top for move in node.moves}
    weights = {move: math.exp(node.logits[move]) for move in node.live()}
    total = sum(weights.values())
    node.prior = {move: 0.95 * weights[move] / total + 0.05 / len(weights) for move in weights}


def puct(node, c):
    visits = sum(node.visits.values())
    untried = (node.value + sum(node.totals.values())) / (1 + visits) - 0.1

    def score(move):
        value = node.mean(move) if node.visits[move] else untried
        return value + c * math.sqrt(visits + 1) * node.prior[move] / (1 + node.visits[move])

    return max((move for move in node.moves if move not in node.proofs), key=score)


def simulate(node, network, c, move=None):
    """Run one simulation below a node and return its value for the node's mover."""
    move = puct(node, c) if move is None else move
    value = _value_of_move(node, move, network, c)
    node.visits[move] += 1
    node.totals[move] += value
    node.prove()
    if node.proof is not None:
        return float(node.proof)
    return max(value, 0.0) if 0 in node.proofs.values() else value


def _value_of_move(node, move, network, c):
    child = node.children.get(move)
    if child is not None:
        value = -simulate(child, network, c)
        if child.proof is not None:
            node.proofs[move] = -child.proof
        return value
    after = game.place(node.board, move)
    if game.is_over(after):
        node.proofs[move] = -game.value(after)
        return float(node.proofs[move])
    child = node.children[move] = Node(after)
    evaluate(child, network)
    return -child.value


def search(board, network, simulations, c):
    """Search with PUCT everywhere; return the root."""
    root = Node(board)
    evaluate(root, network)
    for _ in range(simulations):
        if root.proof is None:
            simulate(root, network, c)
    return root


def scores(root, noise):
    """Return the value of every root move, and its logit with noise and scaled value."""
    tried = [move for move in root.live() if root.visits[move]]
    total, mixed = sum(root.visits.values()), root.value
    if tried:
        share = sum(root.prior[move] for move in tried)
        mean = sum(root.prior[move] * root.mean(move) for move in tried) / share
        mixed = (root.value + total * mean) / (1 + total)
    values, found = {}, {}
    for move in root.moves:
        values[move] = mixed if not root.visits[move] else root.mean(move)
        values[move] = float(root.proofs.get(move, values[move]))
        scale = (VISIT_OFFSET + max(root.visits.values())) * VALUE_SCALE
        found[move] = max(root.logits[move], -12) + noise[move] + scale * values[move]
        if root.proofs.get(move) == -1:
            found[move] -= 1e4
    return values, found


def gumbel_search(board, network, simulations, c, noise, schedule):
    """Search with Gumbel root selection; return the root."""
    root = Node(board)
    evaluate(root, network)
    for spent in range(simulations):
        if root.proof is not None:
            break
        _, found = scores(root, noise)
        wanted = schedule[min(len(root.live()), len(schedule) - 1)][spent]
        unproven = [move for move in root.moves if move not in root.proofs]
        even = [move for move in unproven if root.visits[move] == wanted]
        simulate(root, network, c, max(even or unproven, key=found.__getitem__))
    return root


def softmax(logits):
    weights = np.exp(np.array(logits) - max(logits))
    return weights / weights.sum()
