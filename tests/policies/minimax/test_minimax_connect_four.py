"""Connect four: the search against a plain one, and what is known of the game."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic import load_policy, make_env
from mosaic.envs.compiled.board_games.connect_four_bits import CELLS, landing_cells, winning_cells
from mosaic.policies.minimax import connect_four_book as book
from mosaic.policies.minimax.connect_four import (
    EMPTY,
    ConnectFourBoard,
    best_moves,
    drop,
    judge,
    landings,
    read_board,
    value,
)
from mosaic.policies.minimax.connect_four_search import TABLE_ENTRIES, new_scratch, new_table, reaches

LINES = [
    [(row + i * down, column + i * right) for i in range(4)]
    for down, right in ((0, 1), (1, 0), (1, 1), (-1, 1))
    for row in range(6)
    for column in range(7)
    if 0 <= row + 3 * down < 6 and column + 3 * right < 7
]


class Plain:
    """The game on a grid of 0, 1 and 2, without any cleverness."""

    def __init__(self, columns=()):
        self.grid = [[0] * 7 for _ in range(6)]  # row 0 at the bottom
        self.count = 0
        for column in columns:
            self.play(column)

    def open(self):
        return [column for column in range(7) if not self.grid[5][column]]

    def play(self, column):
        row = next(row for row in range(6) if not self.grid[row][column])
        self.grid[row][column] = 1 + self.count % 2
        self.count += 1
        return row

    def undo(self, row, column):
        self.grid[row][column] = 0
        self.count -= 1

    def won(self):
        """Has the player who moved last four in a row?"""
        who = 2 - self.count % 2
        return any(all(self.grid[row][column] == who for row, column in line) for line in LINES)

    def value(self, depth=CELLS):
        """For the player to move, by trying everything."""
        if self.won():
            return -1
        if depth == 0 or self.count == CELLS:
            return 0
        return max(self.values(depth).values())

    def values(self, depth=CELLS):
        found = {}
        for column in self.open():
            row = self.play(column)
            found[column] = -self.value(depth - 1)
            self.undo(row, column)
        return found

    @property
    def board(self):
        mover = 1 + self.count % 2
        bits = {1: 0, 2: 0, 0: 0}
        for row in range(6):
            for column in range(7):
                bits[self.grid[row][column]] |= 1 << 7 * column + row
        return ConnectFourBoard(bits[mover], bits[3 - mover])


def random_game(draw, least, most):
    """A game that is still going on after so many stones."""
    plain = Plain()
    wanted = draw(st.integers(least, most))
    choices = draw(st.randoms(use_true_random=False))
    while plain.count < wanted:
        open_columns = plain.open()
        choices.shuffle(open_columns)
        for column in open_columns:
            row = plain.play(column)
            if not plain.won():
                break
            plain.undo(row, column)
        else:
            break
    return plain


endgames = st.composite(random_game)(35, 41)
middle_games = st.composite(random_game)(0, 30)


@settings(deadline=None, max_examples=100)
@given(endgames)
def test_exact_values_are_those_of_a_plain_search(plain):
    values = plain.values()
    verdict = judge(plain.board)
    assert verdict.value == max(values.values()) == value(plain.board)
    assert all(values[column] == verdict.value for column in verdict.moves)
    if verdict.value == 0:
        assert verdict.moves == tuple(column for column in values if values[column] == 0)


@settings(deadline=None, max_examples=40)
@given(middle_games, st.integers(1, 4))
def test_limited_values_are_those_of_a_plain_search(plain, depth):
    values = plain.values(depth)
    verdict = judge(plain.board, depth=depth)
    assert verdict.value == max(values.values())
    assert all(values[column] == verdict.value for column in verdict.moves)
    if verdict.value == 0:
        assert verdict.moves == tuple(column for column in values if values[column] == 0)


@settings(deadline=None, max_examples=150)
@given(st.composite(random_game)(16, 41), st.sampled_from([6, 9, 12, None]))
def test_a_board_is_worth_what_its_mirror_image_is_worth(plain, depth):
    image = Plain()
    image.grid, image.count = [row[::-1] for row in plain.grid], plain.count
    ours, theirs = judge(plain.board, depth=depth), judge(image.board, depth=depth)
    assert ours.value == theirs.value
    assert set(ours.moves) == {6 - column for column in theirs.moves}


@settings(deadline=None, max_examples=150)
@given(middle_games, st.sampled_from([2, 3, 4]))
def test_wins_in_one_are_taken_and_losses_in_one_are_parried(plain, depth):
    moves = best_moves(plain.board, depth)
    now = plain.values(1)
    if max(now.values()) == 1:
        assert moves == tuple(column for column in now if now[column] == 1)
        return
    soon = plain.values(2)
    if max(soon.values()) == 0:
        assert all(soon[column] == 0 for column in moves)


@settings(deadline=None, max_examples=60)
@given(st.composite(random_game)(20, 32))
def test_what_the_table_holds_changes_no_answer(plain):
    """A fresh table, the process's table, and one that limited searches have filled."""
    board = plain.board
    mask = board.mine | board.theirs
    if max(plain.values(1).values()) == 1:
        return  # the search is not asked then
    stones = np.uint64(board.mine), np.uint64(mask), plain.count
    table = new_table(1009)
    answers = [reaches(*stones, goal, CELLS, new_table(1 << 16), new_scratch()) for goal in (True, False)]
    for horizon in (plain.count + 9, plain.count + 10, CELLS):
        for goal in (False, True):
            reaches(*stones, goal, min(horizon, CELLS), table, new_scratch())
    assert [reaches(*stones, goal, CELLS, table, new_scratch()) for goal in (True, False)] == answers
    assert value(board) == (1 if answers[0] else 0 if answers[1] else -1)


def test_a_lost_position_is_still_defended():
    both_ends = Plain([3, 3, 2, 2, 4])  # three in the bottom row, open at both ends
    assert judge(both_ends.board, depth=2) == (-1, tuple(range(7)))
    one_end = Plain([3, 0, 3, 0, 3])
    assert judge(one_end.board) == (-1, (3,))
    assert judge(one_end.board, depth=1) == (0, tuple(range(7)))  # one ply sees no threat


def test_only_legal_columns_are_weighed():
    plain = Plain([3, 0, 3, 0, 3, 0])
    assert judge(plain.board) == (1, (3,))
    assert judge(plain.board, [0]).moves == (0,)
    assert judge(plain.board, [1, 2, 5], depth=2) == (-1, (1, 2, 5))  # nobody stops column 0


def test_the_table_fits_into_64_mb():
    assert new_table(10).itemsize * TABLE_ENTRIES <= 64 * 2**20


def test_the_first_player_wins_in_the_centre_alone():
    """Allis and Allen, 1988: the centre wins, its neighbours draw, the other four columns lose."""
    assert judge(EMPTY) == (1, (3,))
    replies = [-value(drop(EMPTY, column)) for column in range(7)]
    assert replies == [-1, -1, 0, 1, 0, -1, -1]


def test_the_book_has_every_opening_once():
    levels = book.openings(4)
    assert [len(level.keys) for level in levels] == [1, 4, 25, 121, 568]
    for level in levels:
        assert (level.keys == np.unique(book.key_of(level.mine, level.mask))).all()


@given(st.lists(st.sampled_from([-1, 0, 1]), max_size=40))
def test_packed_values_come_back(values):
    assert book.unpack(book.pack(np.array(values, np.int8)), len(values)).tolist() == values


def test_the_book_counts_what_tromp_counted():
    """John Tromp's database (UCI, connect-4): 8 plies, nobody wins at once, the next move is not forced."""
    last = book.openings(8)[-1]
    forced = winning_cells(last.mask ^ last.mine, last.mask) & landing_cells(last.mask) != 0
    stored = book.unpack((Path(book.__file__).parent / book.FILE_NAME).read_bytes(), np.count_nonzero(~last.won))
    counts = np.bincount(stored[~forced[~last.won]] + 1)
    assert counts.tolist() == [16635, 6449, 44473]  # lost, drawn, won for the mover


def assert_the_book_agrees(count, seed):
    last, table = book.openings(book.BOOK_PLY)[-1], new_table()
    for index in np.random.default_rng(seed).choice(np.flatnonzero(~last.won), count, replace=False):
        mine, mask = last.mine[index], last.mask[index]
        found = book.book_value(int(mine), int(mask))
        assert reaches(mine, mask, book.BOOK_PLY, True, CELLS, table, new_scratch()) == (found == 1)
        assert reaches(mine, mask, book.BOOK_PLY, False, CELLS, table, new_scratch()) == (found >= 0)


@pytest.mark.slow
@pytest.mark.chosen
def test_the_book_agrees_with_the_search():
    assert_the_book_agrees(8, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_more_of_the_book_agrees_with_the_search():
    assert_the_book_agrees(200, seed=2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_empty_board_is_won_without_the_book():
    assert reaches(np.uint64(0), np.uint64(0), 0, True, CELLS, new_table(), new_scratch())


def test_the_board_is_read_as_pettingzoo_shows_it():
    env = make_env("classic/connect_four_v3")
    turn = env.reset(0)
    plain = Plain()
    for column in (3, 3, 0, 6, 3, 3, 3, 3, 5):
        ((agent, observation),) = turn.observations.items()
        assert read_board(observation) == plain.board
        assert np.flatnonzero(turn.action_masks[agent]).tolist() == list(landings(plain.board))
        turn = env.step({agent: column})
        plain.play(column)
    env.close()


def play(env, references, seed):
    controllers = {agent: load_policy(name, env.spec, (agent,)) for agent, name in references.items()}
    for index, (agent, controller) in enumerate(controllers.items()):
        controller.begin((agent,), 2 * seed + index)
    turn, game = env.reset(0), []
    while not turn.over:
        (agent,) = turn.observations
        action = controllers[agent].act(turn.only([agent]))[agent]
        game.append(action)
        turn = env.step({agent: action})
    return tuple(game), dict(turn.rewards)


def test_games_differ_by_seed_and_by_nothing_else():
    env = make_env("classic/connect_four_v3")
    pair = {"player_0": "minimax:depth=4", "player_1": "minimax:depth=3"}
    games = [play(env, pair, seed) for seed in range(15)]
    assert len({game for game, _ in games}) == 15
    assert play(env, pair, 0) == games[0]
    env.close()


@pytest.mark.slow
def test_perfect_play_wins_as_first_against_everybody():
    env = make_env("classic/connect_four_v3")
    for seed, opponent in enumerate(["random", "minimax:depth=4", "minimax"]):
        _, rewards = play(env, {"player_0": "minimax", "player_1": opponent}, seed)
        assert rewards == {"player_0": 1.0, "player_1": -1.0}
    env.close()
