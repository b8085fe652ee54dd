"""Do our numbers of chess moves agree with PettingZoo's own?"""

from __future__ import annotations

from collections import Counter
from random import Random

import chess
import pytest
from pettingzoo.classic.chess import chess_utils

from mosaic.core.errors import FormatError, InputError
from mosaic.envs.chess import ACTIONS, action_of, check_fen, is_white_to_move, piece_at, uci_of

START = chess.STARTING_FEN
EMPTY = {True: "8/8/8/8/8/8/8/8 w - - 0 1", False: "8/8/8/8/8/8/8/8 b - - 0 1"}
SHARP = [  # castling on both sides, promotion with and without capture, en passant to the left and to the right
    "r3k2r/pppppppp/8/8/8/8/PPPPPPPP/R3K2R {} KQkq - 0 1",
    "1n1n4/P1P1k3/8/8/8/8/p1p1K3/1N1N4 {} - - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N {} - - 0 1",
]
EN_PASSANT = ["4k3/8/8/3pPp2/8/8/8/4K3 w - d6 0 1", "4k3/8/8/8/3PpP2/8/8/4K3 b - f3 0 1"]


def special(board: chess.Board, move: chess.Move) -> str | None:
    if board.is_castling(move):
        return "king side" if board.is_kingside_castling(move) else "queen side"
    if board.is_en_passant(move):
        return "en passant"
    return f"promotion to {move.promotion}" if move.promotion else None


def compare(board: chess.Board, seen: Counter[tuple[bool, str | None]]) -> None:
    """Every legal move of a position, to its number and back."""
    white, fen = board.turn, board.fen()
    ours = {action_of(move.uci(), white): move for move in board.legal_moves}
    assert sorted(ours) == sorted(chess_utils.legal_moves(board))
    for action, move in ours.items():
        assert chess_utils.action_to_move(board, action, 0 if white else 1) == move
        assert uci_of(action, fen) == move.uci()
        seen[white, special(board, move)] += 1


def test_every_legal_move_of_random_games_has_pettingzoos_number() -> None:
    seen: Counter[tuple[bool, str | None]] = Counter()
    for seed in range(6):
        random, board = Random(seed), chess.Board()
        while not board.is_game_over(claim_draw=False) and board.ply() < 250:
            compare(board, seen)
            board.push(random.choice(list(board.legal_moves)))
    for position in SHARP:
        compare(chess.Board(position.format("w")), seen)
        compare(chess.Board(position.format("b")), seen)
    for position in EN_PASSANT:
        compare(chess.Board(position), seen)
    kinds = [None, "king side", "queen side", "en passant", *(f"promotion to {piece}" for piece in range(2, 6))]
    assert {(white, kind) for white in (True, False) for kind in kinds} == set(seen)


@pytest.mark.parametrize("white", [True, False])
def test_each_number_is_one_move_or_none(white: bool) -> None:
    """1858 moves exist: 1456 of a queen, 336 of a knight, 66 promotions to less than a queen."""
    moves = {}
    for action in range(ACTIONS):
        try:
            moves[action] = uci_of(action, EMPTY[white])
        except InputError:
            continue
    assert len(moves) == len(set(moves.values())) == 1858
    assert all(action_of(move, white) == action for action, move in moves.items())


def test_black_sees_the_board_mirrored() -> None:
    assert action_of("e2e4", True) == action_of("e7e5", False)
    assert uci_of(action_of("g1f3", True), START.replace(" w ", " b ")) == "g8f6"


@pytest.mark.parametrize("move", ["", "e2", "e2e9", "0000", "(none)", "e7e8k", "e2e4\nquit", "O-O"])
def test_what_is_no_move_is_refused(move: str) -> None:
    with pytest.raises(InputError, match="is not a chess move in UCI text, for example e2e4, e1g1 or a7a8q"):
        action_of(move, True)


@pytest.mark.parametrize("move", ["e2e2", "a1b4", "e2e3q", "e7e5q", "e7e8n", "a2c1n", "e1h8"])
def test_what_no_piece_does_is_refused(move: str) -> None:
    with pytest.raises(InputError, match=f"No black piece can make the move '{move}'"):
        action_of(move, False)


@pytest.mark.parametrize("action", [-1, 0, ACTIONS, 72])
def test_a_number_that_leads_nowhere_is_refused(action: int) -> None:
    with pytest.raises(InputError, match=f"Action {action} is not a chess move"):
        uci_of(action, START)


def test_a_position_tells_colour_and_pieces() -> None:
    assert is_white_to_move(START)
    assert not is_white_to_move(EMPTY[False])
    board = chess.Board(START)
    for square in chess.SQUARES:
        piece = board.piece_at(square)
        expected = piece.symbol() if piece else None
        assert piece_at(START, chess.square_file(square), chess.square_rank(square)) == expected


@pytest.mark.parametrize(
    "fen", ["", "startpos", "8/8 w - - 0 1", f"{START}\nquit", START.replace("8/8", "9/7"), START + " moves e2e4"]
)
def test_what_is_no_position_is_refused(fen: str) -> None:
    with pytest.raises(FormatError, match="is not a chess position in FEN, for example 'rnbqkbnr/"):
        check_fen(fen)
