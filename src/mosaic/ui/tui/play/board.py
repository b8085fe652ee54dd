"""Boards drawn with characters: cells with what stands on them, the cursor, and what may be chosen."""

from __future__ import annotations

from rich.text import Text

from mosaic.ui.tui.play.view import CellPlace, MatchView, marks_of

_PIECES = dict(zip("KQRBNPkqrbnp", "♔♕♖♗♘♙♚♛♜♝♞♟", strict=True))
_COLOURS = {"X": "bold #6cb6ff", "O": "bold #f0a35e"}
_WHITE_PIECE, _BLACK_PIECE = "bold #ffffff", "bold #e0a458"
_LIGHT, _DARK, _CURSOR, _CHOSEN = "on #253246", "on #1a222e", "on #2f6f66", "on #6b5b1e"
_TALLEST = 3  # lines of a cell


def draw_board(view: MatchView, cursor: CellPlace | None, width: int, height: int) -> Text:
    """Draw the board as large as it fits; the cursor has brackets, a cell that may be chosen a dot."""
    rows, columns = len(view.board), len(view.board[0])
    tall = max(1, min(_TALLEST, (height - 1) // rows))
    wide = max(3, min(2 * tall + 1, (width - 3) // columns))
    marks = marks_of(view)
    text = Text(no_wrap=True)
    for row, cells in enumerate(view.board):
        for line in range(tall):
            middle = line == tall // 2
            text.append(f"{_row_name(view, row):>2} " if middle else "   ", "#7d8794")
            for column, symbol in enumerate(cells):
                place = (row, column)
                ground = _LIGHT if (row + column) % 2 == 0 else _DARK
                ground = _CHOSEN if place in marks.chosen else _CURSOR if place == cursor else ground
                shown, style = _symbol(view, symbol)
                if not symbol and place in marks.free:
                    shown, style = "·", "#2dbfab"
                inside = shown if middle else " "
                if middle and place == cursor:
                    inside = f"[{shown}]"
                elif middle and symbol and place in marks.free:
                    inside = f"·{shown}·"
                elif middle and place in marks.chosen:
                    inside = f"<{shown}>"
                text.append(inside.center(wide), f"{style} {ground}")
            text.append("\n")
    text.append("   " + "".join(_column_name(view, column).center(wide) for column in range(columns)), "#7d8794")
    return text


def moved(view: MatchView, cursor: CellPlace, key: str) -> CellPlace:
    """Return the cell next to the cursor; it stays on the board."""
    down, right = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}[key]
    rows, columns = len(view.board), len(view.board[0])
    return min(max(cursor[0] + down, 0), rows - 1), min(max(cursor[1] + right, 0), columns - 1)


def name_of(view: MatchView, cell: CellPlace) -> str:
    """Return a cell's name as its row and column are labelled: e4, b2."""
    return f"{_column_name(view, cell[1])}{_row_name(view, cell[0])}"


def _is_chess(view: MatchView) -> bool:
    return view.env.startswith("classic/chess")


def _symbol(view: MatchView, symbol: str) -> tuple[str, str]:
    if _is_chess(view) and symbol:
        return _PIECES[symbol], _WHITE_PIECE if symbol.isupper() else _BLACK_PIECE
    return symbol or " ", _COLOURS.get(symbol, "")


def _row_name(view: MatchView, row: int) -> str:
    return "" if view.env.startswith("classic/connect_four") else str(len(view.board) - row)


def _column_name(view: MatchView, column: int) -> str:
    if view.env.startswith("classic/connect_four"):
        return str(column + 1)
    letters = "abcdefgh" if len(view.board) <= 8 else "ABCDEFGHJKLMNOPQRST"
    return letters[column]
