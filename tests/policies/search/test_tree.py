"""The compiled search tree: against a readable one, and against exact minimax."""

import numpy as np
import pytest

from mosaic.envs.compiled.vector import UNKNOWN
from mosaic.models.fused import make_scratch, outputs
from mosaic.policies.minimax import connect_four, tictactoe
from mosaic.policies.search.simulations import halving_schedule, score_edges, simulate
from mosaic.policies.search.tree import ILLEGAL, make_evaluator, make_leaves, make_rules, make_tree, plant
from tests.policies.search import reference_tree
from tests.policies.search.tree_search_cases import (
    CONNECT_FOUR,
    TICTACTOE,
    connect_four_position,
    kernel_of,
    network_of,
    searcher_at,
    tictactoe_position,
)


def python_network(network):
    """The network as a function of a board, for the reference tree."""
    from mosaic.models.fused import build_model

    model = build_model(network.architecture)
    scratch = make_scratch(model, 1)

    def judge(board):
        row, _, _ = tictactoe_position(board)
        out, _ = outputs(network.weights, model, row[None], np.zeros((1, 0), np.float32), scratch)
        return out[0, :9].astype(float), float(out[0, 9])

    return judge


def boards_of(seed, count, plies):
    """Positions after random moves, none of which is over."""
    random, found = np.random.default_rng(seed), []
    while len(found) < count:
        board = tictactoe.EMPTY
        for _ in range(int(random.integers(0, plies))):
            if not tictactoe.is_over(board):
                board = tictactoe.place(board, int(random.choice(tictactoe.moves(board))))
        if not tictactoe.is_over(board):
            found.append(board)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_tree_is_the_readable_one(seed):
    network = network_of(TICTACTOE, seed)
    judge = python_network(network)
    for board in boards_of(seed, 6, 6):
        theirs = reference_tree.search(board, judge, 60, 1.5)
        (mine,) = searcher_at(TICTACTOE, [tictactoe_position(board)], network, 61).search(60)
        assert mine.visits.tolist() == [theirs.visits.get(cell, 0) for cell in range(9)]
        assert mine.proven == (theirs.proof is not None)
        mean = (theirs.value + sum(theirs.totals.values())) / (1 + sum(theirs.visits.values()))
        assert mine.value == pytest.approx(mean if theirs.proof is None else theirs.proof, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_gumbel_selection_is_the_readable_one(seed):
    network, kernel, simulations = network_of(TICTACTOE, seed), kernel_of(TICTACTOE), 20
    boards = boards_of(10 + seed, 5, 5)
    made = searcher_at(TICTACTOE, [tictactoe_position(board) for board in boards], network, simulations + 1)
    tree, leaves = (make(kernel, len(boards), simulations + 1) for make in (make_tree, make_leaves))
    net, rules = make_evaluator(network.architecture, network.weights, len(boards)), make_rules(kernel)
    noise = np.random.default_rng(seed).gumbel(size=(len(boards), 9)).astype(np.float32)
    schedule = halving_schedule(simulations, 9)
    plant(rules, tree, leaves, net, made.roots, made.shown)
    simulate(rules, tree, leaves, net, simulations, np.float32(1.5), schedule, noise)
    for game, board in enumerate(boards):
        theirs = reference_tree.gumbel_search(
            board, python_network(network), simulations, 1.5, noise[game].astype(float), schedule
        )
        assert tree.edge_visits[game, 0].tolist() == [theirs.visits.get(cell, 0) for cell in range(9)]
        score, value = np.zeros(9, np.float32), np.zeros(9, np.float32)
        score_edges(tree, game, noise[game], score, value)
        values, scores = reference_tree.scores(theirs, noise[game].astype(float))
        for move in theirs.moves:
            assert value[move] == pytest.approx(values[move], abs=1e-4)
            assert score[move] == pytest.approx(scores[move], abs=2e-3)


def test_positions_are_searched_together_as_alone():
    network = network_of(CONNECT_FOUR)
    boards = [connect_four.EMPTY]
    for column in (3, 3, 2, 4, 1):
        boards.append(connect_four.drop(boards[-1], column))
    positions = [connect_four_position(board) for board in boards]
    together = searcher_at(CONNECT_FOUR, positions, network, 201).search(200)
    for position, found in zip(positions, together, strict=True):
        (alone,) = searcher_at(CONNECT_FOUR, [position], network, 201).search(200)
        assert alone.visits.sum() == found.visits.sum()
        assert alone.value == pytest.approx(found.value, abs=0.05)  # sums of other row counts round differently


def test_every_forced_win_is_found():
    """In all positions with a few free cells, search proves what minimax knows, whatever the network says."""
    boards = [board for board in boards_of(3, 300, 9) if len(tictactoe.moves(board)) <= 6]
    network = network_of(TICTACTOE, 1, noise=2.0)
    found = searcher_at(TICTACTOE, [tictactoe_position(board) for board in boards], network, 2001).search(2000)
    assert len(boards) > 150
    for board, result in zip(boards, found, strict=True):
        assert result.proven
        assert result.value == tictactoe.value(board)
        if result.value >= 0:  # where everything loses, minimax prefers to parry
            assert result.action in tictactoe.best_moves(board)


def test_forced_wins_of_connect_four_are_found():
    random, network = np.random.default_rng(0), network_of(CONNECT_FOUR, noise=0.0)
    wins = []
    while len(wins) < 20:
        board = connect_four.EMPTY
        for _ in range(int(random.integers(14, 26))):
            board = connect_four.drop(board, int(random.choice(list(connect_four.landings(board)))))
            if connect_four.value(board, depth=0) or not connect_four.landings(board):
                break
        else:
            if connect_four.value(board, depth=3) == 0 and connect_four.value(board, depth=5) == 1:  # in five plies
                wins.append(board)
    found = searcher_at(CONNECT_FOUR, [connect_four_position(board) for board in wins], network, 3001).search(3000)
    for board, result in zip(wins, found, strict=True):
        assert result.proven
        assert result.value == 1
        assert connect_four.value(connect_four.drop(board, result.action)) == -1


def test_proofs_hold_in_the_whole_tree():
    """Every proven node and edge of a search of connect four has the exact value."""
    random, network, kernel = np.random.default_rng(1), network_of(CONNECT_FOUR), kernel_of(CONNECT_FOUR)
    board = connect_four.EMPTY
    while (board.mine | board.theirs).bit_count() < 22:
        after = connect_four.drop(board, int(random.choice(list(connect_four.landings(board)))))
        board = after if connect_four.value(after) == 0 else board
    made = searcher_at(CONNECT_FOUR, [connect_four_position(board)], network, 400)
    tree, leaves, rules = make_tree(kernel, 1, 400), make_leaves(kernel, 1, 400), make_rules(kernel)
    net = make_evaluator(network.architecture, network.weights, 1)
    plant(rules, tree, leaves, net, made.roots, made.shown)
    simulate(rules, tree, leaves, net, 399, np.float32(1.5), np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32))
    proven = 0
    for node in range(tree.used[0]):
        mine, taken, mover = (int(number) for number in tree.states.ints[node])
        here = connect_four.ConnectFourBoard(mine, mine ^ taken)
        assert mover == tree.mover[0, node] == taken.bit_count() % 2
        if tree.proof[0, node] != UNKNOWN:
            assert tree.proof[0, node] == connect_four.value(here)
        for column in range(7):
            proof = tree.edge_proof[0, node, column]
            if proof not in (UNKNOWN, ILLEGAL):
                proven += 1
                assert proof == -connect_four.value(connect_four.drop(here, column))
    assert proven > 50


def test_the_halving_schedule():
    schedule = halving_schedule(16, 7)
    assert schedule.shape == (8, 16)
    assert schedule[1].tolist() == list(range(16))
    assert schedule[4].tolist() == [0] * 4 + [1] * 4 + [2, 2, 3, 3, 4, 4, 5, 5]
    assert (halving_schedule(2, 9)[9] == 0).all()
