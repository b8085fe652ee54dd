"""Connect four in a hashed table: equal to a dictionary in plain Python, resumed bit by bit, and it learns."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.envs.compiled.board_games.connect_four import drop_stone, key_of, open_columns, position_of_key
from mosaic.learners.tabular.hashed.table import find_sorted
from mosaic.learners.tabular.hashed.training import HashedTraining
from mosaic.learners.tabular.options import TabularOptions, epsilon_after
from mosaic.learners.tabular.random import below, draw, stream, uniform

LINES = [
    [(column + i * across, row + i * up) for i in range(4)]
    for column in range(7)
    for row in range(6)
    for across, up in ((1, 0), (0, 1), (1, 1), (1, -1))
    if column + 3 * across < 7 and 0 <= row + 3 * up < 6
]


class Board:
    """Connect four without bits: the stones of each column from below, 0 for the first player's."""

    def __init__(self):
        self.columns, self.moves = [[] for _ in range(7)], 0

    def legal(self):
        return [column for column in range(7) if len(self.columns[column]) < 6]

    def drop(self, column):
        """Whether it wins, and whether the game is over."""
        mover = self.moves % 2
        self.columns[column].append(mover)
        self.moves += 1
        cells = {(c, r) for c, stones in enumerate(self.columns) for r, owner in enumerate(stones) if owner == mover}
        won = any(cells.issuperset(line) for line in LINES)
        return won, won or self.moves == 42

    def seen(self):
        """By the mover: hashable."""
        return tuple(tuple(owner == self.moves % 2 for owner in stones) for stones in self.columns)

    def key(self):
        """Per column and 7 bits: a 1 above all stones, below it a 1 for each of the mover's."""
        code = lambda mine: sum(own << row for row, own in enumerate(mine)) + (1 << len(mine))  # noqa: E731
        return sum(code(mine) << (7 * column) for column, mine in enumerate(self.seen()))


def reference(options, seed, steps):
    """(values, visits, statistics) by position, in dictionaries."""
    dtype, key = np.dtype(options.dtype).type, stream(seed, "tabular")
    values, visits, keys, returns, lengths = {}, {}, {}, [], []
    epsilon, board, draws = options.epsilon, Board(), 0

    def row():
        seen = board.seen()
        keys[seen] = board.key()
        visits.setdefault(seen, [0] * 7)
        return values.setdefault(seen, [dtype(options.initial_value)] * 7)

    for _ in range(steps):
        mine, counts, legal = row(), visits[board.seen()], board.legal()
        first, second = draw(key, draws), draw(key, draws + 1)
        draws += 2
        top = max(mine[column] for column in legal)
        pool = legal if uniform(first) < epsilon else [column for column in legal if mine[column] == top]
        action = pool[below(second, len(pool))]
        won, over = board.drop(action)
        target = float(won)
        if not over:
            target -= options.discount_factor * float(max(row()[column] for column in board.legal()))
        counts[action] += 1
        rate = options.learning_rate
        if options.learning_rate_schedule == "visits":
            rate = max(1.0 / counts[action], options.learning_rate_min)
        mine[action] = dtype(float(mine[action]) + rate * (target - float(mine[action])))
        if over:
            returns.append((1.0 if board.moves % 2 else -1.0) if won else 0.0)
            lengths.append(board.moves)
            epsilon, board = epsilon_after(options, epsilon, len(returns)), Board()
    order = sorted(keys, key=keys.get)
    return [keys[s] for s in order], [values[s] for s in order], [visits[s] for s in order], returns, lengths, epsilon


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dtype": "float64", "epsilon": 0.5, "epsilon_schedule": "linear", "epsilon_episodes": 7},
        {"learning_rate_schedule": "visits", "initial_value": 0.5, "epsilon_schedule": "constant"},
    ],
    ids=["plain", "float64 linear", "visits optimistic"],
)
def test_the_loop_equals_a_dictionary_in_plain_python(settings):
    options = TabularOptions(**settings)
    keys, values, visits, returns, lengths, epsilon = reference(options, 5, 3000)
    training = HashedTraining("q_learning", options, seed=5, capacity=16)  # grows many times
    for part in (1, 6, 1500, 1493):  # left and taken up again at any move
        training.advance(part)
    tensors = training.tensors()
    assert tensors["keys"].tolist() == keys
    assert np.array_equal(tensors["visits"], visits)
    assert np.array_equal(tensors["values"], np.array(values, options.dtype))
    assert training.env_steps == training.agent_steps == 3000 == tensors["visits"].sum()
    assert training.episodes == len(returns)
    assert training.coverage == np.count_nonzero(visits) / (7 * len(keys))
    statistics = training.read_statistics()
    assert statistics.return_mean == np.mean(returns)
    assert statistics.length_mean == np.mean(lengths)
    assert (statistics.return_min, statistics.return_max, statistics.epsilon) == (min(returns), max(returns), epsilon)
    assert training.read_statistics().episodes == 0


@settings(deadline=None)  # the first call may compile
@given(st.integers(0, 2**32), st.integers(0, 42))
def test_a_key_is_a_position_and_back(seed, plies):
    board, random = Board(), Random(seed)
    mine = taken = np.uint64(0)
    for _ in range(plies):
        column = random.choice(board.legal())
        won, over = board.drop(column)
        *words, has_won, is_over = drop_stone(mine, taken, column)
        mine, taken = map(np.uint64, words)  # compiled code gives plain ints back
        assert (has_won, is_over) == (won, over)
        if over:
            break
    key = key_of(mine, taken)
    assert key == board.key()
    assert position_of_key(np.uint64(key)) == (mine, taken)
    assert [column for column in range(7) if open_columns(taken) >> column & 1] == board.legal()


def test_saved_and_restored_it_continues_bit_for_bit(tmp_path):
    options = TabularOptions(epsilon=0.3)
    whole = HashedTraining("q_learning", options, seed=2)
    whole.advance(20_000)
    first = HashedTraining("q_learning", options, seed=2)
    first.advance(7_777)
    first.save(tmp_path)
    second = HashedTraining("q_learning", options, seed=2, capacity=64)
    second.restore(tmp_path, 7_777)
    second.advance(20_000 - 7_777)
    for name, tensor in whole.tensors().items():
        assert np.array_equal(tensor, second.tensors()[name]), name


def test_it_stops_at_so_many_episodes():
    training = HashedTraining("q_learning", TabularOptions(), seed=1, capacity=16)
    training.advance(1_000_000, episodes=12)
    assert training.episodes == 12
    assert training.env_steps < 12 * 43
    steps = training.env_steps
    training.advance(100, episodes=12)
    assert training.env_steps == steps


def test_what_it_cannot_do_is_said(tmp_path):
    with pytest.raises(InputError, match="Games are trained with q_learning, not sarsa"):
        HashedTraining("sarsa", TabularOptions(), seed=1)
    with pytest.raises(InputError, match="not q_learning with ucb"):
        HashedTraining("q_learning", TabularOptions(exploration="ucb"), seed=1)
    small = HashedTraining("q_learning", TabularOptions(), seed=1, memory_limit=2**20, capacity=2**12)
    with pytest.raises(InputError, match=r"16,384 places × 7 actions needs 1,048,576 bytes; 524,288 are left"):
        small.advance(1_000_000)
    small.save(tmp_path)  # what was learned can still be saved
    other = HashedTraining("q_learning", TabularOptions(initial_value=1.0), seed=1)
    with pytest.raises(InputError, match=r"began at 0\.0, but this run's initial_value is 1\.0"):
        other.restore(tmp_path, 0)


def score(tensors, seat, seed):
    """Of one game against random moves: 1 for a win, 0.5 for a draw."""
    board, random = Board(), Random(seed)
    while True:
        row = find_sorted(tensors["keys"], board.key()) if board.moves % 2 == seat else None
        legal = board.legal()
        if row is not None:
            top = max(tensors["values"][row, column] for column in legal)
            legal = [column for column in legal if tensors["values"][row, column] == top]
        won, over = board.drop(random.choice(legal))
        if over:
            return 0.5 if not won else float(board.moves % 2 != seat)


@pytest.mark.slow
def test_self_play_learns_to_beat_random():
    """One-step backups need many games here: 61 % after 3 million moves, 73 % after 10 million (means of 4 seeds)."""
    options = TabularOptions(
        epsilon=0.5, epsilon_schedule="constant", learning_rate=0.5, discount_factor=0.99, initial_value=-0.5
    )
    training = HashedTraining("q_learning", options, seed=1)
    scores = []
    for moves in (1000, 10_000_000):
        training.advance(moves)
        tensors = training.tensors()
        scores.append(np.mean([score(tensors, game % 2, game) for game in range(400)]))
    assert scores[0] < 0.6 <= scores[1]  # four standard errors above one half
